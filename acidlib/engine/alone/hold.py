"""One request for a directory, which may have been dropped since it was queued."""

from __future__ import annotations

from acidlib.engine.sql_hold import SqlHold
from acidlib.engine.target import Target
from acidlib.errors import RefusedError


class StandaloneHold(SqlHold):
    """A request in our queue, and the claim on its place."""

    def begin(self) -> Target:
        """Claim the place.

        RefusedError where it was dropped: no failed attempt that would hold back a partition of that name later. With
        the directory above it gone as well a mount may be missing, and the claim fails.
        """
        target, fs = self._taken.target, self._services.fs
        if not fs.exists(target.location) and fs.exists(target.location.rpartition("/")[0]):
            raise RefusedError(f"Cannot compact {target.name}: because {target.location} does not exist any more")
        return super().begin()
