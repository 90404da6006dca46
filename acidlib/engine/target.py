"""What a compaction is about: a place on a file system with its names, and how the caller wants it understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from acidlib.errors import RefusedError
from acidlib.model.generation import Generation
from acidlib.model.listing import Listing
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.tables import Database, Partition, Storage, Table
from acidlib.model.txnids import ALL_COMMITTED, ValidTxnList
from acidlib.model.units import ColumnMatching, RewriteSettings
from acidlib.model.writeids import ValidWriteIdList
from acidlib.planning.generation import detect_generation
from acidlib.planning.orc_settings import rewrite_settings
from acidlib.planning.state import AcidState, acid_state
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.planning.table_schema import row_type
from acidlib.queue.rules import LOCATION
from acidlib.settings import Layer, Settings
from acidlib.storage.witness import witness_of

WRITE_IDS, HIVE_VERSION, TABLE_KIND, VISIBILITY, COLUMNS = (
    "acidlib.write.ids",
    "acidlib.hive.version",
    "acidlib.table.kind",
    "acidlib.visibility.txn",
    "acidlib.columns",
)
POSITIONAL, CASE_SENSITIVE = "orc.force.positional.evolution", "orc.schema.evolution.case.sensitive"
FULL, INSERT_ONLY = "full", "insert-only"
"""Kinds of transactional tables, as `--table-kind` names them."""

EVIDENCE = "acidlib.evidence"
"""Property: which transactions and locks existed when each directory was published, or first seen."""

TABLE_ID = "acidlib.table.id"
"""Property: which table, at which place, the evidence is of."""

LOCK_TRIES = "acidlib.lock.tries"
"""Property: how often two renames could not be made because readers held the table."""

WITNESS = "acidlib.witness"
"""Property, without a metastore: a file by which the place is known again, see `storage.witness`."""

METASTORE = "acidlib.metastore"
"""Property of a request in our own queue that was made for a metastore: its URIs."""

OUTPUTS, PUBLISHED_MS, FIRST_SEEN, DELTAS, BYTES, REASON = (
    "acidlib.outputs",
    "acidlib.published.ms",
    "acidlib.first.seen",
    "acidlib.deltas",
    "acidlib.bytes",
    "acidlib.reason",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Understanding:
    """How a table is to be understood: as the caller says, or as the metastore does.

    write_ids          which are committed; None = not stated
    generation         3, 4 or None (told by the directory)
    table_kind         "full" or "insert-only", where files cannot prove it
    columns            the table's as Hive's text `struct<name:type,...>`; None = not stated
    visibility_txn     the transaction in the names of the results (Hive 4)
    visible_on_commit  that is our own open transaction, whose commit shows the results; else it has committed
    txns               which transactions are committed, for directories with a visibility suffix
    """

    write_ids: StatedWriteIds | None = None
    generation: Generation | None = None
    table_kind: str | None = None
    columns: str | None = None
    visibility_txn: int | None = None
    visible_on_commit: bool = False
    txns: ValidTxnList = ALL_COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What a metastore says of a target: its table, its database, and its partition where it is one."""

    table: Table
    database: Database
    partition: Partition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One table without partitions, or one partition; `location` is an absolute path, `facts` are a metastore's.

    `request_properties` are those of the request that it is compacted for (ALTER TABLE … COMPACT … WITH OVERWRITE
    TBLPROPERTIES).
    """

    database: str
    table: str
    partition: str | None
    location: str
    understanding: Understanding = field(default_factory=Understanding)
    facts: TableFacts | None = None
    request_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """database.table, or database.table.partition."""
        return ".".join(part for part in (self.database, self.table, self.partition) if part)

    @property
    def is_insert_only(self) -> bool:
        """Whether rows have no ids, and files may be of any format."""
        return self.understanding.table_kind == INSERT_ONLY

    @property
    def storage(self) -> Storage | None:
        """How its rows are stored, where a metastore tells it."""
        if self.facts is None:
            return None
        return (self.facts.partition or self.facts.table).storage

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, where a metastore tells them."""
        return {} if self.facts is None else self.facts.table.properties

    def generation(self, listing: Listing) -> Generation:
        """The generation whose names and rules hold here."""
        return self.understanding.generation or detect_generation(listing)[0]

    def write_ids(self, listing: Listing) -> ValidWriteIdList:
        """The reader's list of the table; RefusedError when nothing states it."""
        stated = self.understanding.write_ids or StatedWriteIds()
        return stated.of(self.database, self.table, listing)

    def state(self, listing: Listing) -> AcidState:
        """The state of the place as a compactor sees it; RefusedError when nothing states what is committed."""
        return acid_state(
            listing,
            self.write_ids(listing).for_compactor(),
            generation=self.generation(listing),
            txns=self.understanding.txns,
            ignore_empty_files=True,
        )

    def settings(self, common: Settings) -> Settings:
        """The settings that hold here: those of the run, then the database's properties, then the table's."""
        if self.facts is None:
            return common
        common, _ = common.with_layer(Layer.DATABASE, self.facts.database.properties)
        return common.with_layer(Layer.TABLE, self.facts.table.properties)[0]

    def row_type(self) -> str | None:
        """The columns of the table, where a metastore or the caller tells them; else the files' own count."""
        return self.understanding.columns if self.facts is None else row_type(self.facts.table)

    def matching(self, common: Settings, generation: Generation) -> ColumnMatching:
        """How the table's readers find its columns in files: as the site sets it, as the table does, or as Hive does.

        Readers copy a table's property into their job only where the job has none of that name (Hive
        Utilities.copyTableJobPropertiesToConf). Jobs of Hive 4 always have one for positions (HiveConf), so its tables
        cannot set that. Properties of databases do not reach readers.
        """
        found = ColumnMatching.of(generation)
        by_table = self.properties if generation is Generation.HIVE3 else {}
        return ColumnMatching(
            by_position=_flag(POSITIONAL, common, by_table, otherwise=found.by_position),
            case_sensitive=_flag(CASE_SENSITIVE, common, self.properties, otherwise=found.case_sensitive),
        )

    def rewrite_settings(self, otherwise: RewriteSettings, generation: Generation) -> RewriteSettings:
        """How the table wants its files written, where a metastore tells it."""
        if self.facts is None:
            return otherwise
        return rewrite_settings(self.facts.table, self.request_properties, generation=generation, otherwise=otherwise)

    def as_listed(self, listing: Listing) -> Target:
        """The same target, understood for good as this listing shows it: what is written later is not committed."""
        fixed = replace(
            self.understanding,
            write_ids=StatedWriteIds(single=self.write_ids(listing)),
            generation=self.generation(listing),
        )
        return replace(self, understanding=fixed)


