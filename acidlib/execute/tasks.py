"""What the tasks of compactions and of their verification do. The last argument is unique to the attempt.

Other tasks stand beside those who need them: `execute.executors` looks at the machines, `scan.read` reads a snapshot.
Whatever runs in turns with those of other places does so within a limit of time, see `execute.schedule`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter

from acidlib.errors import AcidError, DefectError
from acidlib.location import Location
from acidlib.model.text_codecs import CODECS
from acidlib.model.units import DataFile, JoinFacts, JoinUnit, JoinWay, Unit, UnitResult
from acidlib.orc.reader import Tail
from acidlib.orc.schema import TypeNode, is_acid, row_struct
from acidlib.rewrite.bucket import BucketPlan, PartResult, join_parts, plan_bucket, run_part, run_unit
from acidlib.rewrite.join import join_facts, run_join
from acidlib.rewrite.rebalance import RebalanceUnit, SourceBucket, find_runs, run_rebalance
from acidlib.rows.deletes import event_buckets
from acidlib.rows.files import InputFiles
from acidlib.stores.store import attempt_path
from acidlib.stores.stores import Stores
from acidlib.verify.files import require_reader
from acidlib.verify.tally import BucketView, PlainView, Tally, buckets_of_deletes, tally_of, tally_of_plain

AnyUnit = Unit | JoinUnit | RebalanceUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class TailFacts:
    """The facts in the tail of an ORC file by which a compaction or a snapshot is planned.

    acid  its rows have ACID columns
    row   the user's columns
    """

    acid: bool
    rows: int
    row: TypeNode

    @classmethod
    def of(cls, tail: Tail) -> TailFacts:
        """Return the facts of a tail."""
        return cls(acid=is_acid(tail.root), rows=tail.rows, row=row_struct(tail.root))


def tail_task(stores: Stores, location: Location, file: DataFile, _: str) -> TailFacts:
    """Read the tail of a file that is too large for the driver, or for a program."""
    return TailFacts.of(InputFiles(location, stores.data(location)).tail(file))


def look_task(
    stores: Stores, location: Location, file: DataFile, ways: frozenset[JoinWay] | None, _: str
) -> frozenset[int] | JoinFacts:
    """Read a file that decides the units of a compaction.

    Return the buckets of the delete events in it; or, if it is of an insert-only table, how to join it in some `ways`.
    """
    place = InputFiles(location, stores.data(location))
    return (
        event_buckets(file, place)
        if ways is None
        else join_facts(file, ways, place, stores.configuration.get(CODECS, ""))
    )


def run_unit_task(unit: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """Make the file of a unit in the staging directory; without a directory only plan it."""
    start, data, path = perf_counter(), stores.data(unit.location), None
    if staging is not None:
        path = data.output_path(staging, unit.directory, unit.file_name, attempt)
    with _defects_named(unit):
        if isinstance(unit, JoinUnit):
            result = run_join(unit, data, path)
        elif isinstance(unit, RebalanceUnit):
            result = run_rebalance(unit, data, path)
        else:
            result = run_unit(unit, data, path)
        upload = None if result.path is None else data.upload(result.path)
        return replace(result, upload=upload, seconds=perf_counter() - start)


def plan_bucket_task(unit: Unit, stores: Stores, _: str) -> BucketPlan:
    """Plan a large bucket that several tasks will share."""
    start = perf_counter()
    with _defects_named(unit):
        plan = plan_bucket(unit, stores.data(unit.location))
        return replace(plan, planned=replace(plan.planned, seconds=perf_counter() - start))


def run_part_task(part: BucketPlan, staging: str, stores: Stores, attempt: str) -> PartResult:
    """Make the file of one part of a large bucket."""
    start, unit = perf_counter(), part.unit
    path = attempt_path(staging, unit.directory, f"{unit.file_name}.part{min(part.actions)}", attempt)
    with _defects_named(unit):
        return replace(run_part(part, stores.data(unit.location), path), seconds=perf_counter() - start)


def join_parts_task(
    plan: BucketPlan, parts: Sequence[PartResult], staging: str, stores: Stores, attempt: str
) -> UnitResult:
    """Make the file of a large bucket from its parts and from the stripes that are copied."""
    start, unit, data = perf_counter(), plan.unit, stores.data(plan.unit.location)
    path = data.output_path(staging, unit.directory, unit.file_name, attempt)
    with _defects_named(unit):
        result = join_parts(plan, parts, data, path)
        return replace(result, upload=data.upload(path), seconds=result.seconds + perf_counter() - start)


def find_runs_task(unit: Unit, number: int, stores: Stores, _: str) -> SourceBucket:
    """Find the runs of rows of a bucket to rebalance; `number` counts the buckets of its place."""
    with _defects_named(unit):
        return find_runs(unit, number, stores.data(unit.location))


def tally_task(view: BucketView | PlainView, stores: Stores, _: str) -> Tally:
    """Count and sum the rows of a bucket on one side of a verification."""
    start, files = perf_counter(), stores.data(view.location)
    tally = tally_of_plain(view, files) if isinstance(view, PlainView) else tally_of(view, files)
    return replace(tally, seconds=perf_counter() - start)


def delete_buckets_task(stores: Stores, location: Location, file: DataFile, _: str) -> frozenset[int]:
    """Return the buckets of the rows that a delete file deletes, by the second reader."""
    return buckets_of_deletes(stores.data(location), location, file)


def reader_task(_: str) -> None:
    """Raise RefusedError if executors cannot verify, before anything is compacted."""
    require_reader()


def load_tasks(_: str) -> None:
    """Do nothing on an executor: loading this module loads all that tasks need."""


@contextmanager
def _defects_named(unit: AnyUnit) -> Iterator[None]:
    """Raise a fault of the engine as DefectError, so that it is not taken for one of Spark and ends no other unit."""
    try:
        yield
    except AcidError:
        raise
    except Exception as error:
        raise DefectError(
            f"Cannot compact {unit.directory}/{unit.file_name}: unexpected {type(error).__name__}: {error}"
        ) from error
