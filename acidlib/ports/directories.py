"""Without a metastore: tables are directories, committed write ids are stated, the queue is our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from acidlib.arguments import QUEUE_URL
from acidlib.errors import AcidError, ConflictError, MissingError, RefusedError, ReplacedError, UsageError
from acidlib.execute.in_threads import in_threads
from acidlib.execute.services import Services, step_seconds
from acidlib.location import Location
from acidlib.model.requests import NO_FACTS, UNVERIFIED, CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.tables import TableRef, matches
from acidlib.places.listing import list_places
from acidlib.places.place import Interpretation, ListedPlace, Place, request_of, requested_place, stated_reader
from acidlib.places.selection import CleanerOptions, PassedOver, Selected, Selection
from acidlib.planning.clean import AgeRule, CleanPlan, plan_cleaning
from acidlib.planning.inputs import Publication
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.ports.backend import Backend, Decided
from acidlib.ports.cleaning import ListedRequest, NothingToCleanError
from acidlib.ports.holds import ClaimedPlace, Hold, finish_publications
from acidlib.ports.sql import SqlHold, SqlRequests, note_failed_cleaning, retry_reason, with_figures
from acidlib.queue.sql import SqlQueue
from acidlib.stores.discover import (
    TableLocation,
    database_at,
    discover_location,
    discover_warehouse,
    named_at,
    table_above,
)
from acidlib.stores.listing import identity_file_in, is_listed, is_still_there
from acidlib.wording import human_bytes, plural

_MAX_SKIPPED = 10
"""Notes on what is skipped in one table."""


def select_places(
    services: Services,
    selection: Selection,
    interpretation: Interpretation,
    *,
    may_be_empty: bool = False,
    known: Collection[TableRef] = (),
) -> Selected:
    """Return the places in path order, tables and databases that cannot be read, and notes about what is skipped.

    may_be_empty  the queue explains why the named location is empty
    known         tables and partitions that the queue knows: a missing one may have been dropped since

    Raises RefusedError when a named location or table is no ACID table, MissingError where a named location, table or
    partition does not exist, UsageError when the only stated write-id list is another table's, or no directory is
    named.
    """
    notes: list[str] = []
    unread: list[PassedOver] = []
    each = partial(in_threads, seconds=step_seconds(services.settings))
    if selection.location is not None:
        try:
            fs = services.fs(selection.location)
            only = discover_location(fs, selection.location, may_be_empty=may_be_empty, each=each)
        except MissingError as error:
            return Selected(places=(), notes=(error.words if known else selection.missing_note(error),))
        if interpretation.write_ids is not None:
            interpretation.write_ids.require_of(only.ref)
        tables: Sequence[TableLocation] = (only,)
    else:
        if selection.warehouse is None:
            raise UsageError("Cannot choose tables: no directory is named in which to look for them")
        tables, skipped = discover_warehouse(services.fs(selection.warehouse), selection.warehouse, each=each)
        for location, why in skipped.items():
            if isinstance(why, AcidError) and (ref := _unread_ref(selection, selection.warehouse, location)):
                place = Place(ref=ref, location=location, interpretation=interpretation)
                unread.append(PassedOver(place=place, reason=why.words, error=why))
        reasons = {location: reason for location, reason in skipped.items() if isinstance(reason, str)}
        notes += _skipped_notes(selection, selection.warehouse, reasons)
    chosen = [table for table in tables if selection.wants_table(table.ref)]
    there = [str(table.ref) for table in tables]
    refs = [*(table.ref for table in chosen), *known, *(passed.place.ref for passed in unread)]
    if all(passed.place.ref.table for passed in unread):  # else a table may lie in a database that cannot be read
        notes += selection.missing_table_notes(refs, "no ACID table there", lambda _: there)
    places = [
        Place(
            ref=table.ref._replace(partition=None if name is None else name.path),
            location=location,
            interpretation=interpretation,
        )
        for table in chosen
        for name, location in table.partitions
        if not selection.partitions or (name is not None and matches(name, selection.partitions))
    ]
    if selection.partitions and chosen and not (places or known):
        notes.append(selection.missing_partitions_note([table.ref for table in chosen]))
    return Selected(places=tuple(places), passed_over=tuple(unread), notes=tuple(notes))


def _unread_ref(selection: Selection, warehouse: Location, location: Location) -> TableRef | None:
    """Return the names of a table, or of a database alone, that cannot be read; None for one that is not selected."""
    if location.parent == warehouse and (database := database_at(location)) is not None:
        return TableRef(database, "") if selection.may_want_of(database) else None
    ref = named_at(location)
    return ref if selection.wants_table(ref) else None


def _skipped_notes(selection: Selection, warehouse: Location, skipped: Mapping[Location, str]) -> Iterator[str]:
    """Yield notes on skipped directories, for each table on a few of those in it.

    Any user who may write to a table can make any number of them in it, of any name. Raises RefusedError where a
    directory is skipped whose name is that of a table that is named.
    """
    inside = Counter[Location]()
    for location, reason in skipped.items():
        table = table_above(warehouse, location)
        if location == table:
            name = str(named_at(location))
            if selection.names_table(name):
                raise RefusedError(f"Cannot read {name}: {reason}")
        else:
            inside[table] += 1
        if inside[table] <= _MAX_SKIPPED:
            yield f"{location} is skipped: {reason}"
    for table, count in inside.items():
        if count > _MAX_SKIPPED:
            yield f"{plural(count - _MAX_SKIPPED, 'more path is', 'more paths are')} skipped in {table}"


def directories(services: Services, queue: SqlQueue, interpretation: Interpretation | None = None) -> Backend:
    """Return the surroundings of directories and stated write ids, with a queue of our own."""
    tables = Directories(services, queue, interpretation or Interpretation())
    requests = SqlRequests(services, queue, tables)
    return Backend(tables, requests, DirectoryFence(tables, requests))


class Directories:
    """Tables as directories, and the requests in our queue that state one; those for a metastore are left alone."""

    by_location = True

    def __init__(self, services: Services, queue: SqlQueue, interpretation: Interpretation) -> None:
        self.services = services
        self.queue = queue
        self._interpretation = interpretation
        self._reader = stated_reader(services.settings)

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Return the ACID tables and partitions below the named directory; an empty one may have been cleaned."""
        del automatic
        location = selection.location
        was_cleaned = location is not None and self.queue.has_succeeded_below(location)
        return select_places(self.services, selection, self._interpretation, may_be_empty=was_cleaned)

    def names(self, selection: Selection) -> Sequence[TableRef]:
        """Return the tables of the ACID tables and partitions below the named directory."""
        places = self.select(selection, automatic=False).places
        return list(dict.fromkeys(place.ref.whole_table for place in places))

    def is_dropped(self, place: Place) -> bool:
        """Return whether the directory is gone while the one above it exists: else a mount may be missing."""
        fs, location = self.services.fs(place.location), place.location
        return not fs.exists(str(location)) and fs.exists(str(location.parent))

    def ours(self, row: CompactionRequest) -> bool:
        """Return whether a request was made without a metastore."""
        return row.facts.metastore is None

    def rows_at(self, place: Place) -> Sequence[CompactionRequest]:
        """Return the rows of the location: another run may have called it by another name."""
        return self.queue.rows_at_place(place.location)

    def unverified_rows(self, place: Place) -> Sequence[CompactionRequest]:
        """Return the rows about the place only if one of them may be unverified: this is asked of every place."""
        return self.queue.rows_noting(place.location, UNVERIFIED)

    def place(self, row: CompactionRequest) -> Place:
        """Return the place as the request states it: without a metastore nothing is renamed."""
        return requested_place(row, self._reader)

    def places(self, rows: Sequence[CompactionRequest]) -> Sequence[Place | AcidError]:
        """Return the place of each request as it states it, or its error."""
        places: list[Place | AcidError] = []
        for row in rows:
            try:
                places.append(self.place(row))
            except AcidError as error:
                places.append(error)
        return places

    def current_location(self, row: CompactionRequest) -> Location:
        """Return the location that the request states."""
        return self.place(row).location

    def request_for(self, place: Place, kind: CompactionType, *, initiator: str) -> CompactionRequest:
        """Return a request that states the location."""
        facts = RequestFacts(location=place.location)
        return CompactionRequest(id=0, ref=place.ref, type=kind, facts=facts, initiator_id=initiator)

    def named_request(self, listed: ListedPlace, kind: CompactionType) -> CompactionRequest:
        """Return a request for the place as it is interpreted now."""
        if listed.holds_staging:
            finish_publications(self.services, listed.place.location)
        return request_of(listed, kind, initiator=f"{self.services.host}-manual")

    def decided_request(self, decided: Decided) -> CompactionRequest:
        """Return a request with all facts that a later worker and cleaner need."""
        return with_figures(request_of(decided.listed, decided.kind, initiator=self.services.initiator_id), decided)

    def exclusive(self, ref: TableRef) -> AbstractContextManager[object]:
        """Do nothing: files do not tell who reads them."""
        del ref
        return nullcontext()

    def notes(self) -> list[str]:
        """Return none: a queue of our own serves many."""
        return []


