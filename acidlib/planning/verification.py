"""Verification of results: how much of a place is looked at, and which places are held because of what was found.

A result that is visible and not verified, or that reads otherwise than what it was made of, must neither be built on
nor be cleaned up after: its request says so, until a newer one of the place counts.
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
    """Whether a request has, or may have, made something visible that was to be verified and was not."""
    if request.state in _COUNTS:
        return False
    if request.facts.unverified or "unverified" in request.facts.problems:
        return True
    return has_failed(request)


def has_failed(request: CompactionRequest) -> bool:
    """Whether the verification of its result found a difference, or could not go on."""
    return request.state is State.FAILED and (request.error_message or "").startswith(DIFFERS)


def holding(
    requests: Iterable[CompactionRequest], directories: Collection[str] | None = None
) -> CompactionRequest | None:
    """The request for which a place is held; None where none is.

    requests     of the queue and its history, about this place
    directories  that are there: where all that a request made is gone, it holds nothing; None = not known

    It is the newest that is not verified, unless one that counts is newer: somebody has released the place.
    """
    newest: CompactionRequest | None = None
    for one in requests:
        made = one.facts.unverified
        if made and directories is not None and not any(name in directories for name in made):
            continue
        if (one.state in _COUNTS or is_unverified(one)) and (newest is None or one.id > newest.id):
            newest = one
    return newest if newest is not None and is_unverified(newest) else None


def why_held(request: CompactionRequest, *, insert_only: bool = False) -> str:
    """Why nothing is compacted or cleaned at a place that is held for a request, and what to do."""
    first = "" if insert_only else "; a compaction with --verify does that first"
    if has_failed(request):
        what = f"the result of request {request.id} could not be verified: {request.error_message}"
    else:
        what = (
            f"the run of request {request.id} ended before it had verified its result, "
            f"{', '.join(request.facts.unverified or ())}{first}"
        )
    return f"it is held: {what}; --release-held releases it"
