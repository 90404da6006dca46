"""What cleaning with a metastore goes by, whatever its generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acidlib.engine.catalog import Catalog, GoneError
from acidlib.engine.cleaning import CleanerOptions, NotOursError
from acidlib.engine.target import Target
from acidlib.errors import ConflictError, RefusedError
from acidlib.model.partitions import PartitionName, matches
from acidlib.model.requests import CompactionRequest
from acidlib.model.txnids import ValidTxnList
from acidlib.settings import Layer, Settings

DROPPED = "the table or partition does not exist any more"
"""Why a request ends as refused: a table may only seem to be gone, to a user who may not see it, and cleaned would mean
that the metastore forgets what was aborted there.
"""


def place_now(
    catalog: Catalog,
    request: CompactionRequest,
    txns: ValidTxnList | None,
    find: Callable[[int], CompactionRequest | None],
) -> tuple[CompactionRequest, Target | None]:
    """A request as the queue has it now, and its place as of a snapshot or of now; None when it was dropped.

    Hive renames requests with their table; `find` reads the one of an id that is still ready for cleaning.
    """
    place = cleaning_place(catalog, request, txns)
    if place is not None:
        return request, place
    now = find(request.id)
    if now is None:
        raise ConflictError(f"Cannot clean {request.full_name}: because another cleaner has ended the request")
    return (request, None) if now.entity == request.entity else place_now(catalog, now, txns, find)


def cleaning_place(catalog: Catalog, request: CompactionRequest, txns: ValidTxnList | None) -> Target | None:
    """The place of a request as of a snapshot, or of now; None when it was dropped, NotOursError where it is Hive's."""
    try:
        place = catalog.place(request, txns)
    except GoneError:
        return None
    except RefusedError as error:
        raise NotOursError(f"left to Hive's own cleaner: {error}") from None
    reason = place.cleaning_forbidden()
    if reason is not None:
        raise NotOursError(f"Cannot clean {place.name}: because {reason}")
    return place


def why_not_forgotten(aborted: Sequence[int]) -> str | None:
    """Why a request stays while rows of aborted write ids lie at its place: once cleaned, they would be forgotten."""
    if not aborted:
        return None
    ids = ", ".join(map(str, aborted[:5]))
    return (
        f"nothing obsolete is left, but rows of aborted write ids ({ids}) still lie there; "
        "only Hive's own cleaner can forget the others, so the request stays for it"
    )


def retention_of(settings: Settings, options: CleanerOptions) -> float:
    """Seconds: what was asked for, else our setting where somebody gave one, else Hive's delayed cleanup (or none).

    Where transactions prove that nobody reads, no retention is needed.
    """
    if options.retention_seconds is not None:
        return options.retention_seconds
    if settings.setting("acidlib.retention").layer is not Layer.BUILT_IN:
        return settings.integer("acidlib.retention") / 1000
    if settings.flag("hive.compactor.delayed.cleanup.enabled"):
        return settings.integer("hive.compactor.cleaner.retention.time.seconds") / 1000
    return 0.0


def is_wanted(options: CleanerOptions, request: CompactionRequest) -> bool:
    """Whether a request is of a table and partition that the cleaner was asked for."""
    if not options.selection.wants_table(request.database, request.table):
        return False
    if not options.selection.partitions:
        return True
    return request.partition is not None and matches(
        PartitionName.parse(request.partition), options.selection.partitions
    )
