"""One compaction of one directory, in this process: from its listing to the result in place. No Spark, no claim."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from located import at

from acidlib.acid.names import Generation, Names, Reader
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.config.settings import Layer, Settings, default_settings
from acidlib.execute.answers import answer_of
from acidlib.execute.schedule import Steps
from acidlib.execute.task import Task
from acidlib.execute.tasks import AnyUnit, run_unit_task
from acidlib.location import Location
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.model.requests import CompactionType
from acidlib.model.tables import TableRef
from acidlib.model.units import ColumnMatching, DataFile, FileForm, JoinUnit, JoinWay, RewriteSettings, Unit, UnitResult
from acidlib.places.place import CASE_SENSITIVE, FULL, POSITIONAL, Interpretation, ListedPlace, Place
from acidlib.planning.inputs import CompactionInputs, Publication, Refusal
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.rewrite.join import run_join
from acidlib.runs.compact import collect_results
from acidlib.runs.plan import PlacePlan, choose_inputs, facts_of, new_bucket_units, plan_compaction
from acidlib.stores.listing import list_location
from acidlib.stores.renaming.local import LocalDataFiles
from acidlib.stores.stores import Stores

Ended = TypeVar("Ended")
MAJOR, MINOR, REBALANCE = CompactionType.MAJOR, CompactionType.MINOR, CompactionType.REBALANCE


class RefusedPlanError(Exception):
    """Planning found nothing to compact; the message is its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What one compaction did: its plan, one result per unit, and the directories that are in place now."""

    inputs: CompactionInputs
    results: tuple[UnitResult, ...]
    directories: tuple[str, ...]


def place_of(location: Path | str | Location) -> Location:
    """A path of this machine is one, too."""
    return location if isinstance(location, Location) else at(location)


class Prepared(NamedTuple):
    """A listed place and the inputs of its compaction."""

    listed: ListedPlace
    inputs: CompactionInputs


def prepared(
    location: Path | str | Location,
    kind: CompactionType,
    write_ids: str = "",
    generation: Generation | int = Generation.HIVE3,
    visibility_txn: int | None = None,
    minor_as_major_bytes: int = 0,
    row_type: str | None = None,
    stores: Stores | None = None,
    reader: Generation | None = None,
) -> Prepared:
    """A compaction as the engine prepares it, of a table that is known to be full ACID; raises RefusedPlanError.

    It is read as in the Hive of its names, or as in that of `reader`.
    """
    stores = stores or Stores()
    stated = StatedWriteIds(single=ValidWriteIdList.parse(write_ids)) if write_ids else StatedWriteIds(everything=True)
    name = stated.single.table if stated.single is not None else None
    database, _, table = (name or "default.t").rpartition(".")
    place = Place(
        ref=TableRef(database or "default", table),
        location=place_of(location),
        interpretation=Interpretation(
            write_ids=stated,
            names=Names(Generation(generation)),
            reader=None if reader is None else Reader(reader),
            table_kind=FULL,
            columns=row_type,
            visibility_txn=visibility_txn,
            visible_on_commit=visibility_txn is not None,
        ),
    )
    listed = place.listed(list_location(stores.fs(place.location), place.location))
    inputs = choose_inputs(stores, listed, kind, minor_as_major_bytes=minor_as_major_bytes, automatic=False)
    if isinstance(inputs, Refusal):
        raise RefusedPlanError(inputs.reason)
    return Prepared(listed, inputs)


def units_of(
    found: Prepared, settings: RewriteSettings | None = None, matching: ColumnMatching | None = None
) -> tuple[Unit, ...]:
    """The units of a compaction that is no rebalance; see `files_of`."""
    return tuple(unit for unit in files_of(found, settings, matching) if isinstance(unit, Unit))


def files_of(
    found: Prepared,
    settings: RewriteSettings | None = None,
    matching: ColumnMatching | None = None,
    stores: Stores | None = None,
    buckets: int | None = None,
) -> tuple[AnyUnit, ...]:
    """The files to make; with `matching` for readers that find columns otherwise than Hive's."""
    plan = plan_of(found, settings, matching, stores, buckets)
    if plan.buckets is None:
        return plan.files
    return to_its_end(new_bucket_units(plan, plan.buckets, stores or Stores())) or plan.files


