"""Removing at one place what a plan names, and what dead runs left there: each with its reason."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from acidlib.errors import AcidError, BusyError, ConflictError, RefusedError
from acidlib.model.listing import ListedFile, Listing
from acidlib.model.location import Location
from acidlib.points import Point, reach
from acidlib.report.results import CleaningResult, Outcome, RemovedPath
from acidlib.service.services import Services
from acidlib.stores.removing import TAKEN_BACK, Litter, find_litter, measure, remove_paths
from acidlib.stores.store import OUT_OF_SIGHT, Claim, original_staging_name
from acidlib.wording import age_words


class NotOursError(RefusedError):
    """What another cleaner, or a later run, has to remove; not a failure."""


class Pace:
    """How fast all threads of one run remove files together; once stopped, nothing more is removed."""

    def __init__(self, services: Services) -> None:
        self._rate = services.settings.integer("acidlib.cleaner.files.per.second")
        self._pause = services.pause
        self._turn = threading.Lock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Stop all removing: the run is interrupted."""
        self._stopped.set()

    def assert_not_stopped(self) -> None:
        """Raise ConflictError once it was stopped."""
        if self._stopped.is_set():
            raise ConflictError("Cannot go on removing: the run was interrupted")

    def after(self, files: int) -> None:
        """Wait as long as the removal of so many files has to take."""
        if self._rate:
            with self._turn:
                self._pause(files / self._rate)


def would_go(
    services: Services, location: Location, wanted: Mapping[str, str], listing: Listing
) -> tuple[tuple[RemovedPath, ...], tuple[str, ...]]:
    """Return what `remove_named` would remove now, by the same look at each path; and what stays, with its reason."""
    removed: list[RemovedPath] = []
    stays: list[str] = []
    known = frozenset(listing.files)
    for path, reason in wanted.items():
        try:
            if (found := measure(services.fs(location), location, path, known)) is not None:
                removed.append(RemovedPath(path=path, bytes=found.bytes, reason=reason))
        except AcidError as error:
            stays.append(f"{path}: {error}")
    return tuple(removed), tuple(stays)


def remove_named(
    services: Services,
    held: Claim,
    wanted: Mapping[str, str],
    *,
    trash: bool,
    pace: Pace,
    known: Collection[ListedFile] | None = None,
    is_seen: bool = True,
) -> tuple[tuple[RemovedPath, ...], tuple[str, ...]]:
    """Remove paths at a claimed place, each with its reason; what went, and what did not.

    Where the store can, all go out of readers' sight first: however long it takes to remove them, no reader that lists
    the place meanwhile finds one that is gone when he opens it. Anything a crashed run leaves behind is removed as
    litter.

    known    the files that a look at the place has shown: what holds another one stays
    is_seen  whether readers see them until then
    """
    store, location = services.store(held.location), held.location
    hidden: dict[str, str] = {}

    def remove(path: str) -> str | None:
        name = store.take_out_of_sight(location, path, f"{held.token}-{len(hidden)}") if is_seen else None
        if name is None:
            store.remove(location, path)
        else:
            hidden[path] = name
        return None

    def still_ours() -> None:
        pace.assert_not_stopped()
        held.assert_mine()

    report = remove_paths(
        services.fs(location),
        location,
        tuple(wanted),
        remove=store.trash(location, f"{int(services.clock())}-{services.unique()}") if trash else remove,
        known=known,
        before_each=still_ours,
        after_each=lambda item: None if item.path in hidden else pace.after(item.files),
    )
    problems = dict(report.failed)
    if hidden:
        store.make_durable(location)  # once for all of them: until then each is there whole, in sight or not
    for item in report.removed:
        if item.path in hidden:
            pace.assert_not_stopped()
            try:
                store.remove(location, hidden[item.path])
            except AcidError as error:
                problems[item.path] = str(error)
            reach(Point.REMOVED_HIDDEN)
            pace.after(item.files)
    if report.removed:
        store.make_durable(location)
    removed = tuple(
        RemovedPath(
            path=original_staging_name(item.path), bytes=item.bytes, reason=wanted[item.path], moved_to=item.moved_to
        )
        for item in report.removed
        if item.path not in problems
    )
    return removed, tuple(f"{path}: {reason}" for path, reason in problems.items())


def remove_litter(services: Services, held: Claim, pace: Pace) -> tuple[tuple[RemovedPath, ...], tuple[str, ...]]:
    """Remove what dead runs left at a claimed place; what went, and what did not."""
    wanted = {name: litter.reason for name, litter in litter_of(services, held.location, held.token).items()}
    return remove_named(services, held, wanted, trash=False, pace=pace, is_seen=False)


def litter_of(services: Services, location: Location, own_token: str | None = None) -> dict[str, RemovedPath]:
    """Return what dead runs left at a place and may be removed, by its name there."""
    own = f"{OUT_OF_SIGHT}{own_token}-"  # what could not be removed a moment ago
    return {
        litter.name: RemovedPath(
            path=original_staging_name(litter.name),
            bytes=litter.bytes,
            reason=f"{litter.reason}{',' if litter.reason == TAKEN_BACK else ''} {age_words(litter.idle_seconds)} ago",
        )
        for litter in found_unclaimed(services, location, find_litter, own_token)
        if not litter.name.startswith(own)
    }


def found_unclaimed(
    services: Services, location: Location, find: Callable[..., tuple[Litter, ...]], own_token: str | None = None
) -> list[Litter]:
    """Return what is found at a place, but for what is about to be published.

    Nothing while another run is alive and at work there; `own_token` is that of the caller's claim.
    """
    store = services.store(location)
    holder = store.holder(location, now=services.clock())
    if holder is not None and holder.token != own_token and not holder.is_stale:
        return []
    unfinished = store.unfinished(location)
    found = find(services.fs(location), location, now=services.clock())
    return [litter for litter in found if f"{location}/{litter.name}" not in unfinished]


def ended_by(error: AcidError, result: CleaningResult, *, waits: type[AcidError] = NotOursError) -> CleaningResult:
    """Return the result of a cleaning that ended by an error; after some errors the place waits."""
    state = Outcome.READY_FOR_CLEANING if isinstance(error, waits) else Outcome.FAILED
    if isinstance(error, ConflictError):
        state = Outcome.CONFLICT
    return replace(result, state=state, reason=str(error), is_busy=isinstance(error, BusyError))