class DirectoryFence:
    """Claims of directories: nothing else keeps other runs away, and nothing readers."""

    can_rebalance = False

    def __init__(self, tables: Directories, requests: SqlRequests) -> None:
        self._tables = tables
        self._requests = requests

    def recover(self) -> list[str]:
        """Return none: claims of dead runs go stale by themselves."""
        return []

    def hold(self, request: CompactionRequest, place: Place) -> SqlHold:
        """Return the hold of the directory for a request of our queue."""
        return SqlHold(self._requests, RequestedDirectory(self._tables, request, place))

    def finish(self, place: Place) -> None:
        """Finish the publications of dead runs."""
        finish_publications(self._tables.services, place.location)


class DirectoryUndoing:
    """The undoing of compactions of directories, about whose readers the operator has to know."""

    knows_readers = False

    def __init__(self, services: Services, queue: SqlQueue) -> None:
        self._services = services
        self._tables = Directories(services, queue, Interpretation())
        self.requests = SqlRequests(services, queue, self._tables)

    def place(self, request: CompactionRequest) -> Place:
        """Return the place as the request states it."""
        place = self._tables.place(request)
        if not self._services.fs(place.location).is_directory(str(place.location)):
            raise RefusedError(f"Cannot undo the compaction of {place.ref}: {place.location} does not exist any more")
        return place

    def hold(self, request: CompactionRequest) -> Hold:
        """Return a claim of the place."""
        return ClaimedPlace(self._services, request, self.place(request))

    def require_no_reader(self, request: CompactionRequest, place: Place) -> None:
        """Check that the result is still the published one; files do not tell whether a query reads it."""
        if not is_still_there(self._services.fs(place.location), place.location, request.facts.identity_file or ""):
            raise RefusedError(
                f"Cannot undo the compaction of {place.ref}: its result is not there any more: it was "
                "replaced, or the table was re-created"
            )


