"""Which stripes of a bucket are copied and which are rewritten, each with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from acidlib.model.units import MEBIBYTE, RewriteSettings, StripeAction, StripeFacts
from acidlib.wording import plural

MOST_JOINED_ROWS = 1 << 22
"""Rows of a joined stripe: their keys alone are 128 MiB in memory. Columns of few values take next to no bytes, so that
the stripe size bounds nothing there."""
MOST_PARTS = 64
"""Tasks that share a bucket at most: planning it and joining their parts take longer than each of them by then."""
PART_BYTES_OF_A_SLOT = MEBIBYTE // 16


def plan_stripes(stripes: Sequence[StripeFacts], settings: RewriteSettings) -> tuple[StripeAction, ...]:
    """Actions in the order of the stripes, which is the order of their keys.

    A stripe without a reason against it is copied. Others are rewritten, joined with their neighbours up to the stripe
    size and `MOST_JOINED_ROWS`; a small stripe that could be copied joins such a group, or other small ones beside it.
    """
    actions: list[StripeAction] = []
    rewritten: list[StripeFacts] = []
    size = rows = 0
    for stripe in stripes:
        if stripe.kept == 0:
            actions.append(StripeAction(copy=False, stripes=(stripe,), reason="no row of it is left"))
        elif must_rewrite(stripe) is None and stripe.length >= settings.copy_bytes:
            actions += _close(rewritten)
            actions.append(StripeAction(copy=True, stripes=(stripe,), reason=_unchanged(stripe)))
            rewritten = []
        else:
            fits = size + stripe.length <= settings.stripe_bytes and rows + stripe.rows <= MOST_JOINED_ROWS
            if rewritten and not (fits and rewritten[0].timezone == stripe.timezone):
                actions += _close(rewritten)
                rewritten = []
            if not rewritten:
                size = rows = 0
            rewritten.append(stripe)
            size += stripe.length
            rows += stripe.rows
    actions += _close(rewritten)
    # a group closes only after the emptied stripes that lie between its members
    place = {stripe: number for number, stripe in enumerate(stripes)}
    return tuple(sorted(actions, key=lambda action: place[action.stripes[0]]))


def must_rewrite(stripe: StripeFacts) -> str | None:
    """Why a stripe cannot be copied even when it is large enough, or None."""
    if stripe.deleted or stripe.aborted:
        return _dropped([stripe])
    return stripe.no_copy


def _close(group: list[StripeFacts]) -> Iterator[StripeAction]:
    """One action for a group; a single stripe that is only small is copied: joining it with nothing gains nothing."""
    if not group:
        return
    if len(group) == 1 and must_rewrite(group[0]) is None:
        reason = f"{_unchanged(group[0])}, and no small neighbour to join with"
        yield StripeAction(copy=True, stripes=tuple(group), reason=reason)
        return
    yield StripeAction(copy=False, stripes=tuple(group), reason=_summary(group))


def _unchanged(stripe: StripeFacts) -> str:
    return "unchanged" if stripe.regroup is None else f"unchanged but for {stripe.regroup}"


def _summary(group: list[StripeFacts]) -> str:
    changed = [stripe for stripe in group if stripe.deleted or stripe.aborted]
    parts = [_dropped(changed)] if changed else []
    others = Counter(stripe.no_copy or "small" for stripe in group if stripe not in changed)
    parts += [f"{reason} ({count} of {plural(len(group), 'stripe')})" for reason, count in others.most_common()]
    return "; ".join(parts)


def _dropped(stripes: list[StripeFacts]) -> str:
    deleted, aborted = sum(s.deleted for s in stripes), sum(s.aborted for s in stripes)
    counts = [f"{count} {what}" for count, what in ((deleted, "deleted"), (aborted, "aborted")) if count]
    rows = "row" if deleted + aborted == 1 else "rows"
    return f"{rows} to leave out: {', '.join(counts)}"


def part_bytes_on(slots: int, given: int) -> int:
    """Input bytes of a task that shares a bucket with others, where so many tasks run at a time.

    Spark starts some thousand tasks a second: the more cores there are, the longer each has to have one.

    given  at least so many; 0: nothing is shared
    """
    return max(given, slots * PART_BYTES_OF_A_SLOT) if given else 0


def shares(actions: Sequence[StripeAction], part_bytes: int) -> tuple[tuple[int, ...], ...]:
    """The numbers of the rewriting actions, shared out among tasks of about so many input bytes; () for a single task.

    The largest are dealt first, each to the task that has least so far, so that all end at about the same time.
    """
    rewritten = [number for number, action in enumerate(actions) if not action.copy]
    total = sum(actions[number].length for number in rewritten)
    count = min(total // part_bytes, len(rewritten), MOST_PARTS) if part_bytes else 0
    if count < 2:
        return ()
    loads = [(0, task) for task in range(count)]
    dealt: list[list[int]] = [[] for _ in range(count)]
    for number in sorted(rewritten, key=lambda number: -actions[number].length):
        load, task = heappop(loads)
        dealt[task].append(number)
        heappush(loads, (load + actions[number].length, task))
    return tuple(tuple(sorted(numbers)) for numbers in dealt)
