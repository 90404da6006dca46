"""What cleaning with a metastore goes by, whatever its generation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from acidlib.config.settings import Layer, Settings
from acidlib.errors import AcidError, ConflictError, MissingError, RefusedError
from acidlib.model.requests import CompactionRequest
from acidlib.model.snapshots import ValidTxnList
from acidlib.model.tables import PartitionName, TableRef, matches
from acidlib.service.backend import CleanerOptions, NotOursError
from acidlib.service.places import Target
from acidlib.service.surroundings.catalog import Catalog, GoneError, require_unchanged

DROPPED = "the table or partition does not exist any more"
"""Why a request ends as refused: a table may only seem to be gone, to a user who may not see it, and cleaned would mean
that the metastore forgets what was aborted there.
"""


class CleaningPlaces:
    """The places of the requests that one run of the cleaner is about: asked for together, a table as of one snapshot.

    That is an older one than each place could have, which only keeps more; but where a place lies is asked again before
    anything goes or is called cleaned: see `require_unmoved`.
    """

    def __init__(
        self,
        catalog: Catalog,
        snapshot: Callable[[CompactionRequest], ValidTxnList | None],
        find: Callable[[int], CompactionRequest | None],
    ) -> None:
        """`snapshot` gives the one to go by for a request, None = of now; `find` reads one that is still ready."""
        self._catalog = catalog
        self._snapshot = snapshot
        self._find = find
        self._expected: Sequence[CompactionRequest] = ()
        self._found: dict[TableRef, Target] | None = None
        self._mutex = threading.Lock()

    def expect(self, requests: Sequence[CompactionRequest]) -> None:
        """The requests whose places will be wanted."""
        with self._mutex:
            self._expected, self._found = requests, None

    def of(self, request: CompactionRequest, *, anew: bool) -> tuple[CompactionRequest, Target | None]:
        """A request as the queue has it now, and its place; None when it was dropped.

        anew  it is asked for again, for it was not found where it was said to be

        Hive renames requests with their table. NotOursError where it is left to Hive's own cleaner.
        """
        try:
            known = None if anew else self._known(request)
            place = known or self._catalog.place(request, self._snapshot(request))
        except GoneError:
            now = self._find(request.id)
            if now is None:
                raise ConflictError(
                    f"Cannot clean {request.ref}: because another cleaner has ended the request"
                ) from None
            return (request, None) if now.ref == request.ref else self.of(now, anew=True)
        except RefusedError as error:
            raise NotOursError(f"left to Hive's own cleaner: {error}") from None
        _require_allowed(place)
        return request, place

    def require_unmoved(self, request: CompactionRequest, target: Target) -> None:
        """Its table is still that one, lies where it lay, and may be cleaned; ConflictError or NotOursError if not."""
        try:
            now = self._catalog.whereabouts(request)
        except GoneError as error:
            raise ConflictError(f"Cannot clean {target.ref}: because it was changed meanwhile: {error}") from None
        require_unchanged(target, now, "clean")
        _require_allowed(now)

    def _known(self, request: CompactionRequest) -> Target | None:
        with self._mutex:
            if self._found is None:
                self._found = self._all()
            return self._found.get(request.ref)

    def _all(self) -> dict[TableRef, Target]:
        by_snapshot: dict[ValidTxnList | None, list[CompactionRequest]] = {}
        for request in self._expected:
            by_snapshot.setdefault(self._snapshot(request), []).append(request)
        known: dict[TableRef, Target] = {}
        for snapshot, requests in by_snapshot.items():
            try:
                places = self._catalog.places(requests, snapshot)
            except AcidError:
                continue  # each is asked for alone: what is wrong with one of them costs no other
            found = zip(requests, places, strict=True)
            known.update({request.ref: place for request, place in found if isinstance(place, Target)})
        return known


def _require_allowed(place: Target) -> None:
    reason = place.cleaning_forbidden()
    if reason is not None:
        raise NotOursError(f"Cannot clean {place.ref}: because {reason}")


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


def about_named(
    catalog: Catalog, options: CleanerOptions, requests: Callable[[], Iterable[CompactionRequest]]
) -> list[str]:
    """Notes about tables and partitions that are named and do not exist, unless a request is about them.

    requests  all that the queue and its history have; asked for where something is missing

    Raises MissingError without --if-exists, and RefusedError for what is no ACID table.
    """
    if not options.selection.tables:
        return []
    named = replace(options.selection, if_exists=False)
    try:
        return catalog.require_named(named, ())
    except MissingError:
        known = {row.ref for row in requests() if is_wanted(options, row)}
        return catalog.require_named(options.selection, known)


def is_wanted(options: CleanerOptions, request: CompactionRequest) -> bool:
    """Whether a request is of a table and partition that the cleaner was asked for."""
    if not options.selection.wants_table(request.ref):
        return False
    if not options.selection.partitions:
        return True
    return request.ref.partition is not None and matches(
        PartitionName.parse(request.ref.partition), options.selection.partitions
    )