class RequestedDirectory(ClaimedPlace):
    """A directory that is claimed for a request of our own queue."""

    def __init__(self, tables: Directories, request: CompactionRequest, place: Place) -> None:
        super().__init__(tables.services, request, place)
        self._tables = tables

    def begin(self) -> None:
        """Claim the place.

        RefusedError where it was dropped since it was queued: a failure would put a back-off on a later partition of
        that name. Where the directory above it is gone as well, a mount may be missing, and the claim fails.
        """
        place = self.place
        try:
            if self._tables.is_dropped(place):
                raise RefusedError(
                    f"Cannot compact {place.ref}: {place.location} does not exist any more; if it was moved, have "
                    "the initiator look where it lies now"
                )
            super().begin()
            is_the_same = is_still_there(
                self._services.fs(place.location), place.location, self.request.facts.identity_file or ""
            )
        except ReplacedError:
            is_the_same = False
        if not is_the_same:
            raise RefusedError(
                f"Cannot compact {place.ref}: the table was re-created, or the files that the request was "
                "made for were compacted and cleaned since; the initiator queues it again where that is due"
            )

    def publishing(self, publication: Publication) -> AbstractContextManager[bool]:
        """Do nothing, as `exclusive`: anybody may read."""
        del publication
        return nullcontext(True)

    def user_to_note(self) -> None:
        """Return nothing to note."""

    def identity_facts(self) -> RequestFacts:
        """Return none: the request states a file of its place already."""
        return NO_FACTS

    def publication_facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """Return a file by which the cleaner knows that the result is still there."""
        if not directories:
            return NO_FACTS
        try:
            return RequestFacts(
                identity_file=identity_file_in(
                    self._services.fs(self.place.location), self.place.location, directories[0]
                )
            )
        except ConflictError:
            return NO_FACTS  # the result was replaced and cleaned already, and so is the file that the request states

    def update_statistics(self, directories: tuple[str, ...], rows: int | None) -> None:
        """Write nothing: directories have no statistics."""
        del directories, rows