def _flag(key: str, common: Settings, properties: Mapping[str, str], *, otherwise: bool) -> bool:
    if common.setting(key).layer is not Layer.BUILT_IN:
        return common.flag(key)
    text = properties.get(key)
    return otherwise if text is None else text.lower() == "true"  # as OrcConf.getBoolean understands it


def request_of(target: Target, kind: CompactionType, listing: Listing, *, initiator: str) -> CompactionRequest:
    """A request that says everything a later worker and cleaner need: they never guess anew."""
    generation, write_ids = target.generation(listing), target.write_ids(listing)
    properties = [
        (LOCATION, target.location),
        (WRITE_IDS, write_ids.format()),
        (HIVE_VERSION, str(int(generation))),
        (WITNESS, witness_of(listing, write_ids.for_compactor().high_water_mark, generation)),
    ]
    if target.understanding.table_kind is not None:
        properties.append((TABLE_KIND, target.understanding.table_kind))
    if target.understanding.columns is not None:
        properties.append((COLUMNS, target.understanding.columns))
    if target.understanding.visibility_txn is not None:
        properties.append((VISIBILITY, str(target.understanding.visibility_txn)))
    return CompactionRequest(
        id=0,
        database=target.database,
        table=target.table,
        partition=target.partition,
        type=kind,
        properties=tuple(properties),
        initiator_id=initiator,
    )


def target_of(request: CompactionRequest) -> Target:
    """The target of a queued request, understood as it was when it was queued. RefusedError when it does not say so."""
    location, write_ids = request.property(LOCATION), request.property(WRITE_IDS)
    if location is None or write_ids is None:
        raise RefusedError(
            f"Cannot compact {request.full_name}: because request {request.id} does not say where it lies and what is "
            "committed in it"
        )
    visibility = request.property(VISIBILITY)
    try:
        generation = Generation(int(request.property(HIVE_VERSION) or 3))
        visibility_txn = int(visibility) if visibility else None
    except ValueError as error:
        raise RefusedError(
            f"Cannot compact {request.full_name}: because request {request.id} is not understood: {error}"
        ) from None
    return Target(
        database=request.database,
        table=request.table,
        partition=request.partition,
        location=location,
        understanding=Understanding(
            write_ids=StatedWriteIds(single=ValidWriteIdList.parse(write_ids)),
            generation=generation,
            table_kind=request.property(TABLE_KIND),
            columns=request.property(COLUMNS),
            visibility_txn=visibility_txn,
        ),
    )
