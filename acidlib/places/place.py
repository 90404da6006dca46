"""Places: a table or partition at a location, its interpretation by the caller or a metastore, and its listing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from acidlib.acid.listing import Listing, detect_generation
from acidlib.acid.names import Generation, Hive, Names, Reader
from acidlib.acid.state import AcidState, acid_state
from acidlib.acid.write_ids import ALL_COMMITTED, ValidTxnList, ValidWriteIdList
from acidlib.arguments import LOCATION
from acidlib.config.settings import Layer, Settings
from acidlib.errors import RefusedError
from acidlib.location import Location
from acidlib.metastore.options import READER
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.tables import Database, MetastoreTable, Partition, Storage, TableRef, row_type
from acidlib.model.units import ColumnMatching, RewriteSettings
from acidlib.planning.initiate import cleaning_forbidden_reason
from acidlib.planning.inputs import not_enough_reason
from acidlib.planning.orc_settings import rewrite_settings
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.stores.listing import identity_file_of
from acidlib.stores.store import CLAIM, STAGING_PREFIX

POSITIONAL, CASE_SENSITIVE = "orc.force.positional.evolution", "orc.schema.evolution.case.sensitive"
FULL, INSERT_ONLY = "full", "insert-only"
"""Kinds of transactional tables, as `--table-kind` names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpretation:
    """How the directories of a table are read, as the caller or the metastore says.

    write_ids          the committed ones; None = not stated
    names              whose names and rules hold; None = as the directory names show
    reader             what reads the files; None = of the same generation as the names
    table_kind         "full" or "insert-only"; None = not stated
    names_one          the caller has named this very directory, so that what is stated is about no other table
    columns            of the table, as Hive's text `struct<name:type,...>`; None = not stated
    visibility_txn     the transaction in the names of the results (Hive 4)
    visible_on_commit  `visibility_txn` is our own open transaction, whose commit shows the results; else it has
                       committed
    txns               the committed transactions, for directories with a visibility suffix
    """

    write_ids: StatedWriteIds | None = None
    names: Names | None = None
    reader: Reader | None = None
    table_kind: str | None = None
    names_one: bool = False
    columns: str | None = None
    visibility_txn: int | None = None
    visible_on_commit: bool = False
    txns: ValidTxnList = ALL_COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The metastore's entries of a place: its table, its database, and its partition if it is one."""

    table: MetastoreTable
    database: Database
    partition: Partition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One table without partitions, or one partition.

    facts               None without a metastore
    request_properties  of the request that it is compacted for (ALTER TABLE … COMPACT … WITH OVERWRITE TBLPROPERTIES)
    """

    ref: TableRef
    location: Location
    interpretation: Interpretation = field(default_factory=Interpretation)
    facts: TableFacts | None = None
    request_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_insert_only(self) -> bool:
        """Whether rows have no ids, and files may be of any format."""
        return self.interpretation.table_kind == INSERT_ONLY

    @property
    def table_identity(self) -> tuple[int | None, int | None]:
        """The creation time of its table (epoch seconds) and its id, which tell it from another table of its name.

        Both are None without a metastore, the id also with Hive 3.
        """
        return (None, None) if self.facts is None else (self.facts.table.created, self.facts.table.id)

    @property
    def storage(self) -> Storage | None:
        """The storage descriptor; None without a metastore."""
        if self.facts is None:
            return None
        return (self.facts.partition or self.facts.table).storage

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties; none without a metastore."""
        return {} if self.facts is None else self.facts.table.properties

    def cleaning_forbidden(self) -> str | None:
        """Return the reason in the metastore for which nothing may be removed, or None."""
        return None if self.facts is None else cleaning_forbidden_reason(self.facts.table, self.facts.partition)

    def require_rebalanceable(self, names: Names) -> None:
        """Raise RefusedError for a table without implicit buckets (Hive 4 `Worker`, `CompactorFactory`)."""
        if names is not Generation.HIVE4:
            raise RefusedError(f"Cannot rebalance {self.ref}: only Hive 4 has rebalances")
        if self.is_insert_only:
            raise RefusedError("REBALANCE compaction is not supported on insert only tables.")
        if self.facts is not None and self.facts.table.storage.buckets > 0:
            raise RefusedError("Cannot execute rebalancing compaction on bucketed tables.")

    def names(self, listing: Listing) -> Names:
        """Return whose names and rules apply here."""
        return self.interpretation.names or Names(detect_generation(listing)[0])

    def hive(self, listing: Listing) -> Hive:
        """Return whose names and rules apply here, and what reads the files."""
        names = self.names(listing)
        return Hive(names=names, reader=self.interpretation.reader or Reader(names))

    def write_ids(self, listing: Listing) -> ValidWriteIdList:
        """Return the reader's list of the table; RefusedError if none is stated."""
        return (self.interpretation.write_ids or StatedWriteIds()).of(self.ref, listing)

    def settings(self, common: Settings) -> Settings:
        """Return the settings of the run with the properties of the database, then the table's, above them."""
        if self.facts is None:
            return common
        common, _ = common.with_layer(Layer.DATABASE, self.facts.database.properties)
        return common.with_layer(Layer.TABLE, self.facts.table.properties)[0]

    def row_type(self) -> str | None:
        """Return the columns of the table as a metastore or the caller states them; None = those of its files."""
        return self.interpretation.columns if self.facts is None else row_type(self.facts.table)

    def matching(self, common: Settings, reader: Reader) -> ColumnMatching:
        """Return how readers find the table's columns in files: by the site's settings, the table's, or Hive's default.

        Readers copy a table's property into their job only if the job has none of that name (Hive
        Utilities.copyTableJobPropertiesToConf). Jobs of Hive 4 always have one for positions (HiveConf), so its tables
        cannot set it. Properties of databases do not reach readers.
        """
        default = ColumnMatching.of(reader)
        by_table = self.properties if reader is Generation.HIVE3 else {}
        return ColumnMatching(
            by_position=_flag(POSITIONAL, common, by_table, otherwise=default.by_position),
            case_sensitive=_flag(CASE_SENSITIVE, common, self.properties, otherwise=default.case_sensitive),
        )

    def rewrite_settings(self, otherwise: RewriteSettings, reader: Reader) -> RewriteSettings:
        """Return the settings of new files: those of the table and the request with a metastore; else `otherwise`."""
        if self.facts is None:
            return otherwise
        return rewrite_settings(self.facts.table, self.request_properties, reader=reader, otherwise=otherwise)

    def listed(self, listing: Listing) -> ListedPlace:
        """Return the place of a listing, its interpretation fixed: later writes count as not committed.

        RefusedError if nothing states which write ids are committed.
        """
        hive, write_ids = self.hive(listing), self.write_ids(listing)
        fixed = replace(
            self.interpretation, write_ids=StatedWriteIds(single=write_ids), names=hive.names, reader=hive.reader
        )
        return ListedPlace(
            place=replace(self, location=listing.location, interpretation=fixed),
            listing=listing,
            hive=hive,
            write_ids=write_ids,
            state=acid_state(
                listing, write_ids.for_compactor(), names=hive.names, txns=fixed.txns, ignore_empty_files=True
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPlace:
    """A place with one listing of it, and all that follows from both.

    write_ids  the reader's list
    state      as a compactor sees the place
    """

    place: Place
    listing: Listing
    hive: Hive
    write_ids: ValidWriteIdList
    state: AcidState

    def as_held(self, place: Place) -> ListedPlace:
        """Return this listing of the place as it is held now. Later commits do not count: it may lack their files."""
        known = self.place.interpretation
        fixed = replace(
            place.interpretation,
            write_ids=known.write_ids,
            names=known.names,
            reader=known.reader,
            txns=known.txns,
        )
        return replace(self, place=replace(place, location=self.listing.location, interpretation=fixed))

    @property
    def deltas(self) -> int:
        """The number of deltas that a reader has to merge."""
        return len(self.state.deltas)

    @property
    def delta_bytes(self) -> int:
        """Bytes of the files in these deltas."""
        names = {delta.path for delta in self.state.deltas}
        return sum(file.length for file in self.listing.files if file.directory in names)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.length for file in self.listing.files)

    @property
    def modified(self) -> float:
        """The modification time of the newest file, in epoch seconds; 0 without files."""
        newest = self.listing.newest_file()
        return 0.0 if newest is None else newest.modified

    @property
    def holds_staging(self) -> bool:
        """Whether an unfinished publication may lie there."""
        return any(path.startswith(STAGING_PREFIX) for path in self.listing.directories)

    @property
    def obsolete(self) -> dict[str, int]:
        """The directories and files at the top that no reader needs any more, aborted ones too, with their bytes."""
        sizes = dict.fromkeys((*self.state.obsolete, *self.state.aborted), 0)
        for file in self.listing.files:
            top = file.path.partition("/")[0]
            if top in sizes:
                sizes[top] += file.length
        return sizes

    @property
    def is_claimed(self) -> bool:
        """Whether a run works there, or has died there; on S3 a listing does not show it."""
        return CLAIM in self.listing.directories

    def compact_reason(self, kind: CompactionType, *, automatic: bool) -> str | None:
        """Return the reason if there is nothing to merge; else None.

        automatic  the initiator asks, not the operator
        """
        insert_only = self.place.is_insert_only
        return not_enough_reason(self.state, kind, names=self.hive.names, insert_only=insert_only, automatic=automatic)


def stated_reader(settings: Settings) -> Reader | None:
    """Return what reads the tables, as `acidlib.reader.hive.version` states it; None where nothing is stated."""
    text = settings.text(READER)
    return Reader(Generation(int(text))) if text else None


def _flag(key: str, common: Settings, properties: Mapping[str, str], *, otherwise: bool) -> bool:
    if common.setting(key).layer is not Layer.BUILT_IN:
        return common.flag(key)
    text = properties.get(key)
    return otherwise if text is None else text.lower() == "true"  # as OrcConf.getBoolean understands it


def request_of(listed: ListedPlace, kind: CompactionType, *, initiator: str) -> CompactionRequest:
    """Return a request with all facts that a later worker and cleaner need, so that they do not guess."""
    place, mark = listed.place, listed.write_ids.for_compactor().high_water_mark
    facts = RequestFacts(
        location=place.location,
        root=place.location.root or None,
        directory=place.location.identity or None,
        write_ids=listed.write_ids,
        generation=listed.hive.names,
        identity_file=identity_file_of(listed.listing, mark, listed.hive.names),
        table_kind=place.interpretation.table_kind,
        columns=place.interpretation.columns,
        visibility_txn=place.interpretation.visibility_txn,
    )
    return CompactionRequest(id=0, ref=place.ref, type=kind, facts=facts, initiator_id=initiator)


def requested_place(request: CompactionRequest, reader: Reader | None) -> Place:
    """Return the place of a queued request, interpreted as then, with the reader that is stated now.

    Raises RefusedError if the request does not state its place and write ids.
    """
    request.require_understood("compact")
    facts = request.facts
    if facts.location is None or facts.write_ids is None:
        raise RefusedError(
            f"Cannot compact {request.ref}: request {request.id} does not state its location and committed write ids; "
            f"name the place by {LOCATION}, or have the initiator queue it again"
        )
    return Place(
        ref=request.ref,
        location=replace(facts.location, root=facts.root or "", identity=facts.directory or ""),
        interpretation=Interpretation(
            write_ids=StatedWriteIds(single=facts.write_ids),
            names=Names(facts.generation or Generation.HIVE3),
            reader=reader,
            table_kind=facts.table_kind,
            columns=facts.columns,
            visibility_txn=facts.visibility_txn,
        ),
    )