class DirectoryCleaning:
    """The requests of our own queue; where a directory is named only those of places there or below it.

    Obsolete directories wait for a retention, counted from the newest publication there. Nothing tells which queries
    read; the retention is the operator's statement that no query lasts longer.
    """

    ends_many = True
    must_exist = False  # a directory that is missing was dropped
    rolled_back = None
    notes: Sequence[str] = ()

    def __init__(self, services: Services, queue: SqlQueue, options: CleanerOptions) -> None:
        self.services = services
        self.options = options
        self._queue = queue
        self._tables = Directories(services, queue, Interpretation())
        default = services.settings.integer("acidlib.retention") / 1000
        self._retention = default if options.retention_seconds is None else options.retention_seconds

    def is_wanted(self, request: CompactionRequest) -> bool:
        """Return whether a request is of these surroundings, of what is selected, and at or below a named directory."""
        selection, place = self.options.selection, request.facts.location
        where = selection.location or selection.warehouse
        is_there = where is None or (place is not None and where.holds(place))
        return self._tables.ours(request) and is_there and selection.wants(request.ref)

    def recover(self) -> list[str]:
        """Give back wanted requests of dead runs."""
        return SqlRequests(self.services, self._queue, self._tables).recover(self.is_wanted)

    def ready(self) -> list[CompactionRequest]:
        """Return the requests that are ready, an earlier mark of a place before a later one."""
        return list(filter(self.is_wanted, self._queue.ready_for_cleaning()))

    def not_ready_reason(self, request: CompactionRequest) -> str | None:
        """Wait after a failure."""
        return retry_reason(self.services, request)

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Place]:
        """Return the place as the request states it."""
        del anew
        return request, self._tables.place(request)

    def hold(self, request: CompactionRequest, place: Place) -> ClaimedPlace:
        """Return a claim of the place."""
        return ClaimedPlace(self.services, request, place)

    def requests_at(self, place: Place) -> Sequence[CompactionRequest]:
        """Return the rows about the location."""
        return self._tables.rows_at(place)

    def plan(self, listed: ListedRequest, requests: Sequence[CompactionRequest]) -> CleanPlan:
        """Return the paths that are obsolete by the recorded list; note when covering directories were first seen.

        A directory counts as published no earlier than its files were written, by the clock of the file system:
        workers' clocks differ, and a table that was re-created has directories of the same names.
        """
        request, place, listing = listed.request, listed.place, listed.listing
        if not is_listed(listing, request.facts.identity_file or ""):
            raise NothingToCleanError(
                "its files are not there any more: the table was re-created, or a newer result replaced them"
            )
        published: dict[str, float] = {}
        newest: float | None = None
        for other in requests:
            other.require_understood("clean", "first_seen", "published_ms")
            published.update(other.facts.first_seen)
            if other.facts.published_ms is not None:
                seconds = other.facts.published_ms / 1000
                newest = seconds if newest is None else max(newest, seconds)
                published.update(dict.fromkeys(other.facts.outputs or (), seconds))
        for file in listing.files:
            name = file.path.partition("/")[0]
            if name in published:
                published[name] = max(published[name], file.modified)
        plan = plan_cleaning(
            listing,
            listed.mark,
            place.write_ids(listing),
            names=place.names(listing),
            age=AgeRule(
                now=self.services.clock(),
                retention_seconds=self._retention,
                newest_publication=newest,
                published_at=published,
            ),
            seen=published,
        )
        if plan.first_seen and not self.options.dry_run:
            seen = {**request.facts.first_seen, **dict.fromkeys(plan.first_seen, self.services.clock())}
            self._queue.change(request.id, None, facts=RequestFacts(first_seen=seen))
        return plan

    def end_cleaned(self, cleaned: Sequence[ListedRequest]) -> list[str | AcidError | None]:
        """End the requests as succeeded, in one transaction."""
        return [*self._queue.mark_cleaned([listed.request.id for listed in cleaned], self.services.now_ms())]

    def end_dropped(self, request: CompactionRequest) -> None:
        """End the request as succeeded: no metastore remembers aborted write ids."""
        self._queue.end(request.id, State.SUCCEEDED, self.services.now_ms())

    def require_unmoved(self, request: CompactionRequest, place: Place) -> None:
        """Require nothing: a location is all there is to a table."""

    def require_alone(self, request: CompactionRequest, place: Place) -> None:
        """Require nothing: all runs respect the claim."""

    def end_forbidden(self, request: CompactionRequest, reason: str) -> bool:
        """Let it wait."""
        del request, reason
        return False

    def note_failure(self, request: CompactionRequest, error: AcidError) -> None:
        """Have it tried again later, or give it up."""
        note_failed_cleaning(self.services, self._queue, request, error)

    def known_places(self) -> list[CompactionRequest]:
        """Return a request of each place in the queue and the history: wherever a compaction was asked for."""
        return list(filter(self.is_wanted, self._queue.newest_of_places()))

    def nothing_to_clean_notes(self) -> list[str]:
        """Name the queue that was read, and the bytes that a cleaner could free if a queue knew the compaction.

        Raises MissingError for a named directory or table that does not exist, RefusedError for one that is no ACID
        table, unless requests are known about it.
        """
        selection = self.options.selection
        where = selection.location or selection.warehouse
        if where is None:
            return []
        about = str(where)
        if selection.tables:
            about = f"{', '.join(selection.tables)} in {about}"
        known = self.known_places()
        newest = max(known, key=lambda row: row.id, default=None)
        state = "" if newest is None else f"; its newest there, {newest.id}, is {newest.state.label}"
        note = f"the queue {self._queue.shown} has no request of {about} that awaits cleaning{state}"
        if selection.location is None and not selection.tables:
            self.services.fs(where).list_directory(str(where), missing=MissingError)
            return [note]  # what lies in all of its tables is a question for the status
        everything = Interpretation(write_ids=StatedWriteIds(everything=True))
        named = {row.ref for row in known}
        try:
            selected = select_places(self.services, selection, everything, may_be_empty=bool(known), known=named)
            outcomes, _ = list_places(self.services, selected.places, None)
        except AcidError as error:
            if not known:
                raise type(error)(f"{error}; {note}") from None
            return [note]  # a place that cannot be listed cannot be cleaned either
        if selected.notes:
            return [f"{missing}; {note}" for missing in selected.notes]
        sizes = [size for listed in outcomes if isinstance(listed, ListedPlace) for size in listed.obsolete.values()]
        if not sizes:
            return [f"{note}; nothing there is obsolete"]
        left = f"{plural(len(sizes), 'directory or file', 'directories and files')} there, {human_bytes(sum(sizes))}"
        is_are = "is" if len(sizes) == 1 else "are"
        return [
            f"{note}, but {left}, {is_are} obsolete if all that lies there is committed: name the queue in which the "
            f"compaction was requested with {QUEUE_URL}; where there is none any more, a major compaction requests the "
            "cleaning"
        ]
