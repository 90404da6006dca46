"""What the initiator decided and what the cleaner did, as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from acidlib.report.results import (
    CleaningResult,
    CleaningTotals,
    InitiatorResult,
    InitiatorTotals,
    RemovedPath,
    Verdict,
)
from acidlib.report.text import First, by_state, field, fitted, one_line, relative, shortened, with_summary, wrapped
from acidlib.wording import human_bytes, plural

_PATHS_SHOWN = 20
_HEADER = ("Place", "Decision", "Request", "Deltas", "In deltas", "In base", "Ratio")


class InitiatorText:
    """A line of totals, and a table of the places that were looked at, with the reason and the threshold below each.

    Of many places that are decided alike the first are listed and the others counted; each that failed is listed.
    """

    def __init__(self, totals: InitiatorTotals) -> None:
        self._totals = totals
        self._rows: First[InitiatorResult] = First()

    def add(self, result: InitiatorResult) -> None:
        """One more place."""
        kind = f"for a {result.type} compaction" if result.outcome is Verdict.DUE else result.outcome.value
        self._rows.add(None if result.failed else kind, lambda: result)

    def pieces(self, notes: Sequence[str]) -> Iterator[str]:
        """The text; notes are none of it."""
        del notes
        if not self._totals.looked_at:
            yield "Nothing to look at: no table was found."
            return
        listed = self._rows.items()
        rows = [_HEADER, *(_initiator_row(result) for result in listed)]
        table = fitted(rows, right=(2, 3, 4, 5, 6))
        each = len(table) // len(rows)
        lines = table[:each]
        for number, result in enumerate(listed, start=1):
            lines += [*table[number * each : (number + 1) * each], *wrapped(_why(result), "    ")]
        yield "\n".join([*wrapped(self._summary()), "", *lines, *self._rows.others()])

    def _summary(self) -> str:
        totals = self._totals
        due = by_state(dict(sorted(totals.due.items())))
        counts = [(one, totals.outcomes[one]) for one in Verdict if one is not Verdict.DUE]
        others = [f"{count:,} {one.value}" for one, count in counts if count or one is Verdict.LEFT_ALONE]
        outcomes = ", ".join([due or "none to compact", *others])
        looked_at = plural(totals.looked_at, "place")
        return f"{looked_at} looked at: {outcomes}; {plural(totals.queued, 'request')} queued"


class CleanerText:
    """A block per request, or per partition with litter: what went (or would go) and why, what stays and why.

    Of many that ended alike the first have a block and the others are counted; each that failed has one.
    """

    def __init__(self, totals: CleaningTotals, *, dry_run: bool, verbose: bool = False) -> None:
        self._totals = totals
        self._dry_run = dry_run
        self._verbose = verbose
        self._blocks: First[str] = First()

    def add(self, result: CleaningResult) -> None:
        """One more request or partition."""
        self._blocks.add(
            None if result.is_bad else result.state,
            lambda: "\n".join(_cleaning(result, dry_run=self._dry_run, verbose=self._verbose)),
        )

    def pieces(self, notes: Sequence[str]) -> Iterator[str]:
        """The text; notes are none of it."""
        del notes
        if not self._totals.states:
            yield "Nothing to clean."
            return
        yield from with_summary(self._summary(), [*self._blocks.items(), *self._blocks.others()])

    def _summary(self) -> str:
        totals = self._totals
        paths, size = plural(totals.paths_removed, "path"), human_bytes(totals.bytes_removed)
        text = f"{plural(totals.states.total(), 'place')}: {by_state(totals.states)}; {paths}, {size}"
        text = f"Dry run, nothing was changed. {text} would go" if self._dry_run else f"{text} removed"
        if totals.paths_moved:
            moved, size = plural(totals.paths_moved, "path"), human_bytes(totals.bytes_moved)
            text += f"; {moved}, {size} moved to the trash"
        return "\n".join(wrapped(text, "", "    "))


# --- initiator --------------------------------------------------------------------------------------------------------


def _initiator_row(result: InitiatorResult) -> tuple[str, ...]:
    def bytes_or_dash(size: int | None) -> str:
        return "-" if size is None else human_bytes(size)

    return (
        one_line(str(result.ref)),
        _decision(result),
        "-" if result.queued is None else str(result.queued),
        "-" if result.deltas is None else f"{result.deltas:,}",
        bytes_or_dash(result.delta_bytes),
        bytes_or_dash(result.base_bytes),
        "-" if result.ratio is None else f"{result.ratio:,.2%}",
    )


def _decision(result: InitiatorResult) -> str:
    if result.outcome is Verdict.DUE:
        return result.type or "none"
    return "none" if result.outcome is Verdict.LEFT_ALONE else result.outcome.value


def _why(result: InitiatorResult) -> str:
    if result.failed and result.location not in result.reason:
        return f"{result.reason} ({result.location})"
    by_threshold = result.outcome in (Verdict.DUE, Verdict.LEFT_ALONE)
    if result.threshold_key is None or result.threshold is None or not by_threshold:
        return result.reason
    limit = int(result.threshold) if float(result.threshold).is_integer() else result.threshold
    source = f", {result.threshold_source}" if result.threshold_source else ""
    return f"{result.reason} ({result.threshold_key} = {limit}{source})"


# --- cleaner ----------------------------------------------------------------------------------------------------------


def _cleaning(result: CleaningResult, *, dry_run: bool, verbose: bool) -> list[str]:
    request = "" if result.id is None else f" (request {result.id})"
    lines = wrapped(f"{result.ref}: {result.state}{request}", "", "    ")
    lines += field("reason", result.reason)
    lines += field("location", result.location)
    if result.deleted:
        what = f"{plural(len(result.deleted), 'path')}, {human_bytes(result.bytes_removed)}"
        lines += field("would go" if dry_run else "removed", what)
        lines += _removed(result.deleted, result.location, verbose=verbose)
    if result.moved:
        what = f"{plural(len(result.moved), 'path')}, {human_bytes(result.bytes_moved)}"
        where = (result.moved[0].moved_to or "").rpartition("/")[0]
        lines += field("moved", f"{what}, to {where}; they take space until that is emptied")
        lines += _removed(result.moved, result.location, verbose=verbose)
    blocked = list(result.blocked) if verbose else shortened(result.blocked, _PATHS_SHOWN)
    for number, text in enumerate(_alike(blocked)):
        lines += field("" if number else "blocked", text)
    return lines


def _alike(blocked: Sequence[str]) -> Iterator[str]:
    """Return the paths that stay for one and the same reason, and that; each text has its path first."""
    for reason, texts in groupby(blocked, key=lambda text: text.partition(": ")[2]):
        paths = ", ".join(text.partition(": ")[0] for text in texts)
        yield f"{paths}: {reason}" if reason else paths


def _removed(removed: Sequence[RemovedPath], location: str, *, verbose: bool) -> list[str]:
    shown = removed if verbose or len(removed) <= _PATHS_SHOWN + 1 else removed[:_PATHS_SHOWN]
    lines = []
    for item in shown:
        text = f"{relative(item.path, location)}: {item.reason}"
        lines += wrapped(text, f"    {human_bytes(item.bytes):>10}  ", " " * 16)
    if rest := removed[len(shown) :]:
        lines.append(f"    and {plural(len(rest), 'more path')}, {human_bytes(sum(item.bytes for item in rest))}")
    return lines
