"""The cleaning of requests whose places a metastore knows, of Hive 3.1 or of Hive 4."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from acidlib.acid.write_ids import ValidTxnList
from acidlib.config.settings import Layer, Settings
from acidlib.errors import AcidError, ConflictError, MissingError, RefusedError
from acidlib.model.requests import CompactionRequest
from acidlib.model.tables import TableRef
from acidlib.places.place import Place
from acidlib.places.removals import NotOursError
from acidlib.places.selection import CleanerOptions
from acidlib.ports.catalog import Catalog, GoneError, require_unchanged
from acidlib.ports.cleaning import CleaningForbiddenError

DROPPED = "the table or partition does not exist any more"
"""The reason with which such a request ends as refused. To a user who may not see a table it only seems to be gone; if
the request ended as cleaned, the metastore would forget which write ids are aborted there.
"""


class CatalogPlaces:
    """The places of requests as the metastore tells them: all of them in few calls, each table as of one snapshot.

    By the time a place is cleaned its snapshot is a little old: what has become obsolete since then is kept for another
    run. Where a place lies is asked again before anything is removed or a request ends: see `require_unmoved`.

    current   returns the request of an id as the queue has it now; None unless it is still ready for cleaning
    snapshot  returns the transactions by which the place of a request is interpreted; None for those of now
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        current: Callable[[int], CompactionRequest | None],
        snapshot: Callable[[CompactionRequest], ValidTxnList | None],
    ) -> None:
        self._catalog = catalog
        self._current = current
        self._snapshot = snapshot
        self._expected: Sequence[CompactionRequest] = ()
        self._places: dict[TableRef, Place] | None = None
        self._mutex = threading.Lock()

    def expect(self, requests: Sequence[CompactionRequest]) -> None:
        """Note the requests whose places will be asked for together."""
        with self._mutex:
            self._expected, self._places = requests, None

    def place(self, request: CompactionRequest, *, anew: bool = False) -> tuple[CompactionRequest, Place | None]:
        """Return a request as the queue has it now, and its place; Hive renames requests with their table."""
        try:
            expected = None if anew else self._expected_place(request)
            place = expected or self._catalog.place(request, self._snapshot(request))
        except GoneError:
            now = self._current(request.id)
            if now is None:
                raise ConflictError(f"Cannot clean {request.ref}: another cleaner has ended the request") from None
            return (request, None) if now.ref == request.ref else self.place(now, anew=True)
        except RefusedError as error:
            raise NotOursError(f"left to Hive's own cleaner: {error}") from None
        _require_allowed(place)
        return request, place

    def _expected_place(self, request: CompactionRequest) -> Place | None:
        """Return the place of an expected request; the first call asks for all of them."""
        with self._mutex:
            if self._places is None:
                self._places = {}
                by_snapshot: dict[ValidTxnList | None, list[CompactionRequest]] = {}
                for expected in self._expected:
                    by_snapshot.setdefault(self._snapshot(expected), []).append(expected)
                for snapshot, requests in by_snapshot.items():
                    with suppress(AcidError):  # then each is asked for alone, so that an error of one concerns no other
                        for expected, place in zip(requests, self._catalog.places(requests, snapshot), strict=True):
                            if isinstance(place, Place):
                                self._places[expected.ref] = place
            return self._places.get(request.ref)

    def require_unmoved(self, request: CompactionRequest, place: Place) -> None:
        """Ask the metastore; NotOursError if it forbids to clean there by now."""
        try:
            now = self._catalog.current_place(request.ref)
        except GoneError as error:
            raise ConflictError(f"Cannot clean {place.ref}: it was changed meanwhile: {error}") from None
        require_unchanged(place, now, "clean")
        _require_allowed(now)


def notes_about_named(
    catalog: Catalog, options: CleanerOptions, requests: Callable[[], Iterable[CompactionRequest]]
) -> Sequence[str]:
    """Return notes about named tables and partitions that do not exist, with --if-exists or where a request is known.

    requests  returns every request of the queue and its history

    MissingError for a name that nothing knows, RefusedError for a table that is not ACID.
    """
    if not options.selection.tables:
        return ()
    try:
        return catalog.require_named(replace(options.selection, if_exists=False), ())
    except MissingError:
        known = {row.ref for row in requests() if options.selection.wants(row.ref)}
        return catalog.require_named(options.selection, known)


def retention_of(settings: Settings, options: CleanerOptions) -> float:
    """Return the seconds that were asked for, else our setting if it is not the default, else Hive's delayed cleanup.

    Without any it is 0: transactions prove that no query reads, and no retention is needed for that.
    """
    if options.retention_seconds is not None:
        return options.retention_seconds
    if settings.setting("acidlib.retention").layer is not Layer.BUILT_IN:
        return settings.integer("acidlib.retention") / 1000
    if settings.flag("hive.compactor.delayed.cleanup.enabled"):
        return settings.integer("hive.compactor.cleaner.retention.time.seconds") / 1000
    return 0.0


def _require_allowed(place: Place) -> None:
    reason = place.cleaning_forbidden()
    if reason is not None:
        raise CleaningForbiddenError(f"Cannot clean {place.ref}: {reason}")


def with_mark(row: CompactionRequest) -> CompactionRequest:
    """Return a row with the mark 0, where it compacted nothing but original files.

    Thrift and the metastore's own queue have no null for a mark, so that 0 reads like none.
    """
    was_compacted = row.txn_id is not None or row.facts.outputs is not None
    return replace(row, highest_write_id=0) if row.highest_write_id is None and was_compacted else row
