"""Removing paths at one claimed place, each for a reason: obsolete ones, and anything a dead run left there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from acidlib.acid.listing import ListedFile, Listing
from acidlib.errors import AcidError, BusyError, ConflictError, RefusedError
from acidlib.execute.services import Services
from acidlib.location import Location
from acidlib.model.results import CleaningResult, Outcome, RemovedPath, Waiting
from acidlib.stores.filesystem import Pace
from acidlib.stores.removing import TAKEN_BACK, Litter, find_litter, measure, remove_paths
from acidlib.stores.store import OUT_OF_SIGHT, Claim, original_staging_name
from acidlib.waiting import answered
from acidlib.wording import age_words

Removal = tuple[tuple[RemovedPath, ...], tuple[Waiting, ...]]
"""The removed paths; and a line for each path that could not be removed, with the reason."""


class NotOursError(RefusedError):
    """Something that another cleaner, or a later run, has to remove; the request waits and nothing has failed."""


class DeleteRateLimiter:
    """The speed at which all threads of one run together remove files; once stopped, no further file is removed.

    Each file has its time, of a second by the number of files in a second; the next may go when the time is over.
    """

    def __init__(self, services: Services, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds that never go back."""
        self._rate = services.settings.integer("acidlib.cleaner.files.per.second")
        self._clock = clock
        self._turn = threading.Lock()
        self._free_at = clock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Stop all removing, also by those that wait: the run is interrupted."""
        self._stopped.set()

    def assert_not_stopped(self) -> None:
        """Raise ConflictError after `stop`."""
        if self._stopped.is_set():
            raise ConflictError("Cannot go on removing: the run was interrupted")

    @property
    def pace(self) -> Pace | None:
        """What waits before files are removed, and raises ConflictError after `stop`; None without a limit."""
        return self._wait if self._rate else None

    def _wait(self, files: int) -> None:
        with self._turn:
            now = self._clock()
            starts = max(self._free_at, now)
            self._free_at = starts + files / self._rate
        self._stopped.wait(starts - now)
        self.assert_not_stopped()
        answered()  # what was waited for is no file system


def would_remove(services: Services, location: Location, reasons: Mapping[str, str], listing: Listing) -> Removal:
    """Return the result that `remove_named` would have now, by the same look at each path."""
    removed: list[RemovedPath] = []
    problems: list[Waiting] = []
    known = frozenset(listing.files)
    for path, reason in reasons.items():
        try:
            if (measured := measure(services.fs(location), location, path, known)) is not None:
                removed.append(RemovedPath(path=path, bytes=measured.bytes, reason=reason))
        except AcidError as error:
            problems.append(Waiting(path, error.words))
    return tuple(removed), tuple(problems)


def remove_named(
    services: Services,
    claim: Claim,
    reasons: Mapping[str, str],
    *,
    trash: bool,
    limiter: DeleteRateLimiter,
    known: Collection[ListedFile] | None = None,
    is_seen: bool = True,
) -> Removal:
    """Remove paths at a claimed place, given with the reason of each; see `remove_paths`."""
    store = services.store(claim.location)
    report = remove_paths(
        store,
        claim,
        reasons,
        known=known,
        is_seen=is_seen,
        to_trash=store.trash(claim.location, f"{int(services.clock())}-{services.unique()}") if trash else None,
        pace=limiter.pace,
        assert_going_on=limiter.assert_not_stopped,
    )
    removed = (
        RemovedPath(
            path=original_staging_name(item.path), bytes=item.bytes, reason=reasons[item.path], moved_to=item.moved_to
        )
        for item in report.removed
    )
    return tuple(removed), tuple(Waiting(path, reason) for path, reason in report.failed.items())


def remove_litter(services: Services, claim: Claim, limiter: DeleteRateLimiter) -> Removal:
    """Remove anything that dead runs left at a claimed place."""
    reasons = {name: litter.reason for name, litter in litter_of(services, claim.location, claim.token).items()}
    return remove_named(services, claim, reasons, trash=False, limiter=limiter, is_seen=False)


def litter_of(services: Services, location: Location, own_token: str | None = None) -> dict[str, RemovedPath]:
    """Return by its name at the place anything that dead runs left there and that may be removed.

    own_token  of the caller's claim, if it has one
    """
    own = f"{OUT_OF_SIGHT}{own_token}-"  # out of sight since a moment ago, and could not be removed
    return {
        litter.name: RemovedPath(
            path=original_staging_name(litter.name),
            bytes=litter.bytes,
            reason=f"{litter.reason}{',' if litter.reason == TAKEN_BACK else ''} {age_words(litter.idle_seconds)} ago",
        )
        for litter in find_unclaimed(services, location, find_litter, own_token)
        if not litter.name.startswith(own)
    }


def find_unclaimed(
    services: Services, location: Location, find: Callable[..., tuple[Litter, ...]], own_token: str | None = None
) -> list[Litter]:
    """Return everything that `find` returns for a place, except unfinished publications, which a run will finish.

    Returns nothing while another run is alive and holds the claim; `own_token` is that of the caller's claim.
    """
    store = services.store(location)
    holder = store.holder(location, now=services.clock())
    if holder is not None and holder.token != own_token and not holder.is_stale:
        return []
    unfinished = store.unfinished(location)
    items = find(services.fs(location), location, now=services.clock())
    return [item for item in items if f"{location}/{item.name}" not in unfinished]


def ended_by(error: AcidError, result: CleaningResult, *, waits: type[AcidError] = NotOursError) -> CleaningResult:
    """Return the result of a cleaning that an error has ended; after an error of the type `waits` the place waits."""
    state = Outcome.READY_FOR_CLEANING if isinstance(error, waits) else Outcome.FAILED
    if isinstance(error, ConflictError):
        state = Outcome.BUSY if isinstance(error, BusyError) else Outcome.CONFLICT
    return replace(result, state=state, reason=error.words)


def if_busy(result: CleaningResult, state: Outcome) -> CleaningResult:
    """Return the result with this state if another run of this engine has the place, else as it is."""
    return replace(result, state=state) if result.state is Outcome.BUSY else result


def result_of_removal(result: CleaningResult, removal: Removal) -> CleaningResult:
    """Return the result with the outcome of a removal: FAILED where something could not be removed."""
    removed, problems = removal
    result = replace(result, removed=removed)
    return replace(result, state=Outcome.FAILED, reason="; ".join(map(str, problems))) if problems else result
