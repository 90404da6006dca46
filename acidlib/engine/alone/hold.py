"""One request for a directory, which may have been dropped since it was queued."""

from __future__ import annotations

from acidlib.engine.sql_hold import SqlHeldPlace, SqlHold
from acidlib.errors import ConflictError, RefusedError
from acidlib.model.request_facts import NO_FACTS, RequestFacts
from acidlib.storage.witness import is_there, witness_in


class StandaloneHold(SqlHold):
    """A request in our queue, and the claim on its place."""

    def begin(self) -> StandaloneHeldPlace:
        """Claim the place.

        RefusedError where it was dropped: no failed attempt that would hold back a partition of that name later. With
        the directory above it gone as well a mount may be missing, and the claim fails.
        """
        request, target, fs = self._taken.request, self._taken.target, self._services.fs(self._taken.target.location)
        if not fs.exists(str(target.location)) and fs.exists(str(target.location.parent)):
            raise RefusedError(
                f"Cannot compact {target.name}: {target.location} does not exist any more; if it was moved, have the "
                "initiator look where it lies now"
            )
        claim = self._claimed(target.location)
        if not is_there(fs, target.location, request.facts.witness or ""):
            raise RefusedError(
                f"Cannot compact {target.name}: the table was made anew, or what the request was made for was "
                "compacted and cleaned, since then; the initiator queues it again where that is due"
            )
        return StandaloneHeldPlace(self._services, self._queue, request, target, claim)


class StandaloneHeldPlace(SqlHeldPlace):
    """A directory that is claimed."""

    def _facts(self, directories: tuple[str, ...]) -> RequestFacts:
        """A file by which the cleaner knows that the result is still there."""
        if not directories:
            return NO_FACTS
        try:
            return RequestFacts(
                witness=witness_in(self._services.fs(self.target.location), self.target.location, directories[0])
            )
        except ConflictError:
            return NO_FACTS  # replaced and cleaned already: what the request was made for is not there either
