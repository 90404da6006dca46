"""What runs on executors: each function takes one picklable item, and a text that is unique to the attempt."""

from __future__ import annotations

import time
from dataclasses import dataclass

from acidlib.errors import AcidError, DefectError
from acidlib.model.listing import Listing
from acidlib.model.units import Contents, DataFile, JoinUnit, JoinWay, Unit, UnitResult
from acidlib.rewrite.contents import look_into
from acidlib.rewrite.deletes import event_buckets
from acidlib.rewrite.join import run_join
from acidlib.rewrite.unit import run_unit
from acidlib.storage.datafiles import LocalDataFiles
from acidlib.storage.listing import list_location
from acidlib.storage.staging import attempt_path
from acidlib.storage.uris import open_filesystem


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTask:
    """A unit, and the staging directory its file goes to; None only plans it."""

    unit: Unit | JoinUnit
    staging: str | None


def run_unit_task(task: UnitTask, attempt: str) -> UnitResult:
    """Make or plan one file."""
    path = None
    if task.staging is not None:
        path = attempt_path(task.staging, task.unit.directory, task.unit.file_name, attempt)
    try:
        if isinstance(task.unit, JoinUnit):
            return run_join(task.unit, LocalDataFiles(), path, time.perf_counter)
        return run_unit(task.unit, LocalDataFiles(), path, time.perf_counter)
    except AcidError:
        raise
    except Exception as error:
        # a fault of ours must not read as a fault of Spark's, nor take other units with it
        raise DefectError(
            f"Cannot compact {task.unit.directory}/{task.unit.file_name}: because of an unexpected "
            f"{type(error).__name__}: {error}"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A file to look into before units are planned.

    ways  how it may be joined, for a file of an insert-only table; None for a file of delete events
    """

    file: DataFile
    ways: frozenset[JoinWay] | None = None


def look_task(look: Look, attempt: str) -> frozenset[int] | Contents:
    """The buckets that the events of a delete file belong to, or what a file of an insert-only table holds."""
    del attempt
    if look.ways is None:
        return event_buckets(look.file, LocalDataFiles())
    return look_into(look.file, look.ways, LocalDataFiles())


def listing_task(location: str, attempt: str) -> Listing:
    """One recursive listing of a partition."""
    del attempt
    fs, path = open_filesystem(location)
    return list_location(fs, path)
