"""The promises of Ozone besides those of a file system with atomic renames, and their trials.

Only renames move the time of a directory there: by renames a claim gives its signs of life. A file that is created in a
directory in the moment of its removal brings the directory back, as HttpFS makes missing parents: so that nothing is
lost, but the promise about empty directories is none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.promises import Promise, require
from acidlib.stores.renaming.trials import TIMES, renaming_promises

_NOT_KEPT = (TIMES, "only empty directories go")
_STEP_SECONDS = 0.02
"""After which a change moves a time that is kept in milliseconds."""


def ozone_promises(fs: RenameFileSystem, layout: Callable[[str], str]) -> tuple[Promise, ...]:
    """Return what publication and claims rely on; `layout` returns what shows that a bucket has directories."""

    def renames_move_times(place: str) -> str:
        fs.make_directory(place)
        fs.make_directory(f"{place}/1")
        before = fs.entry(place).modified
        time.sleep(_STEP_SECONDS)
        fs.rename_noreplace(f"{place}/1", f"{place}/2")
        require(fs.entry(place).modified > before, "a rename did not move the time of its directory")
        return "a rename moved the time of its directory"

    return (
        Promise(
            name="buckets have directories",
            sentence="The bucket has the layout FILE_SYSTEM_OPTIMIZED: a directory is renamed as one.",
            trial=layout,
            is_quick=True,
        ),
        *(promise for promise in renaming_promises(fs) if promise.name not in _NOT_KEPT),
        Promise(
            name="renames move a directory's time",
            sentence="A rename moves the time of its directory, by which a claim is alive.",
            trial=renames_move_times,
            is_quick=True,
        ),
    )