def plan_of(
    found: Prepared,
    settings: RewriteSettings | None = None,
    matching: ColumnMatching | None = None,
    stores: Stores | None = None,
    buckets: int | None = None,
) -> PlacePlan:
    """The plan; see `files_of`."""
    facts = to_its_end(facts_of(stores or Stores(), *found))
    common = site_settings(matching)
    return plan_compaction(*found, facts, settings or RewriteSettings(), common, buckets=buckets)


def to_its_end(steps: Steps[Ended]) -> Ended:
    """How steps end whose tasks run here and now."""
    answers = None
    while True:
        try:
            asked = steps.send(answers)  # type: ignore[arg-type] # the first time
        except StopIteration as end:
            return cast("Ended", end.value)
        answers = [answer_of(one.work, "here") if isinstance(one, Task) else to_its_end(one) for one in asked]


def site_settings(matching: ColumnMatching | None) -> Settings:
    """The settings of a site whose readers find columns so."""
    stated = {}
    if matching is not None:
        stated = {POSITIONAL: str(matching.by_position).lower(), CASE_SENSITIVE: str(matching.case_sensitive).lower()}
    return default_settings().with_layer(Layer.COMMAND_LINE, stated)[0]


def plan(
    location: Path | str | Location,
    kind: CompactionType,
    write_ids: str = "",
    generation: Generation | int = Generation.HIVE3,
    visibility_txn: int | None = None,
    minor_as_major_bytes: int = 0,
    settings: RewriteSettings | None = None,
    row_type: str | None = None,
    matching: ColumnMatching | None = None,
) -> tuple[CompactionInputs, tuple[Unit, ...]]:
    """The inputs and units of a compaction; raises RefusedPlanError with planning's reason."""
    found = prepared(location, kind, write_ids, generation, visibility_txn, minor_as_major_bytes, row_type)
    return found.inputs, units_of(found, settings, matching)


def compact_directory(
    location: Path | str | Location,
    kind: CompactionType,
    write_ids: str = "",
    generation: Generation | int = Generation.HIVE3,
    visibility_txn: int | None = None,
    minor_as_major_bytes: int = 0,
    settings: RewriteSettings | None = None,
    row_type: str | None = None,
    matching: ColumnMatching | None = None,
    stores: Stores | None = None,
    buckets: int | None = None,
    reader: Generation | None = None,
) -> Compacted:
    """Compact one table or partition directory and publish the result; rebalance it into so many `buckets`.

    `write_ids` is a reader's list in Hive's format, blank for "all committed". A result without rows or events is left
    out when another has some. Nothing of the result is left when a unit fails; raises RefusedPlanError, AcidError.
    """
    stores, place = stores or Stores(), place_of(location)
    found = prepared(
        location, kind, write_ids, generation, visibility_txn, minor_as_major_bytes, row_type, stores, reader
    )
    units = files_of(found, settings, matching, stores, buckets)
    stage = stores.store(place).stage(place, unique="test", owner="test", now=time.time())
    try:
        results = tuple(
            run_unit_task(unit, stage.path, stores, f"attempt-{number}") for number, unit in enumerate(units)
        )
        staged = collect_results(stage, found.inputs, results)
        if found.inputs.publication is Publication.COMMIT:
            published = stage.publish_hidden(staged, last_check=lambda: None)
        else:
            inputs = tuple(entry.path for entry in found.inputs.directories if entry.path)
            published = stage.publish(staged, inputs=inputs, last_check=lambda: None)
    finally:
        stage.discard()
    return Compacted(inputs=found.inputs, results=results, directories=published.directories)


def join_plain_files(
    files: Sequence[Path],
    made: Path,
    *,
    settings: RewriteSettings,
    generation: Generation = Generation.HIVE4,
    memory: Memory = DEFAULT_MEMORY,
) -> UnitResult:
    """Joins the ORC files of an insert-only table into the file `made`, in the order given."""
    inputs = tuple(
        DataFile(
            path=str(path.relative_to("/")),
            directory=path.parent.name,
            length=path.stat().st_size,
            bucket=0,
            form=FileForm.ORIGINAL,
        )
        for path in files
    )
    unit = JoinUnit(
        location=at(""),
        directory=made.parent.name,
        file_name=made.name,
        bucket=0,
        way=JoinWay.STRIPES,
        inputs=inputs,
        reader=generation,
        settings=settings,
    )
    return run_join(unit, LocalDataFiles(memory=memory), str(made))


def bucket_files(location: Path | str, directories: tuple[str, ...] | list[str]) -> list[Path]:
    """The data files of some directories of a location."""
    return [path for name in directories for path in sorted((Path(location) / name).glob("bucket_*"))]
