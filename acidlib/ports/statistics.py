"""The basic statistics of a place after its compaction, written so that no concurrent change is lost.

Source: Hive 4 `Worker`, which after the commit runs ANALYZE ... COMPUTE STATISTICS NOSCAN (`StatsUpdater`), and ignores
its errors. A place whose run dies before keeps its old statistics until its next compaction.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from acidlib.acid.names import Generation
from acidlib.acid.state import acid_state
from acidlib.acid.write_ids import ALL_COMMITTED, ValidWriteIdList
from acidlib.arguments import METASTORE_DB
from acidlib.errors import ConflictError, RefusedError, UnknownOutcomeError, known_error
from acidlib.execute.services import Services
from acidlib.metastore.catalog import CHANGED, NotComparedError, WholeTable
from acidlib.metastore.hms import Hms
from acidlib.model.results import Statistics
from acidlib.model.tables import TableRef
from acidlib.places.place import Place, TableFacts
from acidlib.planning.results import BYTES, FILES, ROWS, basic_statistics, statistics_changes
from acidlib.queue.metastore_database import MetastoreDatabase, Owner
from acidlib.report.progress import WARNING
from acidlib.stores.listing import list_location

GATHER = "hive.compactor.gather.stats"
_TRIES = 4
_NAME_THE_DATABASE = f"Name the metastore's database with {METASTORE_DB} to have them written there."
_LATER = "The next compaction tries again."
_SECOND = 1.5
"""After so long any change of a table gives it another time of its last change, by the clocks of all metastores."""
_CLOCKS_AGREE = 60.0
"""Our clock and that of a metastore differ by fewer seconds."""


class StatisticsUpdater:
    """Writes the statistics of places to one metastore; `database` is the metastore's own, if the run names it.

    Threads may share it. A metastore that cannot compare is asked once, and a note says so once.
    """

    def __init__(self, services: Services, hms: Hms, database: MetastoreDatabase | None) -> None:
        self._services = services
        self._hms = hms
        self._database = database
        self._mutex = threading.Lock()
        self._not_compared: TableRef | None = None
        """The table at which it was seen that the metastore compares nothing."""

    def update(
        self, place: Place, *, known_since: float, results: Collection[str], rows: int | None
    ) -> Statistics | None:
        """Write the statistics of what readers find at a place now; return None if the settings do not want that.

        known_since  when the place was read from the metastore, in epoch seconds
        results      the directories of the compaction's result, with so many `rows`; None = unknown
        """
        if place.facts is None or not self._services.settings.flag(GATHER):
            return None
        try:
            return self._update(place, place.facts, known_since, results, rows)
        except NotComparedError as error:
            with self._mutex:
                is_first, self._not_compared = self._not_compared is None, place.ref
            if is_first:
                note = f"the database of this metastore cannot compare: statistics of tables are not updated ({error})"
                self._services.progress.note(note, level=WARNING)
            return Statistics(reason=f"{error}. {_NAME_THE_DATABASE}")
        except Exception as error:  # the compaction has succeeded all the same
            return Statistics(reason=known_error(error, f"update statistics of {place.ref}").words)

    def _update(
        self, place: Place, facts: TableFacts, known_since: float, results: Collection[str], rows: int | None
    ) -> Statistics:
        parameters, failed = self._parameters(place, facts, known_since), None
        fs, names = self._services.fs(place.location), self._hms.names
        for _ in range(_TRIES):
            txns = self._hms.open_txns()
            write_ids = self._hms.valid_write_ids([place.ref.whole_table], txns)[place.ref.whole_table]
            try:
                before = parameters.read(write_ids)
                listing = list_location(fs, place.location, missing=RefusedError)
                state = acid_state(
                    listing,
                    write_ids,
                    names=names,
                    txns=txns if names is Generation.HIVE4 else ALL_COMMITTED,
                    ignore_empty_files=True,
                )
                figures = basic_statistics(state, listing, results=results, rows=rows)
                wanted = statistics_changes(before, figures)
                if wanted:
                    parameters.change(before, wanted)
            except (ConflictError, UnknownOutcomeError) as error:
                failed = error  # try again with the table as it is now
            else:
                return Statistics(
                    written=tuple(wanted), files=figures[FILES], bytes=figures[BYTES], rows=figures.get(ROWS)
                )
        assert failed is not None
        raise failed

    def _parameters(self, place: Place, facts: TableFacts, known_since: float) -> _InDatabase | _ByCall:
        owner = Owner(
            catalog=self._hms.catalog,
            ref=place.ref,
            created=(facts.partition or facts.table).created,
        )
        if self._database is not None and self._database.has_parameters():
            return _InDatabase(self._database, owner)
        cannot = f"Cannot update statistics of {place.ref}: "
        hint = _NAME_THE_DATABASE
        if self._hms.calls is not Generation.HIVE4:
            raise RefusedError(f"{cannot}no call of Hive 3.1 keeps concurrent changes. {hint}")
        if place.ref.partition is not None:
            raise RefusedError(f"{cannot}no call that changes a partition keeps concurrent changes. {hint}")
        if self._not_compared is not None:
            raise RefusedError(
                f"{cannot}the metastore's database cannot compare, as {self._not_compared} showed. {hint}"
            )
        return _ByCall(self._services, self._hms, place, facts, known_since)


class _InDatabase:
    """Changes single rows of the metastore's own tables."""

    def __init__(self, database: MetastoreDatabase, owner: Owner) -> None:
        self._database = database
        self._owner = owner

    def read(self, write_ids: ValidWriteIdList) -> Mapping[str, str]:
        """Return all parameters as they are now."""
        del write_ids
        parameters = self._database.parameters(self._owner)
        if parameters is None:
            raise RefusedError(
                f"Cannot update statistics of {self._owner.ref}: {self._database.shown} has no such place of this "
                f"metastore. Name the database of the metastore with {METASTORE_DB}."
            )
        return parameters

    def change(self, before: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        """Change these rows alone, each only if it is as before."""
        self._database.change_parameters(self._owner, before, wanted)


class _ByCall:
    """Changes a table of Hive 4 without partitions by a call that compares its time of the last change.

    That time has seconds. So a change waits until the second that is compared has passed: a concurrent change in the
    same second would go unnoticed.
    """

    def __init__(
        self,
        services: Services,
        hms: Hms,
        place: Place,
        facts: TableFacts,
        known_since: float,
    ) -> None:
        self._services = services
        self._hms = hms
        self._place = place
        self._stamp = facts.table.properties.get(CHANGED)
        self._since = known_since
        self._write_ids: ValidWriteIdList | None = None
        self._whole: WholeTable | None = None

    def read(self, write_ids: ValidWriteIdList) -> Mapping[str, str]:
        """Return all properties, unchanged for more than a second, and written by transactions that have ended.

        write_ids  listed before; ConflictError while, by them, a transaction that wrote the table is open
        """
        place, cannot = self._place, f"Cannot update statistics of {self._place.ref}: "
        whole = self._hms.whole_table(place.ref)
        if whole is None or (whole.table.created, whole.table.id) != place.table_identity:
            raise RefusedError(f"{cannot}the table was dropped meanwhile.")
        if whole.is_skewed:
            raise RefusedError(
                f"{cannot}it is skewed, and would lose the places of its values. "
                "ANALYZE TABLE ... COMPUTE STATISTICS NOSCAN in Hive updates them."
            )
        now, stamp = self._services.clock(), whole.table.properties.get(CHANGED, "")
        if not stamp.isdecimal():
            raise RefusedError(
                f"{cannot}it has no {CHANGED}, by which concurrent changes are noticed. "
                "Any ALTER TABLE in Hive gives it one."
            )
        self._whole, self._write_ids = whole, write_ids
        if stamp != self._stamp:
            self._stamp, self._since = stamp, now
        remaining = _SECOND - (now - self._since)
        if remaining > 0 and now - int(stamp) < _CLOCKS_AGREE:
            self._services.pause(remaining)
            raise ConflictError(f"{cannot}the table changes every second. {_LATER}")
        write_id = whole.write_id
        if not write_ids.is_write_id_valid(write_id) and not write_ids.is_write_id_aborted(write_id):
            self._services.pause(_SECOND)
            raise ConflictError(
                f"{cannot}the transaction of write id {write_id} has written some and has not committed. {_LATER}"
            )
        return whole.table.properties

    def change(self, before: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        """Give the table these properties if it is as it was read; else ConflictError."""
        assert self._whole is not None
        assert self._write_ids is not None
        now = max(int(self._services.clock()), int(before[CHANGED]) + 1)
        self._hms.change_properties(self._whole, {**wanted, CHANGED: str(now)}, self._write_ids)
