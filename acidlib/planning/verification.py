"""Verification of results: how much of a place is looked at, and which places are held because of what was found.

A result that readers see before it is verified (in a bucket, where no transaction hides it) must neither be built on
nor be cleaned up after: its request names it. Elsewhere a result is compared before any reader sees it. Where a
difference was found, nothing is compacted at the place without verifying it, or the same would be made again and seen.
Either ends with a newer request of the place that counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

from acidlib.errors import RefusedError
from acidlib.model.requests import CompactionRequest, State

DIFFERS = "Cannot vouch for"
"""How the reason begins of a request whose result could not be verified; Hive 4 keeps nothing else of it."""

_NONE, _ALL, _SAMPLE = "none", "all", "sample="
_COUNTS = (State.READY_FOR_CLEANING, State.SUCCEEDED)


def share_of(text: str) -> float | None:
    """The share of the buckets that `acidlib.verify` or --verify asks for; None for none. RefusedError for no share."""
    if text in ("", _NONE):
        return None
    if text == _ALL:
        return 1.0
    try:
        share = float(text.removeprefix(_SAMPLE))
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise RefusedError(
            f"Cannot verify {text!r}: because it is neither none, all, nor sample= and a share such as 0.1"
        )
    return share


def chosen_buckets(buckets: Iterable[int], share: float, *, place: str, request: int | None) -> tuple[int, ...]:
    """The buckets to look at, at least one: the same ones whenever they are chosen for this request at this place."""
    ranked = sorted((_rank(f"{place} {request} {bucket}"), bucket) for bucket in set(buckets))
    within = sum(rank < share * (1 << 64) for rank, _ in ranked)
    if share >= 1:
        within = len(ranked)
    return tuple(sorted(bucket for _, bucket in ranked[: max(within, 1)]))


def _rank(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def is_unverified(request: CompactionRequest) -> bool:
    """Return True for a request whose result was to be verified and was not: as it differs, or as its run has ended."""
    return request.state not in _COUNTS and (shows(request) or has_failed(request))


def shows(request: CompactionRequest) -> bool:
    """Return True where readers see, or may see, what a request made and was not verified."""
    return bool(request.facts.unverified) or "unverified" in request.facts.problems


def has_failed(request: CompactionRequest) -> bool:
    """Whether the verification of its result found a difference, or could not go on."""
    return request.state is State.FAILED and (request.error_message or "").startswith(DIFFERS)


def holding(
    requests: Iterable[CompactionRequest], directories: Collection[str] | None = None
) -> CompactionRequest | None:
    """The request for which a place is held; None where none is.

    requests     of the queue and its history, about this place
    directories  that are there: where all that a request made is gone, it holds nothing; None = not known

    It is the newest that is not verified, before all others one whose result shows; none that is older than one that
    counts: that has released the place.
    """
    rows = [one for one in requests if not _is_gone(one, directories)]
    released = max((one.id for one in rows if one.state in _COUNTS), default=0)
    held = [one for one in rows if is_unverified(one) and one.id > released]
    return max(held, key=lambda one: (shows(one), one.id), default=None)


def _is_gone(request: CompactionRequest, directories: Collection[str] | None) -> bool:
    made = request.facts.unverified
    return bool(made) and directories is not None and not any(name in directories for name in made or ())


def why_held(request: CompactionRequest, *, insert_only: bool = False) -> str:
    """Why nothing is compacted or cleaned at a place that is held for a request, and what to do."""
    if has_failed(request):
        return f"it is held: the result of request {request.id} could not be verified: {request.error_message}"
    first = "" if insert_only else "a compaction with --verify does that first, and "
    return (
        f"it is held: the run of request {request.id} ended before it had verified its result, "
        f"{', '.join(request.facts.unverified or ())}; {first}--release-held releases it"
    )
