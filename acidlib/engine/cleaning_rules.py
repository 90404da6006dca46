"""What cleaning with a metastore goes by, whatever its generation."""

from __future__ import annotations

from acidlib.engine.catalog import Catalog, GoneError
from acidlib.engine.cleaner import CleaningAsked, NotOursError
from acidlib.engine.target import Target
from acidlib.errors import RefusedError
from acidlib.model.partitions import PartitionName, matches
from acidlib.model.requests import CompactionRequest
from acidlib.model.txnids import ValidTxnList
from acidlib.planning.eligible import cleaning_forbidden
from acidlib.settings import Layer, Settings

GONE = "the table or partition does not exist any more"
NO_FORGETTING = (
    "nothing obsolete is left, but rows of aborted write ids ({ids}) still lie there; only Hive's own cleaner can "
    "forget the others, so the request stays for it"
)


def cleaning_place(catalog: Catalog, request: CompactionRequest, txns: ValidTxnList | None) -> Target | None:
    """The place of a request as of a snapshot, or of now; None when it was dropped, NotOursError where it is Hive's."""
    try:
        place = catalog.place(request, txns)
    except GoneError:
        return None
    except RefusedError as error:
        raise NotOursError(f"left to Hive's own cleaner: {error}") from None
    assert place.facts is not None
    reason = cleaning_forbidden(place.facts.table, place.facts.partition)
    if reason is not None:
        raise NotOursError(f"Cannot clean {place.name}: because {reason}")
    return place


def retention_of(settings: Settings, asked: CleaningAsked) -> float:
    """Seconds: what was asked for, else our setting where somebody gave one, else Hive's delayed cleanup (or none).

    Where transactions prove that nobody reads, no retention is needed.
    """
    if asked.retention_seconds is not None:
        return asked.retention_seconds
    if settings.setting("acidlib.retention").layer is not Layer.BUILT_IN:
        return settings.integer("acidlib.retention") / 1000
    if settings.flag("hive.compactor.delayed.cleanup.enabled"):
        return settings.integer("hive.compactor.cleaner.retention.time.seconds") / 1000
    return 0.0


def wanted(asked: CleaningAsked, request: CompactionRequest) -> bool:
    """Whether a request is of a table and partition that the cleaner was asked for."""
    if not asked.selection.wants_table(request.database, request.table):
        return False
    if not asked.selection.partitions:
        return True
    return request.partition is not None and matches(PartitionName.parse(request.partition), asked.selection.partitions)
