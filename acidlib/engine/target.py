"""What a compaction is about: a place on a file system with its names, and how the caller wants it understood."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from acidlib.errors import RefusedError
from acidlib.metastore.standalone import StatedWriteIds
from acidlib.model.generation import Generation
from acidlib.model.listing import Listing
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.writeids import ValidWriteIdList
from acidlib.planning.generation import detect_generation
from acidlib.queue.rules import LOCATION

WRITE_IDS, HIVE_VERSION, TABLE_KIND, VISIBILITY = (
    "acidlib.write.ids",
    "acidlib.hive.version",
    "acidlib.table.kind",
    "acidlib.visibility.txn",
)
OUTPUTS, PUBLISHED_MS, DELTAS, BYTES, REASON = (
    "acidlib.outputs",
    "acidlib.published.ms",
    "acidlib.deltas",
    "acidlib.bytes",
    "acidlib.reason",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Understanding:
    """How the caller wants tables understood.

    write_ids       which are committed; None = not stated
    generation      3, 4 or None (told by the directory)
    table_kind      "full" or "insert-only", where files cannot prove it
    visibility_txn  a committed transaction for the names of the results (Hive 4)
    """

    write_ids: StatedWriteIds | None = None
    generation: Generation | None = None
    table_kind: str | None = None
    visibility_txn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One table without partitions, or one partition; `location` is an absolute path."""

    database: str
    table: str
    partition: str | None
    location: str
    understanding: Understanding = field(default_factory=Understanding)

    @property
    def name(self) -> str:
        """database.table, or database.table.partition."""
        return ".".join(part for part in (self.database, self.table, self.partition) if part)

    def generation(self, listing: Listing) -> Generation:
        """The generation whose names and rules hold here."""
        return self.understanding.generation or detect_generation(listing)[0]

    def write_ids(self, listing: Listing) -> ValidWriteIdList:
        """The reader's list of the table; RefusedError when nothing states it."""
        stated = self.understanding.write_ids or StatedWriteIds()
        return stated.of(self.database, self.table, listing)

    def as_listed(self, listing: Listing) -> Target:
        """The same target, understood for good as this listing shows it: what is written later is not committed."""
        fixed = replace(
            self.understanding,
            write_ids=StatedWriteIds(single=self.write_ids(listing)),
            generation=self.generation(listing),
        )
        return replace(self, understanding=fixed)


def request_of(target: Target, kind: CompactionType, listing: Listing, *, initiator: str) -> CompactionRequest:
    """A request that says everything a later worker and cleaner need: they never guess anew."""
    generation = target.generation(listing)
    properties = [
        (LOCATION, target.location),
        (WRITE_IDS, target.write_ids(listing).format()),
        (HIVE_VERSION, str(int(generation))),
    ]
    if target.understanding.table_kind is not None:
        properties.append((TABLE_KIND, target.understanding.table_kind))
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
            visibility_txn=visibility_txn,
        ),
    )
