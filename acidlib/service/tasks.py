"""What runs on executors: each function is sent with what it is about, and given a text unique to the attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from acidlib.errors import AcidError, DefectError
from acidlib.model.location import Location
from acidlib.model.units import DataFile, JoinFacts, JoinUnit, JoinWay, Unit, UnitResult
from acidlib.rewrite.bucket import BucketPlan, PartResult, join_parts, plan_bucket, run_part, run_unit
from acidlib.rewrite.deletes import event_buckets
from acidlib.rewrite.inputs import InputFiles
from acidlib.rewrite.join import join_facts, run_join
from acidlib.rewrite.rebalance import RebalanceUnit, SourceBucket, find_runs, run_rebalance
from acidlib.stores.store import attempt_path
from acidlib.stores.stores import Stores
from acidlib.verify.files import require_reader
from acidlib.verify.tally import BucketView, PlainView, Tally, buckets_of_deletes, tally_of, tally_of_plain

AnyUnit = Unit | JoinUnit | RebalanceUnit


def look_task(
    stores: Stores, location: Location, file: DataFile, ways: frozenset[JoinWay] | None, _: str
) -> frozenset[int] | JoinFacts:
    """Look into a file that decides which units there are.

    Of a file of an insert-only table, which may be joined in some `ways`, return how; of a file of delete events the
    buckets that they belong to.
    """
    place = InputFiles(location, stores.data(location))
    return event_buckets(file, place) if ways is None else join_facts(file, ways, place)


def run_unit_task(unit: AnyUnit, staging: str | None, stores: Stores, attempt: str) -> UnitResult:
    """Make the file of a unit in the staging directory; without one only plan it."""
    data, path = stores.data(unit.location), None
    if staging is not None:
        path = data.output_path(staging, unit.directory, unit.file_name, attempt)
    with _defects_named(unit):
        if isinstance(unit, JoinUnit):
            result = run_join(unit, data, path)
        elif isinstance(unit, RebalanceUnit):
            result = run_rebalance(unit, data, path)
        else:
            result = run_unit(unit, data, path)
        return result if result.path is None else replace(result, upload=data.upload(result.path))


def plan_bucket_task(unit: Unit, stores: Stores, _: str) -> BucketPlan:
    """Plan a large bucket for the tasks that will share it."""
    with _defects_named(unit):
        return plan_bucket(unit, stores.data(unit.location))


def run_part_task(part: BucketPlan, staging: str, stores: Stores, attempt: str) -> PartResult:
    """Make the file of one part of a large bucket."""
    unit = part.unit
    path = attempt_path(staging, unit.directory, f"{unit.file_name}.part{min(part.actions)}", attempt)
    with _defects_named(unit):
        return run_part(part, stores.data(unit.location), path)


def join_parts_task(
    plan: BucketPlan, parts: Sequence[PartResult], staging: str, stores: Stores, attempt: str
) -> UnitResult:
    """Make the file of a large bucket of its parts and of the stripes that are copied."""
    unit, data = plan.unit, stores.data(plan.unit.location)
    path = data.output_path(staging, unit.directory, unit.file_name, attempt)
    with _defects_named(unit):
        result = join_parts(plan, parts, data, path)
        return replace(result, upload=data.upload(path))


def find_runs_task(unit: Unit, number: int, stores: Stores, _: str) -> SourceBucket:
    """Find the runs of rows of a bucket that is rebalanced, which has a number among those of its place."""
    with _defects_named(unit):
        return find_runs(unit, number, stores.data(unit.location))


def tally_task(view: BucketView | PlainView, stores: Stores, _: str) -> Tally:
    """Count and sum a bucket as one side sees it, when a result is verified."""
    files = stores.data(view.location)
    if isinstance(view, PlainView):
        return tally_of_plain(view, files)
    return tally_of(view, files)


def delete_buckets_task(stores: Stores, location: Location, file: DataFile, _: str) -> frozenset[int]:
    """Return the buckets of the rows that a delete file deletes, as the second reader reads it."""
    return buckets_of_deletes(stores.data(location), location, file)


def reader_task(_: str) -> None:
    """Raise RefusedError where executors could not verify: to be known before anything is compacted."""
    require_reader()


def nothing(_: str) -> None:
    """Do nothing, where tasks are run: with this module all that they need is loaded."""


@contextmanager
def _defects_named(unit: AnyUnit) -> Iterator[None]:
    """Name a fault of this engine: it is not to be taken for one of Spark, nor to end other units."""
    try:
        yield
    except AcidError:
        raise
    except Exception as error:
        raise DefectError(
            f"Cannot compact {unit.directory}/{unit.file_name}: unexpected {type(error).__name__}: {error}"
        ) from error
