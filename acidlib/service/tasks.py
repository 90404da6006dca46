"""What runs on executors: each function takes one picklable item, and a text that is unique to the attempt."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from acidlib.errors import AcidError, DefectError
from acidlib.model.location import Location
from acidlib.model.units import DataFile, JoinFacts, JoinUnit, JoinWay, Unit, UnitResult
from acidlib.rewrite.deletes import event_buckets
from acidlib.rewrite.inputs import InputFiles
from acidlib.rewrite.join import join_facts, run_join
from acidlib.rewrite.rebalance import RebalanceUnit, RunsLook, SourceBucket, find_runs, run_rebalance
from acidlib.rewrite.unit import (
    BucketJoin,
    BucketPlan,
    PartResult,
    PartUnit,
    join_parts,
    plan_bucket,
    run_part,
    run_unit,
)
from acidlib.stores.renaming.publishing import attempt_path
from acidlib.stores.store import TaskFiles
from acidlib.stores.stores import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTask:
    """A unit, and the staging directory its file goes to; None only plans it."""

    unit: Unit | JoinUnit | RebalanceUnit
    staging: str | None
    stores: Stores

    @property
    def length(self) -> int:
        """Input bytes."""
        if isinstance(self.unit, RebalanceUnit):
            return self.unit.length
        return sum(file.length for file in self.unit.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTask:
    """A part of a large bucket, and the staging directory its file goes to."""

    part: PartUnit
    staging: str
    stores: Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketJoinTask:
    """The parts of a large bucket, and the staging directory that the bucket's file goes to."""

    join: BucketJoin
    staging: str
    stores: Stores


def run_unit_task(task: UnitTask, attempt: str) -> UnitResult:
    """Make or plan one file."""
    unit, path, data = task.unit, None, task.stores.data(task.unit.location)
    if task.staging is not None:
        path = data.output_path(task.staging, unit.directory, unit.file_name, attempt)
    with _defects_named(unit):
        if isinstance(unit, JoinUnit):
            return _written(run_join(unit, data, path, time.perf_counter), data)
        if isinstance(unit, RebalanceUnit):
            return _written(run_rebalance(unit, data, path, time.perf_counter), data)
        return _written(run_unit(unit, data, path, time.perf_counter), data)


def _written(result: UnitResult, data: TaskFiles) -> UnitResult:
    """A result that says what the driver has to know of its file."""
    return result if result.path is None else replace(result, path=data.written(result.path))


def plan_bucket_task(task: UnitTask, attempt: str) -> BucketPlan:
    """Plan a large bucket for the tasks that will share it."""
    del attempt
    unit = task.unit
    if not isinstance(unit, Unit):
        raise TypeError("a file of an insert-only table, or of a rebalance, is made by one task")
    with _defects_named(unit):
        return plan_bucket(unit, task.stores.data(unit.location), time.perf_counter)


def run_part_task(task: PartTask, attempt: str) -> PartResult:
    """Make the file of one part of a large bucket."""
    unit = task.part.unit
    path = attempt_path(task.staging, unit.directory, f"{unit.file_name}.part{task.part.numbers[0]}", attempt)
    with _defects_named(unit):
        return run_part(task.part, task.stores.data(unit.location), path, time.perf_counter)


def join_parts_task(task: BucketJoinTask, attempt: str) -> UnitResult:
    """Make the file of a large bucket of its parts."""
    unit = task.join.plan.unit
    data = task.stores.data(unit.location)
    path = data.output_path(task.staging, unit.directory, unit.file_name, attempt)
    with _defects_named(unit):
        return _written(join_parts(task.join, data, path, time.perf_counter), data)


@contextmanager
def _defects_named(unit: Unit | JoinUnit | RebalanceUnit) -> Iterator[None]:
    """A fault of this engine is not to be taken for one of Spark, nor to end other units."""
    try:
        yield
    except AcidError:
        raise
    except Exception as error:
        raise DefectError(
            f"Cannot compact {unit.directory}/{unit.file_name}: because of an unexpected "
            f"{type(error).__name__}: {error}"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsTask:
    """A bucket that is rebalanced."""

    look: RunsLook
    stores: Stores


def find_runs_task(task: RunsTask, attempt: str) -> SourceBucket:
    """The runs of rows of a bucket."""
    del attempt
    unit = task.look.unit
    with _defects_named(unit):
        return find_runs(task.look, task.stores.data(unit.location))


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A file that has to be read before units can be planned.

    location  of its table or partition
    ways      how it may be joined, for a file of an insert-only table; None for a file of delete events
    """

    stores: Stores
    location: Location
    file: DataFile
    ways: frozenset[JoinWay] | None = None


def look_task(look: Look, attempt: str) -> frozenset[int] | JoinFacts:
    """The buckets that the events of a delete file belong to, or how a file of an insert-only table is joined."""
    del attempt
    place = InputFiles(look.location, look.stores.data(look.location))
    if look.ways is None:
        return event_buckets(look.file, place)
    return join_facts(look.file, look.ways, place)


def nothing(item: None, attempt: str) -> None:
    """Do nothing, where tasks are run: with this module all that they need is loaded."""
