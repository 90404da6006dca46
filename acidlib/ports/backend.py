"""The interfaces of a run to its tables, to the queue of requests, and to what keeps other runs away from a place.

Each is implemented side by side, for directories alone (`ports.directories`), for a metastore of Hive 3.1
(`ports.hive3`) and for one of Hive 4 (`ports.hive4`); `runs.open` chooses. Requests for directories and of Hive 3.1 lie
in a SQL database: these two share the code for that (`ports.sql`), not a class above them.

The initiator and compactions know this file and `ports.holds`, the cleaner `ports.cleaning`, an undo `ports.undoing`.
What reads a snapshot, cancels or shows a status has no port: where there is a metastore it asks that (`metastore.hms`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from acidlib.acid.listing import Listing
from acidlib.errors import AcidError
from acidlib.location import NOWHERE
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.tables import TableRef
from acidlib.places.attempts import Attempts
from acidlib.places.place import ListedPlace, Place
from acidlib.places.selection import Selected, Selection
from acidlib.ports.holds import CompactionHold


def nowhere(request: CompactionRequest) -> Place:
    """Return a place with only names: its location is not known yet."""
    return Place(ref=request.ref, location=NOWHERE)


WaitingRequest = tuple[CompactionRequest, Place | AcidError]
"""A request that no run works on yet, and its place, or the error why that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A compaction that the initiator wants, and the figures of its decision."""

    listed: ListedPlace
    kind: CompactionType
    figures: RequestFacts


class Tables(Protocol):
    """The tables of a run."""

    def select(self, selection: Selection, *, automatic: bool) -> Selected:
        """Return the selected places; for the initiator, those that may be compacted automatically.

        RefusedError if a name of the selection does not exist.
        """

    def names(self, selection: Selection) -> Sequence[TableRef]:
        """Return the ACID tables that a selection wants, whatever their partitions."""

    def is_dropped(self, place: Place) -> bool:
        """Return whether a selected place has been dropped since, which explains errors there."""


class Queue(Protocol):
    """The requests of a run.

    in_order  whether requests can only be taken in the order of the queue (Hive 4)
    """

    in_order: bool

    def recover(self, is_wanted: Callable[[CompactionRequest], bool]) -> list[str]:
        """Give back wanted requests of dead runs, and what is theirs; return a note about each kind."""

    def waiting(self, kind: CompactionType) -> list[WaitingRequest]:
        """Return the requests to choose from, oldest first."""

    def warnings(self) -> list[str]:
        """Return warnings about the queue for the operator of a run that drains it."""

    def take(self, request: CompactionRequest) -> CompactionRequest | None:
        """Take a request, and return it as it is then; None if another worker has it.

        A queue with its own order may hand out another one.
        """

    def submit(self, listed: ListedPlace, kind: CompactionType, *, buckets: int | None = None) -> CompactionRequest:
        """Queue a request for a selected place and take it at once; ConflictError if another request is in the way.

        buckets  the number of buckets of a rebalance, if it is stated
        """

    def refuse(self, request: CompactionRequest, reason: str) -> None:
        """End a request that is not understood, unless another worker has it."""

    def attempts(self, places: Sequence[Place]) -> Attempts:
        """Return the earlier attempts at these places, by the queue and its history as they are now."""

    def backoff_reason(self, place: Place, kind: CompactionType, *, dry_run: bool) -> str | None:
        """Return why a place over its thresholds is backed off after failures, or None.

        Unless it is a dry run, the history records that too.
        """

    def quarantining_request(self, place: Place, listing: Listing, *, anew: bool) -> CompactionRequest | None:
        """Return the request for which a place is quarantined, see `planning.results`, or None.

        anew  by the queue as it is now: the place is held, and another run may have failed its verification meanwhile.
              Else what was read for all places together will do
        """

    def enqueue(self, decided: Sequence[Decided]) -> list[int | AcidError]:
        """Queue the initiator's decisions; return the id of each request, or the error why it is not queued."""

    def purge_history(self) -> None:
        """Remove the rows of the history that settings do not want kept."""


class Fence(Protocol):
    """The means that keep others away from a place while this run works there.

    can_rebalance  whether a lock can keep out statements that change rows (Hive 4)
    """

    can_rebalance: bool

    def recover(self) -> list[str]:
        """Take away what dead runs keep others away with; return a note about each."""

    def hold(self, request: CompactionRequest, place: Place) -> CompactionHold:
        """Return the hold for a request of this run, at the place as it was when the request was taken."""

    def finish(self, place: Place) -> None:
        """Finish the publications of dead runs at a place; ConflictError while another run works there."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The surroundings of a run: one of each port."""

    tables: Tables
    queue: Queue
    fence: Fence

    def recover(self, is_wanted: Callable[[CompactionRequest], bool] = lambda _: True) -> list[str]:
        """Give back the requests of dead runs, and claims and locks with them; return a note about each kind."""
        return self.queue.recover(is_wanted) + self.fence.recover()
