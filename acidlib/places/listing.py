"""Listing many places, some at a time, and the signs of rolled back transactions in their listings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from acidlib.arguments import ALL_COMMITTED, WRITE_IDS
from acidlib.errors import AcidError
from acidlib.execute.answers import answer_of
from acidlib.execute.in_threads import in_threads
from acidlib.execute.services import Services, step_seconds
from acidlib.model.tables import TableRef
from acidlib.places.place import ListedPlace, Place
from acidlib.places.selection import PassedOver, Selection
from acidlib.planning.stated_write_ids import (
    directory_ids,
    list_per_table_error,
    question_of_run,
    side_files,
    signs_of_aborts,
)
from acidlib.report.progress import WARNING
from acidlib.stores.listing import list_location
from acidlib.wording import duration_text, plural, utc_words

PORTION = 256
"""Places that are listed together where the first can be compacted before the last is listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlisted:
    """A place that cannot be listed, and the error. An order and a budget count it as an empty place."""

    place: Place
    error: AcidError
    bytes: int = 0


ListingOutcome = ListedPlace | Unlisted


def list_in_portions(
    services: Services, places: Sequence[Place], idle_seconds: float | None
) -> Iterator[tuple[list[ListingOutcome], list[PassedOver]]]:
    """Yield the results of `list_places` for `PORTION` places at a time, so that a caller need not keep them all."""
    if not places:
        return
    progress = services.progress

    def advance(before: int, count: int) -> None:
        progress.advance(before + count)

    progress.start(f"listing {plural(len(places), 'location')}", len(places))
    try:
        for start in range(0, len(places), PORTION):
            portion = places[start : start + PORTION]
            yield list_places(services, portion, idle_seconds, on_progress=partial(advance, start))
    finally:
        progress.finish()


def list_places(
    services: Services,
    places: Sequence[Place],
    idle_seconds: float | None,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> tuple[list[ListingOutcome], list[PassedOver]]:
    """List every place; pass over those with a visible file that is younger than `idle_seconds`."""
    listings = in_threads(
        lambda place: list_location(services.fs(place.location), place.location, without_unfinished=True),
        places,
        seconds=step_seconds(services.settings),
        on_progress=on_progress,
    )
    listed_places: list[ListingOutcome] = []
    passed_over = []
    now = services.clock()
    for place, listing in zip(places, listings, strict=True):
        listed = listing if isinstance(listing, AcidError) else answer_of(place.listed, listing, f"list {place.ref}")
        if isinstance(listed, AcidError):
            listed_places.append(Unlisted(place=place, error=listed))
            continue
        newest = None if idle_seconds is None else listed.listing.newest_file()
        if idle_seconds is None or newest is None or newest.modified <= now - idle_seconds:
            listed_places.append(listed)
            continue
        young, when = duration_text(idle_seconds), utc_words(newest.modified)
        reason = f"something in it is younger than {young}: {newest.path}, modified {when}"
        passed_over.append(PassedOver(place=place, reason=reason))
    return listed_places, passed_over


class RollbackSigns:
    """Signs of rolled back transactions in tables of which the caller says that all is committed.

    A sign is no proof, and their absence proves nothing: they are a warning, written as soon as a table is listed.
    """

    def __init__(self, services: Services, selection: Selection, places: Sequence[Place]) -> None:
        stated = places[0].interpretation.write_ids if places else None  # the same for all places of a run
        all_committed = places if stated is not None and stated.everything else ()
        self._progress = services.progress
        self._stated_of_each = stated is not None and stated.of_each
        self._unlisted = Counter(place.ref.whole_table for place in all_committed)
        self._is_part = bool(selection.partitions) or any(
            place.ref.partition is not None and place.location == selection.location for place in all_committed
        )
        self._ids: dict[TableRef, set[tuple[int, int]]] = {}
        self._side_files: dict[TableRef, list[str]] = {}

    def require_list_per_table(self, *, dry_run: bool) -> Sequence[str]:
        """Raise UsageError if one statement is to hold for several tables; of a dry run return a note about that."""
        if self._stated_of_each or len(self._unlisted) <= 1:
            return ()
        if dry_run:
            return (question_of_run(len(self._unlisted)),)
        raise list_per_table_error(sorted(map(str, self._unlisted)))

    def add(self, listed_places: Iterable[ListingOutcome]) -> None:
        """Look at listed places; warn about each table whose last place is among them."""
        for listed in listed_places:
            ref = listed.place.ref
            error = answer_of(self._add, listed, f"look for signs of rolled back transactions at {ref}")
            if error is not None:
                self._progress.note(error.words, level=WARNING, place=str(ref))

    def _add(self, listed: ListingOutcome) -> None:
        table, partition = listed.place.ref.whole_table, listed.place.ref.partition
        if self._unlisted[table] and isinstance(listed, ListedPlace):
            prefix = f"{partition}/" if partition else ""
            self._side_files.setdefault(table, []).extend(prefix + path for path in side_files(listed.listing))
            self._ids.setdefault(table, set()).update(directory_ids(listed.listing))
            self._unlisted[table] -= 1
            if not self._unlisted[table]:
                self._warn(table, () if self._is_part else self._ids.pop(table))

    def finish(self) -> None:
        """Warn about tables of which only a part was listed; gaps in their ids say nothing."""
        for table in list(self._side_files):
            self._warn(table, ())

    def _warn(self, table: TableRef, ids: Iterable[tuple[int, int]]) -> None:
        if signs := signs_of_aborts(ids, self._side_files.pop(table)):
            text = f"{ALL_COMMITTED} may not be so: {'; '.join(signs)}. If it is not, give {WRITE_IDS}"
            self._progress.note(text, level=WARNING, place=str(table))
