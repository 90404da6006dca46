"""Reading a queue and its history."""

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, true

from acidlib.errors import CorruptError
from acidlib.model.location import Location
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.queue.database import Database, database_now_ms
from acidlib.queue.rows import RequestTable, Unreadable, place_key
from acidlib.queue.rules import failed_attempts_reason, same_entity
from acidlib.queue.schema import PLACE
from acidlib.queue.statements import (
    CHUNK,
    about_place,
    has_id,
    in_state,
    may_be_at,
    mentions,
    not_ours,
    noting_at_a_place,
    of_entity,
    of_table,
    owned,
    state_location,
    stored_location,
    whose,
)
from acidlib.queue.tables import open_tables

QUEUED = frozenset((State.INITIATED, State.WORKING, State.READY_FOR_CLEANING))
"""The states of requests in the queue; those of the history have ended."""

_Condition = Callable[[Connection, RequestTable], ColumnElement[bool]]


class QueueReader:
    """What can be asked of a queue at a SQLAlchemy URL; see `SqlQueue`.

    A row that is not understood is an error in tables of our own. A metastore's tables are written by others too:
    there such a row is left out of every answer, is never taken or cleaned, and is listed by `unreadable`.
    """

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._tables = open_tables(self._database)

    @property
    def schema_version(self) -> str | None:
        """The version of the metastore's schema this queue is part of; None for tables of our own."""
        return None if self._tables.metastore is None else self._tables.metastore.version

    @property
    def shown(self) -> str:
        """The URL for people: without a password."""
        return self._database.shown

    def close(self) -> None:
        """Closes the connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def now_ms(self, callers_ms: int) -> int:
        """The time that the times of this queue compare with: a metastore's database tells it, else the caller."""
        with self._database.reading("read") as connection:
            return self._now_ms(connection, callers_ms)

    def waiting(self, kind: CompactionType | None = None) -> tuple[CompactionRequest, ...]:
        """The requests in state initiated, oldest first, to choose from; `claim_id` then takes one."""
        wanted = in_state(self._tables.queue, State.INITIATED)
        if kind is not None:
            wanted = and_(wanted, self._tables.queue.column("TYPE") == kind.value)
        return tuple(sorted(self._queued(wanted), key=lambda row: row.id))

    def ready_for_cleaning(self) -> tuple[CompactionRequest, ...]:
        """What awaits the cleaner, in an order in which no later result of a place comes before an earlier one."""
        found = self._queued(in_state(self._tables.queue, State.READY_FOR_CLEANING))
        return tuple(sorted(found, key=lambda row: (row.highest_write_id or 0, row.id)))

    def find(self, request_id: int) -> CompactionRequest | None:
        """The request with this id, in the queue or in the history."""
        with self._database.reading("read", one_moment=True) as connection:
            for table in (self._tables.queue, self._tables.history):
                found = self._requests(connection, table, has_id(table, request_id))
                if found:
                    return found[0]
        return None

    def assert_owned(self, request_id: int, worker_id: str) -> None:
        """Raises ConflictError unless a worker's request is still being worked on by it."""
        queue = self._tables.queue
        with self._database.reading("read") as connection:
            found = connection.execute(owned(queue, by_worker=True).ids, whose(request_id, worker_id=worker_id)).first()
        if found is None:
            raise not_ours(request_id)

    def show(self) -> tuple[CompactionRequest, ...]:
        """All rows of the queue and the history, newest first, read at one moment."""
        return self._shown(lambda *_: true())

    def in_states(self, *states: State) -> tuple[CompactionRequest, ...]:
        """The rows of the queue and the history in one of these states, newest first, read at one moment."""
        letters = [state.value for state in states]
        tables = [self._tables.queue]
        if not QUEUED.issuperset(states):
            tables.append(self._tables.history)
        return self._shown(lambda _, table: table.column("STATE").in_(letters), tables)

    def in_states_at(self, locations: Iterable[Location], *states: State) -> tuple[CompactionRequest, ...]:
        """As `in_states`, those whose facts state one of these locations, or none, and perhaps more; in any order."""
        tables = (self._tables.queue, self._tables.history)
        if not all(table.has(PLACE) for table in tables):
            return self.in_states(*states)
        letters = [state.value for state in states]
        keys = list(dict.fromkeys(map(place_key, locations)))
        found = []
        with self._database.reading("read", one_moment=True) as connection:
            for table in tables:
                place, in_state = table.column(PLACE), table.column("STATE").in_(letters)
                wanted = [place.in_(keys[start : start + CHUNK]) for start in range(0, len(keys), CHUNK)]
                for one in (place.is_(None), *wanted):
                    found += self._requests(connection, table, and_(one, in_state))
        return tuple(found)

    def newest_of_places(self) -> tuple[CompactionRequest, ...]:
        """The newest row of the queue and of the history about each place by each of its names, and perhaps more."""

        def newest(_: Connection, table: RequestTable) -> ColumnElement[bool]:
            if not table.has(PLACE):
                return true()
            identity, place = table.column("ID"), table.column(PLACE)
            named = (table.column("DATABASE"), table.column("TABLE"), table.column("PARTITION"), place)
            return or_(place.is_(None), identity.in_(select(func.max(identity)).group_by(*named)))

        return self._shown(newest)

    def of_entity(self, request: CompactionRequest) -> tuple[CompactionRequest, ...]:
        """The rows of the queue and the history about a request's table and partition, newest first."""
        return self._shown(lambda connection, table: of_entity(connection, table, request))

    def may_note_at(self, location: Location, name: str) -> bool:
        """Whether a row about this location may have a property of this name: `at_location` tells, at more cost."""
        tables = (self._tables.queue, self._tables.history)
        if not all(table.has(PLACE) for table in tables):
            return True
        with self._database.reading("read") as connection:
            return any(
                connection.execute(noting_at_a_place(table, name), about_place(location)).first() is not None
                for table in tables
            )

    def at_location(self, location: Location) -> tuple[CompactionRequest, ...]:
        """The rows of the queue and the history whose facts state this location, whatever they name, newest first."""
        return self.at_locations([location])[location]

    def at_locations(self, locations: Sequence[Location]) -> dict[Location, tuple[CompactionRequest, ...]]:
        """As `at_location`, of some hundreds at most, read at one moment."""
        found: dict[Location, list[CompactionRequest]] = {location: [] for location in locations}
        texts = {location: stored_location(location) for location in locations}
        for row in self._shown(lambda _, table: state_location(table, texts)):
            if row.facts.location in found:
                found[row.facts.location].append(row)
        return {location: tuple(rows) for location, rows in found.items()}

    def has_succeeded_below(self, location: Location) -> bool:
        """Whether the history knows a success at this location or below it."""
        history = self._tables.history
        wanted = and_(in_state(history, State.SUCCEEDED), mentions(history, location.stored_text))
        with self._database.reading("read") as connection, connection.execute(history.select().where(wanted)) as rows:
            places = (history.request(row).facts.location for row in rows)
            return any(place is not None and location.holds(place) for place in places)

    def unreadable(self) -> tuple[Unreadable, ...]:
        """The rows that are not understood, newest first."""
        with self._database.reading("read", one_moment=True) as connection:
            found = [
                unread
                for table in (self._tables.queue, self._tables.history)
                for row in connection.execute(table.select())
                if (unread := table.unreadable(row)) is not None
            ]
        return tuple(sorted(found, key=lambda row: row.id, reverse=True))

    def failed_attempts(
        self,
        request: CompactionRequest,
        *,
        threshold: int,
        retry_ms: int,
        now_ms: int,
    ) -> str | None:
        """Why a place is not compacted automatically after failures; see `failed_attempts_reason`.

        In tables of our own the rule is Hive 4's, which tries again, whatever the generation of the table is.
        In a metastore it is Hive 3.1's, which for a whole table counts the rows of its partitions too.
        """
        history, location = self._tables.history, request.facts.location
        of_hive = self._tables.metastore is not None
        with self._database.reading("read") as connection:
            about = of_table if of_hive and request.ref.partition is None else of_entity
            wanted = about(connection, history, request)
            if not of_hive and location is not None and history.has(PLACE):
                wanted = may_be_at(history, location)  # a table may have many partitions, and each a history
            rows = self._requests(connection, history, wanted)
        return failed_attempts_reason(
            rows if of_hive else [row for row in rows if same_entity(row, request)],
            threshold=threshold,
            retry_ms=retry_ms,
            now_ms=now_ms,
            generation=Generation.HIVE3 if of_hive else Generation.HIVE4,
        )

    def _now_ms(self, connection: Connection, callers_ms: int) -> int:
        return callers_ms if self._tables.metastore is None else database_now_ms(connection)

    def _shown(self, wanted: _Condition, tables: Sequence[RequestTable] = ()) -> tuple[CompactionRequest, ...]:
        with self._database.reading("read", one_moment=True) as connection:
            rows = [
                row
                for table in tables or (self._tables.queue, self._tables.history)
                for row in self._requests(connection, table, wanted(connection, table))
            ]
        return tuple(sorted(rows, key=lambda row: row.id, reverse=True))

    def _queued(self, wanted: ColumnElement[bool]) -> list[CompactionRequest]:
        with self._database.reading("read") as connection:
            return self._requests(connection, self._tables.queue, wanted)

    @staticmethod
    def _requests(
        connection: Connection, table: RequestTable, wanted: ColumnElement[bool] | None = None
    ) -> list[CompactionRequest]:
        statement = table.select()
        if wanted is not None:
            statement = statement.where(wanted)
        found = []
        for row in connection.execute(statement):
            try:
                found.append(table.request(row))
            except CorruptError:
                if not table.of_hive:
                    raise
        return found
