"""The port between an undo and its surroundings: where the compaction's place is, who keeps it, and who reads it.

Implemented side by side for directories alone (`ports.directories`) and Hive 3.1 (`ports.hive3`). Hive 4 has none: no
call takes back the commit that shows a result.
"""

from __future__ import annotations

from typing import Protocol

from acidlib.model.requests import CompactionRequest
from acidlib.places.place import Place
from acidlib.ports.holds import Hold
from acidlib.ports.sql import SqlRequests


class Undoing(Protocol):
    """The undoing of compactions whose requests lie in a SQL queue.

    knows_readers  whether a metastore tells which queries may read a place
    """

    requests: SqlRequests
    knows_readers: bool

    def place(self, request: CompactionRequest) -> Place:
        """Return the place of a request, interpreted as of now; RefusedError unless it is the place compacted then."""

    def hold(self, request: CompactionRequest) -> Hold:
        """Return the hold for undoing a compaction, which is not begun yet."""

    def require_no_reader(self, request: CompactionRequest, place: Place) -> None:
        """Raise ConflictError while a query is known to read there, or a compactor is about to work there.

        RefusedError where the result is known to be another than was published.
        """
