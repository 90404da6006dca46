"""The tables and partitions of a metastore as places: those that are selected, and those of requests.

One snapshot of the transactions is taken for everything that is selected, before any directory is listed: a write after
it is not committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ALL_COMMITTED, ValidTxnList
from acidlib.arguments import TABLE
from acidlib.config.settings import Layer
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, known_error
from acidlib.execute.answers import value_or_raise
from acidlib.execute.services import Services
from acidlib.location import NOWHERE
from acidlib.metastore.hms import Hms
from acidlib.metastore.options import CATALOG
from acidlib.model.requests import CompactionRequest
from acidlib.model.tables import Database, MetastoreTable, Partition, PartitionName, TableRef, matches
from acidlib.places.place import FULL, INSERT_ONLY, Interpretation, Place, TableFacts
from acidlib.places.selection import PassedOver, Selected, Selection, is_glob
from acidlib.planning.initiate import not_acid_reason, not_compactable_reason
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.wording import closest, plural

_MAX_WARNINGS = 20
"""About the properties of one table or database, which may have any number."""


def tables_like(hms: Hms, name: str) -> Iterator[str]:
    """Yield the tables of a metastore among which one that does not exist may be meant: those of a database like it."""
    database = closest(name.partition(".")[0].lower(), hms.database_names())
    if database is not None:
        yield from (f"{database}.{table}" for table in hms.table_names(database))


class GoneError(RefusedError):
    """A table or partition that does not exist any more."""


class Catalog:
    """The tables of one metastore, as places."""

    def __init__(self, services: Services, hms: Hms) -> None:
        """Describe the tables of a metastore; RefusedError where nothing says what reads them, see `hms.reader`."""
        self._services = services
        self._hms = hms
        self._reader = hms.reader
        self._known_databases: dict[str, Database] = {}

    def select(
        self,
        selection: Selection,
        *,
        automatic: bool,
        busy: Collection[TableRef] = (),
        known: Collection[TableRef] = (),
    ) -> Selected:
        """Return the selected tables and partitions, as of one snapshot.

        automatic  for the initiator, which passes over tables that must not be compacted automatically
        busy       places with a request that waits or works, which are passed over
        known      tables and partitions that the queue knows: a missing one may have been dropped since

        Raises MissingError when a named table does not exist, or none of the named partitions, RefusedError when a
        named table is no ACID table.
        """
        chosen: list[Place] = []
        passed_over: list[PassedOver] = []
        skipped: Counter[str] = Counter()
        tables, notes = self._named(selection, known)
        others = self._others(tables)
        for database, table in tables:
            refusal = self._refusal(database, table, others.get(table.ref))
            reason = refusal or self._why_not(table, database, automatic=automatic)
            if reason is None:
                try:
                    of_table = list(self._places(database, table, selection, busy))
                except CorruptError as error:  # what the metastore says of one table ends no other's work
                    passed_over.append(_passed_over(database, table, None, error.words, is_refused=True))
                    continue
                for place in of_table:
                    if isinstance(place, Place):
                        chosen.append(place)
                    else:
                        passed_over.append(place)
            elif automatic and str(table.ref) not in selection.tables:
                skipped[reason.replace(str(table.ref), "…")] += 1
            else:
                passed_over.append(_passed_over(database, table, None, reason, is_refused=refusal is not None))
        if selection.partitions and tables and not (chosen or passed_over or known):
            notes.append(selection.missing_partitions_note([table.ref for _, table in tables]))
        for reason, count in sorted(skipped.items()):
            notes.append(f"{plural(count, 'table is', 'tables are')} skipped: {reason}")
        notes += self._warnings(chosen)
        places = tuple(self._as_of(chosen))
        return Selected(places=places, passed_over=tuple(passed_over), notes=tuple(notes))

    def names(self, selection: Selection) -> list[TableRef]:
        """Return the selected tables that are transactional; raise MissingError for a name that no table has."""
        tables, _ = self._named(selection, ())
        return [table.ref for _, table in tables if not_acid_reason(table) is None]

    def require_named(self, selection: Selection, known: Collection[TableRef]) -> list[str]:
        """Return notes about missing tables and partitions of --table and --partition; raise as `select` does."""
        tables, notes = self._named(selection, known)
        if (
            selection.partitions
            and tables
            and not known
            and not any(self._wanted_partitions(table, selection) for _, table in tables)
        ):
            notes.append(selection.missing_partitions_note([table.ref for _, table in tables]))
        return notes

    def _named(
        self, selection: Selection, known: Collection[TableRef]
    ) -> tuple[list[tuple[Database, MetastoreTable]], list[str]]:
        """Return the selected tables, and notes about names that no table has."""
        tables = list(self._tables(selection))
        for _, table in tables:
            if selection.names_table(str(table.ref)) and (reason := not_acid_reason(table)) is not None:
                raise RefusedError(reason)
        refs = [*(table.ref for _, table in tables), *known]
        return tables, selection.missing_table_notes(refs, "no table of the metastore", partial(tables_like, self._hms))

    def _wanted_partitions(self, table: MetastoreTable, selection: Selection) -> list[str]:
        names = self._hms.partition_names(table.ref) if table.partition_keys else ()
        return [name for name in names if matches(PartitionName.parse(name), selection.partitions)]

    def places(
        self, requests: Sequence[CompactionRequest], txns: ValidTxnList | None = None
    ) -> list[Place | AcidError]:
        """Return for each request its place, as of a snapshot or of now, or the error that `place` would raise.

        The places are without the properties of the requests.
        """
        places: dict[TableRef, Place | AcidError] = {}
        wanted: dict[str, dict[str, set[TableRef]]] = {}
        for request in requests:
            wanted.setdefault(request.ref.database, {}).setdefault(request.ref.table, set()).add(request.ref)
        for database, tables in wanted.items():
            tables_by_name = {table.ref.table: table for table in self._hms.tables(database, list(tables))}
            others = self._hms.of_other_catalogs(database, list(tables))
            for name, refs in tables.items():
                places.update(self._of_table(refs, tables_by_name.get(name.lower()), others.get(name.lower())))
        existing = [place for place in places.values() if isinstance(place, Place)]
        places.update((place.ref, place) for place in self._as_of(existing, txns))
        return [places[request.ref] for request in requests]

    def place(self, request: CompactionRequest, txns: ValidTxnList | None = None) -> Place:
        """Return the place of one request, as of a snapshot or of now.

        Raises RefusedError if the table or partition is gone (with Hive's message) or must not be compacted.
        """
        (place,) = self._as_of([self.current_place(request.ref)], txns)
        return replace(place, request_properties=dict(request.properties))

    def current_place(self, ref: TableRef) -> Place:
        """Return the table and location of names, as `place` does, without the committed write ids."""
        return value_or_raise(self._of_table({ref}, self._hms.table(ref), self._other_catalog(ref))[ref])

    def table_itself(self, ref: TableRef) -> Place | None:
        """Return a table with its own directory, also a partitioned one; None where it does not exist.

        RefusedError for a table that a compactor must not touch.
        """
        table = self._hms.table(ref)
        if table is None:
            return None
        owner = self._owner(table)
        reason = self._refusal(owner, table, self._other_catalog(ref))
        if reason is not None:
            raise RefusedError(reason)
        return self._place(owner, table, None, None)

    def partitions_of(self, table: Place) -> list[Place]:
        """Return the partitions of a table; RefusedError where a compactor must not touch one of them."""
        assert table.facts is not None
        names = self._hms.partition_names(table.ref)
        partitions = self._hms.partitions(table.facts.table, names)
        return [self._place(table.facts.database, table.facts.table, *item) for item in partitions.items()]

    def is_dropped(self, place: Place) -> bool:
        """Return whether a table or partition of a selection does not exist any more."""
        ref = place.ref
        return isinstance(self._of_table({ref}, self._hms.table(ref), None)[ref], GoneError)

    def _owner(self, table: MetastoreTable) -> Database:
        return self._database(table.ref.database) or Database(name=table.ref.database)

    def _database(self, name: str) -> Database | None:
        """Return a database, read once in a run: its properties are settings and say nothing of places."""
        if name not in self._known_databases and (database := self._hms.database(name)) is not None:
            self._known_databases[name] = database
        return self._known_databases.get(name)

    def _of_table(
        self, refs: Collection[TableRef], table: MetastoreTable | None, other: str | None
    ) -> dict[TableRef, Place | AcidError]:
        """Return the places of one table, or the errors; `other` is a catalog with a table of this name, too."""
        name = next(iter(refs)).whole_table
        if table is None:
            gone: AcidError = GoneError(f"Unable to find table {name}, assuming it was dropped and moving on.")
            if other is not None:
                gone = RefusedError(
                    f"Cannot compact {name}: it is a table of the catalog {other}, not of {self._hms.catalog}"
                )
            return dict.fromkeys(refs, gone)
        owner = self._owner(table)
        reason = self._refusal(owner, table, other)
        if reason is not None:
            return dict.fromkeys(refs, RefusedError(reason))
        named = [ref.partition for ref in refs if ref.partition is not None]
        try:
            known = self._hms.partitions(table, named) if named else {}
        except CorruptError as error:
            return dict.fromkeys(refs, error)
        places: dict[TableRef, Place | AcidError] = {}
        for ref in refs:
            if ref.partition is not None and ref.partition not in known:
                places[ref] = GoneError(f"Unable to find partition {ref}, assuming it was dropped and moving on.")
            elif ref.partition is None and table.partition_keys:
                places[ref] = RefusedError(
                    f"Cannot compact {table.ref}: it is partitioned and the request names no partition; "
                    f"request each partition, or run the compaction with {TABLE}"
                )
            else:
                try:
                    places[ref] = self._place(owner, table, ref.partition, known.get(ref.partition or ""))
                except Exception as error:
                    places[ref] = known_error(error, f"find {ref}")
        return places

    def _other_catalog(self, ref: TableRef) -> str | None:
        """Return a catalog that has a transactional table of this name, too."""
        return self._hms.of_other_catalogs(ref.database, [ref.table]).get(ref.table.lower())

    def _refusal(self, database: Database, table: MetastoreTable, other: str | None) -> str | None:
        """Return why a compactor must not touch a table; `other` is a catalog that has one of this name, too."""
        reason = self._why_not(table, database, automatic=False)
        if reason is None and other is not None:
            return (
                f"Cannot compact {table.ref}: the catalog {other} has a transactional table of this name, too, "
                "and the metastore takes their transactions, locks and requests for those of one table"
            )
        return reason

    def _why_not(
        self, table: MetastoreTable, database: Database, *, automatic: bool, partition: Partition | None = None
    ) -> str | None:
        return not_compactable_reason(
            table,
            database.properties,
            names=self._hms.names,
            automatic=automatic,
            partition=partition,
            insert_only_enabled=self._services.settings.flag("hive.compactor.compact.insert.only"),
        )

    def _tables(self, selection: Selection) -> Iterator[tuple[Database, MetastoreTable]]:
        databases = {pattern.partition(".")[0].lower() for pattern in selection.tables}
        if not databases or any(map(is_glob, databases)):
            databases = set(self._hms.database_names())
        for name in sorted(databases):
            database = self._database(name)
            if database is None:
                continue  # dropped meanwhile, or never there: `_named` notes that
            names = [table for table in self._hms.table_names(name) if selection.wants_table(TableRef(name, table))]
            for table in self._hms.tables(name, sorted(names)):
                yield database, table

    def _others(self, tables: Iterable[tuple[Database, MetastoreTable]]) -> dict[TableRef, str]:
        """Return the tables whose name a transactional table of another catalog has, too, with that catalog."""
        names: dict[str, list[str]] = {}
        for _, table in tables:
            names.setdefault(table.ref.database, []).append(table.ref.table)
        return {
            TableRef(database, name): catalog
            for database, of_database in names.items()
            for name, catalog in self._hms.of_other_catalogs(database, of_database).items()
        }

    def _places(
        self, database: Database, table: MetastoreTable, selection: Selection, busy: Collection[TableRef]
    ) -> Iterable[Place | PassedOver]:
        partitions: Mapping[str | None, Partition | None] = {} if selection.partitions else {None: None}
        if table.partition_keys:
            names = self._wanted_partitions(table, selection)
            known = self._hms.partitions(table, names)
            partitions = {name: known[name] for name in names if name in known}
        for name, partition in partitions.items():
            try:
                place = self._place(database, table, name, partition)
            except Exception as error:
                reason = known_error(error, f"find {table.ref._replace(partition=name)}").words
                yield _passed_over(database, table, name, reason, is_refused=True)
                continue
            if place.ref in busy:
                yield PassedOver(place=place, reason="a request for it waits or is being worked on")
            else:
                yield place

    def _place(self, database: Database, table: MetastoreTable, name: str | None, partition: Partition | None) -> Place:
        storage = table.storage if partition is None else partition.storage
        if partition is not None and (reason := self._why_not(table, database, automatic=False, partition=partition)):
            raise RefusedError(reason)
        ref = table.ref._replace(partition=name)
        if not storage.location:
            raise RefusedError(f"Cannot compact {ref}: it has no location in the metastore")
        location = self._services.stores.locate_below(storage.location, table.storage.location or storage.location)
        if location.is_root:
            raise RefusedError(f"Cannot compact {ref}: its location is the whole file system")
        return Place(
            ref=ref,
            location=location,
            interpretation=Interpretation(
                names=self._hms.names,
                reader=self._reader,
                table_kind=INSERT_ONLY if table.is_insert_only else FULL,
            ),
            facts=TableFacts(table=table, database=database, partition=partition),
        )

    def _warnings(self, places: Iterable[Place]) -> list[str]:
        """Return warnings about properties that look like settings of a compactor and are none, or cannot be used.

        The latter end only what needs them, at places of this table or database.
        """
        warnings: dict[str, None] = {}
        by_table = {place.ref.whole_table: place.facts for place in places if place.facts is not None}
        for ref, facts in by_table.items():
            for of, layer, properties in (
                (f"database {ref.database}", Layer.DATABASE, facts.database.properties),
                (f"table {facts.table.ref}", Layer.TABLE, facts.table.properties),
            ):
                try:
                    _, of_settings = self._services.settings.with_layer(layer, properties)
                except RefusedError as error:
                    of_settings = (error.words,)
                warnings.update((f"{of}: {warning}", None) for warning in of_settings[:_MAX_WARNINGS])
                if len(of_settings) > _MAX_WARNINGS:
                    more = plural(len(of_settings) - _MAX_WARNINGS, "more property is", "more properties are")
                    warnings[f"{of}: {more} not known or without effect"] = None
        return list(warnings)

    def _as_of(self, places: Sequence[Place], txns: ValidTxnList | None = None) -> list[Place]:
        """Return the places with their committed write ids as of one snapshot, which precedes every listing."""
        if not places:
            return []
        if txns is None:
            txns = self._hms.open_txns()
        lists = self._hms.valid_write_ids(sorted({place.ref.whole_table for place in places}), txns)
        has_visibility = self._hms.names is Generation.HIVE4

        def interpreted(place: Place) -> Place:
            interpretation = replace(
                place.interpretation,
                write_ids=StatedWriteIds(single=lists[place.ref.whole_table]),
                txns=txns if has_visibility else ALL_COMMITTED,
                # the id that a transaction opened now would have; a compaction puts its own there
                visibility_txn=txns.high_water_mark + 1 if has_visibility else None,
                visible_on_commit=has_visibility,
            )
            return replace(place, interpretation=interpretation)

        return [interpreted(place) for place in places]


def _passed_over(
    database: Database, table: MetastoreTable, partition: str | None, reason: str, *, is_refused: bool
) -> PassedOver:
    facts = TableFacts(table=table, database=database)
    place = Place(ref=table.ref._replace(partition=partition), location=NOWHERE, facts=facts)
    return PassedOver(place=place, reason=reason, is_refused=is_refused)


def require_no_cleaner_of_another_catalog(hms: Hms) -> None:
    """Raise RefusedError where Hive's own cleaner would forget aborted write ids in tables of the catalog.

    It looks into the default catalog of its metastore alone, and marks a request for any other table as cleaned: rows
    of aborted transactions that still lie in the table are then committed to every reader. Source: Hive `Cleaner`, from
    4 on `CompactionCleaner`; in Hive 3.1 the switch of the initiator is that of the cleaner, too.
    """
    if (
        not hms.other_catalogs()
        or hms.config_value("metastore.catalog.default", CATALOG).strip().lower() == hms.catalog
    ):
        return
    switch = f"metastore.compactor.{'cleaner' if hms.calls is Generation.HIVE4 else 'initiator'}.on"
    if hms.config_value(switch, "unknown").strip().lower() != "false":
        raise RefusedError(
            f"Cannot compact tables of the catalog {hms.catalog}: the metastore's {switch} is not false, and "
            "Hive's own cleaner takes tables of this catalog for dropped and forgets which rows in them are aborted"
        )


def require_unchanged(before: Place, now: Place, doing: str) -> None:
    """Raise ConflictError unless it is the same table, at the same location; `doing` is the verb of the message."""
    same_table = before.table_identity == now.table_identity
    if not same_table or before.location != now.location:
        change = "moved" if same_table else "dropped and made again"
        raise ConflictError(f"Cannot {doing} {before.ref}: it was {change} meanwhile")


def run_as_user(services: Services, place: Place) -> str:
    """Return the user that a compaction runs as (Hive `Initiator.resolveUserToRunAs`); Hive's cleaner needs one.

    `metastore.compactor.run.as.user`, else the owner of the table's directory, else the table's owner.
    """
    configured = services.settings.text("metastore.compactor.run.as.user")
    owner = configured or services.fs(place.location).owner(str(place.location))
    if not owner and place.facts is not None:
        owner = place.facts.table.owner
    if not owner:
        raise RefusedError(
            f"Cannot compact {place.ref}: {place.location} has no owner to run as; set metastore.compactor.run.as.user"
        )
    return owner
