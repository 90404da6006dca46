"""Places: a table or partition with its names and listing, and which of them a job is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from acidlib.config.settings import Layer, Settings
from acidlib.errors import RefusedError
from acidlib.model.listing import Listing, detect_generation
from acidlib.model.location import Location
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.snapshots import ALL_COMMITTED, ValidTxnList, ValidWriteIdList
from acidlib.model.tables import Database, Partition, Storage, Table, TableRef, row_type
from acidlib.model.units import ColumnMatching, RewriteSettings
from acidlib.planning.initiate import cleaning_forbidden_reason
from acidlib.planning.inputs import not_enough_reason
from acidlib.planning.orc_settings import rewrite_settings
from acidlib.planning.state import AcidState, acid_state
from acidlib.planning.stated_write_ids import (
    StatedWriteIds,
)
from acidlib.stores.listing import identity_file_of
from acidlib.stores.store import CLAIM, STAGING_PREFIX

POSITIONAL, CASE_SENSITIVE = "orc.force.positional.evolution", "orc.schema.evolution.case.sensitive"
FULL, INSERT_ONLY = "full", "insert-only"
"""Kinds of transactional tables, as `--table-kind` names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpretation:
    """How the directories of a table are to be read: as the caller says, or as the metastore does.

    write_ids          which are committed; None = not stated
    generation         3, 4, or None: as the directory's names tell
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
    """One table without partitions, or one partition; `facts` are a metastore's.

    `request_properties` are those of the request that it is compacted for (ALTER TABLE … COMPACT … WITH OVERWRITE
    TBLPROPERTIES).
    """

    ref: TableRef
    location: Location
    interpretation: Interpretation = field(default_factory=Interpretation)
    facts: TableFacts | None = None
    request_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_insert_only(self) -> bool:
        """True where rows have no ids, and files may be of any format."""
        return self.interpretation.table_kind == INSERT_ONLY

    @property
    def table_identity(self) -> tuple[int | None, int | None]:
        """When its table was made (epoch seconds) and its id, which tell it from another of its name.

        None for what no metastore tells: both of a directory, the id of a table of Hive 3.
        """
        return (None, None) if self.facts is None else (self.facts.table.created, self.facts.table.id)

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

    def cleaning_forbidden(self) -> str | None:
        """Return why nothing may be removed, where a metastore tells it; None if it may."""
        return None if self.facts is None else cleaning_forbidden_reason(self.facts.table, self.facts.partition)

    def generation(self, listing: Listing) -> Generation:
        """Return the generation whose names and rules hold here."""
        return self.interpretation.generation or detect_generation(listing)[0]

    def write_ids(self, listing: Listing) -> ValidWriteIdList:
        """Return the reader's list of the table; RefusedError when nothing states it."""
        return (self.interpretation.write_ids or StatedWriteIds()).of(self.ref, listing)

    def settings(self, common: Settings) -> Settings:
        """Return the settings that hold here: those of the run, then the database's properties, then the table's."""
        if self.facts is None:
            return common
        common, _ = common.with_layer(Layer.DATABASE, self.facts.database.properties)
        return common.with_layer(Layer.TABLE, self.facts.table.properties)[0]

    def row_type(self) -> str | None:
        """Return the columns of the table, where a metastore or the caller tells them; else its files' count."""
        return self.interpretation.columns if self.facts is None else row_type(self.facts.table)

    def matching(self, common: Settings, generation: Generation) -> ColumnMatching:
        """Return how readers find the table's columns in files: as the site says, as the table does, or as Hive does.

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
        """Return how the table wants its files written, where a metastore tells it."""
        if self.facts is None:
            return otherwise
        return rewrite_settings(self.facts.table, self.request_properties, generation=generation, otherwise=otherwise)

    def listed(self, listing: Listing) -> ListedPlace:
        """Return the target as a listing shows it, for good: what is written later is not committed.

        RefusedError when nothing states what is committed.
        """
        generation, write_ids = self.generation(listing), self.write_ids(listing)
        fixed = replace(self.interpretation, write_ids=StatedWriteIds(single=write_ids), generation=generation)
        return ListedPlace(
            target=replace(self, interpretation=fixed),
            listing=listing,
            generation=generation,
            write_ids=write_ids,
            state=acid_state(
                listing, write_ids.for_compactor(), generation=generation, txns=fixed.txns, ignore_empty_files=True
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPlace:
    """A target with one listing of it, and all that follows from the two.

    write_ids  the reader's list
    state      as a compactor sees the place
    """

    target: Target
    listing: Listing
    generation: Generation
    write_ids: ValidWriteIdList
    state: AcidState

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
        """When the newest file was modified, in epoch seconds; 0 without one."""
        newest = self.listing.newest_file()
        return 0.0 if newest is None else newest.modified

    @property
    def holds_staging(self) -> bool:
        """True where an unfinished publication may lie there."""
        return any(path.startswith(STAGING_PREFIX) for path in self.listing.directories)

    @property
    def obsolete(self) -> dict[str, int]:
        """The directories and files at the top that no reader needs any more, aborted ones too, with their bytes."""
        found = dict.fromkeys((*self.state.obsolete, *self.state.aborted), 0)
        for file in self.listing.files:
            top = file.path.partition("/")[0]
            if top in found:
                found[top] += file.length
        return found

    @property
    def is_claimed(self) -> bool:
        """True where a run was at work there when it was listed, or died there; in a bucket no listing tells."""
        return CLAIM in self.listing.directories

    def compact_reason(self, kind: CompactionType, *, automatic: bool) -> str | None:
        """Return the reason if there is nothing to merge; else None.

        automatic  the initiator asks, not the operator
        """
        insert_only = self.target.is_insert_only
        return not_enough_reason(
            self.state, kind, generation=self.generation, insert_only=insert_only, automatic=automatic
        )

    def held_as(self, target: Target) -> ListedPlace:
        """Return the listing for the target as it is held now; what is committed stays as of before the listing."""
        known, now = self.target.interpretation, target.interpretation
        held = replace(now, write_ids=known.write_ids, generation=known.generation, txns=known.txns)
        return replace(self, target=replace(target, interpretation=held))


def _flag(key: str, common: Settings, properties: Mapping[str, str], *, otherwise: bool) -> bool:
    if common.setting(key).layer is not Layer.BUILT_IN:
        return common.flag(key)
    text = properties.get(key)
    return otherwise if text is None else text.lower() == "true"  # as OrcConf.getBoolean understands it


def request_of(place: ListedPlace, kind: CompactionType, *, initiator: str) -> CompactionRequest:
    """Return a request that says everything a later worker and cleaner need: they never guess anew."""
    target, mark = place.target, place.write_ids.for_compactor().high_water_mark
    facts = RequestFacts(
        location=target.location,
        write_ids=place.write_ids,
        generation=place.generation,
        witness=identity_file_of(place.listing, mark, place.generation),
        table_kind=target.interpretation.table_kind,
        columns=target.interpretation.columns,
        visibility_txn=target.interpretation.visibility_txn,
    )
    return CompactionRequest(id=0, ref=target.ref, type=kind, facts=facts, initiator_id=initiator)


def target_of(request: CompactionRequest) -> Target:
    """Return the target of a queued request, understood as of then. RefusedError when it does not say so."""
    request.require_understood("compact")
    facts = request.facts
    if facts.location is None or facts.write_ids is None:
        raise RefusedError(
            f"Cannot compact {request.ref}: request {request.id} does not say where it lies and what is "
            "committed in it; name it by --location, or have the initiator look for it again"
        )
    return Target(
        ref=request.ref,
        location=facts.location,
        interpretation=Interpretation(
            write_ids=StatedWriteIds(single=facts.write_ids),
            generation=facts.generation or Generation.HIVE3,
            table_kind=facts.table_kind,
            columns=facts.columns,
            visibility_txn=facts.visibility_txn,
        ),
    )
