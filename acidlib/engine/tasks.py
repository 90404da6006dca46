"""What runs on executors: each function takes one picklable item, and a text that is unique to the attempt."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from acidlib.errors import AcidError, DefectError
from acidlib.model.listing import Listing
from acidlib.model.txnids import ValidTxnList
from acidlib.model.units import (
    BucketJoin,
    BucketPlan,
    Contents,
    DataFile,
    JoinUnit,
    JoinWay,
    PartResult,
    PartUnit,
    Unit,
    UnitResult,
)
from acidlib.rewrite.contents import look_into
from acidlib.rewrite.deletes import event_buckets
from acidlib.rewrite.inputs import InputFiles
from acidlib.rewrite.join import run_join
from acidlib.rewrite.parts import join_parts, plan_bucket, run_part
from acidlib.rewrite.unit import run_unit
from acidlib.storage.datafiles import LocalDataFiles
from acidlib.storage.listing import list_location
from acidlib.storage.orphans import Orphan, find_orphans
from acidlib.storage.staging import attempt_path
from acidlib.storage.uris import open_filesystem


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTask:
    """A unit or what belongs to one, and the staging directory its file goes to; None only plans it."""

    work: Unit | JoinUnit | PartUnit | BucketJoin
    staging: str | None

    @property
    def unit(self) -> Unit | JoinUnit:
        """The unit that it is, or is about."""
        if isinstance(self.work, PartUnit):
            return self.work.unit
        return self.work.plan.unit if isinstance(self.work, BucketJoin) else self.work

    @property
    def length(self) -> int:
        """Input bytes."""
        return self.work.length if isinstance(self.work, PartUnit) else sum(file.length for file in self.unit.inputs)

    def path(self, attempt: str) -> str | None:
        """Where this attempt writes its file."""
        if self.staging is None:
            return None
        name = self.unit.file_name
        if isinstance(self.work, PartUnit):
            name = f"{name}.part{self.work.numbers[0]}"
        return attempt_path(self.staging, self.unit.directory, name, attempt)


def run_unit_task(task: UnitTask, attempt: str) -> UnitResult | PartResult:
    """Make or plan one file, or one part of a file."""
    work, path = task.work, task.path(attempt)
    with _faults_told(task):
        if isinstance(work, PartUnit):
            assert path is not None
            return run_part(work, LocalDataFiles(), path, time.perf_counter)
        if isinstance(work, JoinUnit):
            return run_join(work, LocalDataFiles(), path, time.perf_counter)
        assert isinstance(work, Unit)
        return run_unit(work, LocalDataFiles(), path, time.perf_counter)


def plan_bucket_task(task: UnitTask, attempt: str) -> BucketPlan:
    """Plan a large bucket for the tasks that will share it."""
    del attempt
    assert isinstance(task.work, Unit)
    with _faults_told(task):
        return plan_bucket(task.work, LocalDataFiles(), time.perf_counter)


def join_parts_task(task: UnitTask, attempt: str) -> UnitResult:
    """Make the file of a large bucket of its parts."""
    path = task.path(attempt)
    assert isinstance(task.work, BucketJoin)
    assert path is not None
    with _faults_told(task):
        return join_parts(task.work, LocalDataFiles(), path, time.perf_counter)


@contextmanager
def _faults_told(task: UnitTask) -> Iterator[None]:
    """A fault of ours must not read as a fault of Spark's, nor take other units with it."""
    try:
        yield
    except AcidError:
        raise
    except Exception as error:
        raise DefectError(
            f"Cannot compact {task.unit.directory}/{task.unit.file_name}: because of an unexpected "
            f"{type(error).__name__}: {error}"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A file to look into before units are planned.

    location  of its table or partition
    ways  how it may be joined, for a file of an insert-only table; None for a file of delete events
    """

    location: str
    file: DataFile
    ways: frozenset[JoinWay] | None = None


def look_task(look: Look, attempt: str) -> frozenset[int] | Contents:
    """The buckets that the events of a delete file belong to, or what a file of an insert-only table holds."""
    del attempt
    place = InputFiles(look.location, LocalDataFiles())
    if look.ways is None:
        return event_buckets(look.file, place)
    return look_into(look.file, look.ways, place)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanLook:
    """A place to look for orphans at; see `find_orphans`."""

    location: str
    now: float
    idle_seconds: float
    txns: ValidTxnList


def orphans_task(look: OrphanLook, attempt: str) -> tuple[Orphan, ...]:
    """The orphans at one place."""
    del attempt
    fs, path = open_filesystem(look.location)
    return find_orphans(fs, path, now=look.now, idle_seconds=look.idle_seconds, txns=look.txns)


def listing_task(location: str, attempt: str) -> Listing:
    """One recursive listing of a partition."""
    del attempt
    fs, path = open_filesystem(location)
    return list_location(fs, path)
