"""Targets out of a metastore: which tables and partitions there are, which of them concern a compactor, and as of when.

One snapshot of the transactions is taken for everything that is selected, before any directory is listed: what is
written after it is not committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from acidlib.config.settings import Layer
from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.metastore.hms import Hms
from acidlib.metastore.options import CATALOG
from acidlib.model.location import NOWHERE
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest
from acidlib.model.snapshots import ALL_COMMITTED, ValidTxnList
from acidlib.model.tables import Database, Partition, PartitionName, Table, TableRef, matches
from acidlib.planning.initiate import not_acid_reason, not_compactable_reason
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.service.places import FULL, INSERT_ONLY, Interpretation, TableFacts, Target
from acidlib.service.selection import PassedOver, Selected, Selection
from acidlib.service.services import Services, value_or_raise
from acidlib.wording import plural


class GoneError(RefusedError):
    """A table or partition that does not exist any more."""


class Catalog:
    """The tables of one metastore, as targets."""

    def __init__(self, services: Services, hms: Hms) -> None:
        self._services = services
        self._hms = hms
        self._known_databases: dict[str, Database] = {}

    def select(
        self,
        selection: Selection,
        *,
        automatic: bool,
        busy: Collection[TableRef] = (),
        known: Collection[TableRef] = (),
    ) -> Selected:
        """Return what is selected, as of one snapshot.

        automatic  for the initiator, which passes over what must not be compacted automatically and what is `busy` (a
                   request for it waits or works already)
        known      to the queue: it may have been dropped since

        Raises MissingError when a named table, or any partition that is named, does not exist, RefusedError when one is
        no ACID table.
        """
        chosen: list[Target] = []
        passed_over: list[PassedOver] = []
        passed: Counter[str] = Counter()
        tables, notes = self._named(selection, known)
        others = self._others(tables)
        for database, table in tables:
            never = self._refusal(database, table, others.get(table.ref))
            reason = never or self._why_not(table, database, automatic=automatic)
            if reason is None:
                for place in self._places(database, table, selection, busy):
                    if isinstance(place, Target):
                        chosen.append(place)
                    else:
                        passed_over.append(place)
            elif automatic and str(table.ref) not in selection.tables:
                passed[reason.replace(str(table.ref), "…")] += 1
            else:
                passed_over.append(_passed_over(database, table, None, reason, is_refused=never is not None))
        if selection.partitions and tables and not (chosen or passed_over or known):
            notes.append(selection.missing_partitions_note([table.ref for _, table in tables]))
        for reason, count in sorted(passed.items()):
            notes.append(f"{plural(count, 'table is', 'tables are')} skipped: {reason}")
        notes += self._warnings(chosen)
        targets = tuple(self._as_of_now(chosen))
        return Selected(targets=targets, passed_over=tuple(passed_over), notes=tuple(notes))

    def require_named(self, selection: Selection, known: Collection[TableRef]) -> list[str]:
        """Return notes about what --table and --partition name and does not exist; raise as `select` does."""
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
    ) -> tuple[list[tuple[Database, Table]], list[str]]:
        """Return the tables that are selected, and notes about names that none has."""
        tables = list(self._tables(selection))
        for _, table in tables:
            if selection.names_table(str(table.ref)) and (reason := not_acid_reason(table)) is not None:
                raise RefusedError(reason)
        refs = [*(table.ref for _, table in tables), *known]
        return tables, selection.missing_table_notes(refs, "no table of the metastore")

    def _wanted_partitions(self, table: Table, selection: Selection) -> list[str]:
        names = self._hms.partition_names(table.ref) if table.partition_keys else ()
        return [name for name in names if matches(PartitionName.parse(name), selection.partitions)]

    def places(
        self, requests: Sequence[CompactionRequest], txns: ValidTxnList | None = None
    ) -> list[Target | AcidError]:
        """Return the place of each request, as of a snapshot or of now, or why there is none, in Hive's words
        where it has some.
        """
        found: dict[TableRef, Target | AcidError] = {}
        wanted: dict[str, dict[str, set[TableRef]]] = {}
        for request in requests:
            wanted.setdefault(request.ref.database, {}).setdefault(request.ref.table, set()).add(request.ref)
        for database, tables in wanted.items():
            known = {table.ref.table: table for table in self._hms.tables(database, list(tables))}
            others = self._hms.of_other_catalogs(database, list(tables))
            for name, refs in tables.items():
                found.update(self._of_table(refs, known.get(name.lower()), others.get(name.lower())))
        good = [place for place in found.values() if isinstance(place, Target)]
        for place in self._as_of_now(good, txns):
            found[place.ref] = place
        return [found[request.ref] for request in requests]

    def place(self, request: CompactionRequest, txns: ValidTxnList | None = None) -> Target:
        """Return what one request is about, as of a snapshot or of now; raises RefusedError in Hive's words.

        Also refused is what a compactor must not touch.
        """
        (target,) = self._as_of_now([self.whereabouts(request)], txns)
        return replace(target, request_properties=dict(request.properties))

    def whereabouts(self, request: CompactionRequest) -> Target:
        """Do as `place`, without what is committed there: which table it is, and where it lies."""
        ref = request.ref
        return value_or_raise(self._of_table({ref}, self._hms.table(ref), self._other_catalog(ref))[ref])

    def table_itself(self, ref: TableRef) -> Target | None:
        """Return a table with its own directory, whether it has partitions or not; None where there is none.

        Raises RefusedError, too, for a table that a compactor must not touch.
        """
        table = self._hms.table(ref)
        if table is None:
            return None
        owner = self._owner(table)
        reason = self._refusal(owner, table, self._other_catalog(ref))
        if reason is not None:
            raise RefusedError(reason)
        return self._target(owner, table, None, None)

    def partitions_of(self, table: Target) -> list[Target]:
        """Return the partitions of a table; RefusedError where one of them must not be touched."""
        assert table.facts is not None
        names = self._hms.partition_names(table.ref)
        found = self._hms.partitions(table.facts.table, names)
        return [self._target(table.facts.database, table.facts.table, name, one) for name, one in found.items()]

    def is_dropped(self, target: Target) -> bool:
        """Return whether a table or partition of a selection does not exist any more."""
        ref = target.ref
        return isinstance(self._of_table({ref}, self._hms.table(ref), None)[ref], GoneError)

    def _owner(self, table: Table) -> Database:
        return self._database(table.ref.database) or Database(name=table.ref.database)

    def _database(self, name: str) -> Database | None:
        """Return a database, asked for once in a run: its properties are settings and say nothing of places."""
        found = self._known_databases.get(name)
        if found is None:
            found = self._hms.database(name)
            if found is not None:
                self._known_databases[name] = found
        return found

    def _of_table(
        self, refs: Collection[TableRef], table: Table | None, other: str | None
    ) -> dict[TableRef, Target | AcidError]:
        """Return the places of one table, or why there are none; `other` is a catalog with a table of this name."""
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
        known = self._hms.partitions(table, named) if named else {}
        found: dict[TableRef, Target | AcidError] = {}
        for ref in refs:
            if ref.partition is not None and ref.partition not in known:
                found[ref] = GoneError(f"Unable to find partition {ref}, assuming it was dropped and moving on.")
            elif ref.partition is None and table.partition_keys:
                found[ref] = RefusedError(
                    f"Cannot compact {table.ref}: it is partitioned and the request names no partition; ask for "
                    "each partition, or by --table"
                )
            else:
                try:
                    found[ref] = self._target(owner, table, ref.partition, known.get(ref.partition or ""))
                except AcidError as error:
                    found[ref] = error
        return found

    def _other_catalog(self, ref: TableRef) -> str | None:
        """Return a catalog that has a transactional table of this name, too."""
        return self._hms.of_other_catalogs(ref.database, [ref.table]).get(ref.table.lower())

    def _refusal(self, database: Database, table: Table, other: str | None) -> str | None:
        """Return why a compactor must not touch a table; `other` is a catalog that has one of this name, too."""
        reason = self._why_not(table, database, automatic=False)
        if reason is None and other is not None:
            return (
                f"Cannot compact {table.ref}: the catalog {other} has a transactional table of this name, too, "
                "and the metastore takes their transactions, locks and requests for those of one table"
            )
        return reason

    def _why_not(
        self, table: Table, database: Database, *, automatic: bool, partition: Partition | None = None
    ) -> str | None:
        return not_compactable_reason(
            table,
            database.properties,
            generation=self._hms.generation,
            automatic=automatic,
            partition=partition,
            insert_only_enabled=self._services.settings.flag("hive.compactor.compact.insert.only"),
        )

    def _tables(self, selection: Selection) -> Iterator[tuple[Database, Table]]:
        databases = {pattern.partition(".")[0].lower() for pattern in selection.tables}
        if not databases or any(set(name) & set("*?[") for name in databases):
            databases = set(self._hms.database_names())
        for name in sorted(databases):
            database = self._database(name)
            if database is None:
                continue  # dropped meanwhile, or never there: the caller tells
            names = [table for table in self._hms.table_names(name) if selection.wants_table(TableRef(name, table))]
            for table in self._hms.tables(name, sorted(names)):
                yield database, table

    def _others(self, tables: Iterable[tuple[Database, Table]]) -> dict[TableRef, str]:
        """Return those whose name a transactional table of another catalog has, too, with that catalog."""
        names: dict[str, list[str]] = {}
        for _, table in tables:
            names.setdefault(table.ref.database, []).append(table.ref.table)
        return {
            TableRef(database, name): catalog
            for database, of_database in names.items()
            for name, catalog in self._hms.of_other_catalogs(database, of_database).items()
        }

    def _places(
        self, database: Database, table: Table, selection: Selection, busy: Collection[TableRef]
    ) -> Iterable[Target | PassedOver]:
        found: Mapping[str | None, Partition | None]
        if table.partition_keys:
            wanted = self._wanted_partitions(table, selection)
            partitions = self._hms.partitions(table, wanted)
            found = {name: partitions[name] for name in wanted if name in partitions}
        else:
            found = {} if selection.partitions else {None: None}
        for name, partition in found.items():
            try:
                target = self._target(database, table, name, partition)
            except AcidError as error:
                yield _passed_over(database, table, name, str(error), is_refused=True)
                continue
            if target.ref in busy:
                yield PassedOver(target=target, reason="a request for it waits or is being worked on")
            else:
                yield target

    def _target(self, database: Database, table: Table, name: str | None, partition: Partition | None) -> Target:
        storage = table.storage if partition is None else partition.storage
        if partition is not None and (reason := self._why_not(table, database, automatic=False, partition=partition)):
            raise RefusedError(reason)
        if not storage.location:
            raise RefusedError(f"Cannot compact {table.ref}: the metastore tells no location for it")
        location = self._services.stores.locate_below(storage.location, table.storage.location or storage.location)
        if location.is_root:
            raise RefusedError(f"Cannot compact {table.ref}: its location is the whole file system")
        return Target(
            ref=table.ref._replace(partition=name),
            location=location,
            interpretation=Interpretation(
                generation=self._hms.generation, table_kind=INSERT_ONLY if table.is_insert_only else FULL
            ),
            facts=TableFacts(table=table, database=database, partition=partition),
        )

    def _warnings(self, targets: Iterable[Target]) -> list[str]:
        """Return warnings about properties that look like settings of a compactor and are none."""
        found: dict[str, None] = {}
        by_table = {target.ref.whole_table: target.facts for target in targets if target.facts is not None}
        for ref, facts in by_table.items():
            settings, of_database = self._services.settings.with_layer(Layer.DATABASE, facts.database.properties)
            _, of_table = settings.with_layer(Layer.TABLE, facts.table.properties)
            found.update((f"database {ref.database}: {warning}", None) for warning in of_database)
            found.update((f"table {facts.table.ref}: {warning}", None) for warning in of_table)
        return list(found)

    def _as_of_now(self, targets: Sequence[Target], txns: ValidTxnList | None = None) -> list[Target]:
        """Return the targets with what is committed as of one snapshot, which precedes every listing."""
        if not targets:
            return []
        if txns is None:
            txns = self._hms.open_txns()
        lists = self._hms.valid_write_ids(sorted({one.ref.whole_table for one in targets}), txns)
        is_hive4 = self._hms.generation is Generation.HIVE4

        def understood(target: Target) -> Target:
            interpretation = replace(
                target.interpretation,
                write_ids=StatedWriteIds(single=lists[target.ref.whole_table]),
                txns=txns if is_hive4 else ALL_COMMITTED,
                # what a transaction opened now would have; a compaction puts its own there
                visibility_txn=txns.high_water_mark + 1 if is_hive4 else None,
                visible_on_commit=is_hive4,
            )
            return replace(target, interpretation=interpretation)

        return [understood(target) for target in targets]


def _passed_over(
    database: Database, table: Table, partition: str | None, reason: str, *, is_refused: bool
) -> PassedOver:
    facts = TableFacts(table=table, database=database)
    place = Target(ref=table.ref._replace(partition=partition), location=NOWHERE, facts=facts)
    return PassedOver(target=place, reason=reason, is_refused=is_refused)


def require_no_cleaner_of_another_catalog(hms: Hms) -> None:
    """Raise RefusedError where Hive's own cleaner would forget what was aborted in tables of the catalog.

    It looks into the default catalog of its metastore alone, and what it does not find there it marks as cleaned: rows
    of aborted transactions that still lie in the table are then committed to every reader. Source: Hive `Cleaner`, from
    4 on `CompactionCleaner`; in Hive 3.1 the switch of the initiator is that of the cleaner, too.
    """
    if (
        not hms.other_catalogs()
        or hms.config_value("metastore.catalog.default", CATALOG).strip().lower() == hms.catalog
    ):
        return
    switch = f"metastore.compactor.{'cleaner' if hms.generation is Generation.HIVE4 else 'initiator'}.on"
    if hms.config_value(switch, "unknown").strip().lower() != "false":
        raise RefusedError(
            f"Cannot compact tables of the catalog {hms.catalog}: the metastore's {switch} is not false, and "
            "Hive's own cleaner takes tables of this catalog for dropped and forgets what was aborted in them"
        )


def require_unchanged(before: Target, now: Target, doing: str) -> None:
    """Raise ConflictError, cannot do that, unless the table is still the one that was looked at, at the same place."""
    same_table = before.table_identity == now.table_identity
    if not same_table or before.location != now.location:
        what = "moved" if same_table else "dropped and made again"
        raise ConflictError(f"Cannot {doing} {before.ref}: it was {what} meanwhile")


def run_as_user(services: Services, target: Target) -> str:
    """Return the user that a compaction runs as (Hive `Initiator.resolveUserToRunAs`); Hive's cleaner needs one.

    `metastore.compactor.run.as.user`, else the owner of the table's directory, else the table's owner.
    """
    given = services.settings.text("metastore.compactor.run.as.user")
    owner = given or services.fs(target.location).owner(str(target.location))
    if not owner and target.facts is not None:
        owner = target.facts.table.owner
    if not owner:
        raise RefusedError(
            f"Cannot compact {target.ref}: {target.location} has no owner, whom it would run as; set "
            "metastore.compactor.run.as.user"
        )
    return owner
