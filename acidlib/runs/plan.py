"""The plan of a compaction, from a listed place to the files to make, and the tasks that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

from acidlib.acid.names import SIDE_FILE_SUFFIX, DeltaDir, parse_directory
from acidlib.arguments import EXCLUDE, INSERT_ONLY, KIND_OF_ONE, LOCATION, TABLE_KIND, VISIBILITY_TXN
from acidlib.config.settings import Settings
from acidlib.errors import AcidError, ConflictError, CorruptError, OverMemoryError, RefusedError
from acidlib.execute.schedule import Subtask, run_tasks
from acidlib.execute.task import Task
from acidlib.execute.tasks import (
    AnyUnit,
    TailFacts,
    find_runs_task,
    join_parts_task,
    look_task,
    plan_bucket_task,
    run_part_task,
    run_unit_task,
    tail_task,
)
from acidlib.location import Location
from acidlib.memory import DRIVER_MEMORY
from acidlib.model.requests import CompactionType
from acidlib.model.results import CompactionResult, Outcome, Verification, WriteIdRange
from acidlib.model.units import DataFile, FileForm, JoinUnit, RewriteSettings, Unit, UnitResult
from acidlib.orc.proto import MAGIC
from acidlib.orc.schema import parse_row_type
from acidlib.places.place import FULL, ListedPlace, Place
from acidlib.planning.inputs import CompactionInputs, InputDirectory, Publication, Refusal, compaction_inputs
from acidlib.planning.units import (
    actions_of_tasks,
    compaction_units,
    delete_files,
    input_files,
    join_units,
    present_buckets,
    schema_candidates,
    ways_of,
)
from acidlib.rewrite.bucket import BucketPlan
from acidlib.rewrite.rebalance import RebalanceUnit, distribute_rows
from acidlib.rows.files import InputFiles
from acidlib.stores.filesystem import FileSystem
from acidlib.stores.listing import flush_length
from acidlib.stores.stores import Stores
from acidlib.wording import human_bytes, plural

AnyPlan = TypeVar("AnyPlan")

Facts = Mapping[str, Any]
"""By the path of a file: how it may be joined (`JoinFacts`), or the buckets of the delete events in it."""

_FORMATS = {b"PAR1": "Parquet", b"Obj\x01": "Avro", b"SEQ": "a sequence file", b"RCF": "RCFile"}
"""Formats by the first bytes of their files."""


class LargeTailError(AcidError):
    """The tail of a file is too large for the driver: a task reads it."""

    kind = "retry"

    def __init__(self, file: DataFile) -> None:
        """Name the file."""
        super().__init__(f"Cannot read {file.path} in the driver: its tail is large, and a task reads it")
        self.file = file


class Tails:
    """The tails of files of a place, as far as a plan needs them.

    known  facts of large tails that tasks have read, by the paths of their files; None: there are no tasks
    """

    def __init__(self, files: InputFiles, known: Mapping[str, TailFacts] | None = None) -> None:
        self.files = files
        self._known = known

    @classmethod
    def in_driver(cls, stores: Stores, location: Location, known: Mapping[str, TailFacts]) -> Tails:
        """Return tails of which the small ones alone are read here."""
        least = min(stores.memory, DRIVER_MEMORY, key=lambda memory: memory.limit)
        return cls(InputFiles(location, replace(stores, memory=least).data(location)), known)

    def of(self, file: DataFile) -> TailFacts:
        """Return the facts of a file. Raises LargeTailError, and as `read_tail` does."""
        if self._known is None:
            return TailFacts.of(self.files.tail(file))
        try:
            return self._known.get(file.path) or TailFacts.of(self.files.tail(file))
        except OverMemoryError:
            raise LargeTailError(file) from None


async def with_tails(stores: Stores, location: Location, plan: Callable[[Tails], AnyPlan]) -> AnyPlan:
    """Return what `plan` makes of the tails of a place, after tasks have read the large ones that it needs."""
    known: dict[str, TailFacts] = {}
    while True:
        try:
            return plan(Tails.in_driver(stores, location, known))
        except LargeTailError as error:
            file = error.file
        (known[file.path],) = await run_tasks(
            Task(partial(tail_task, stores, location, file), 0, "look", f"{location}/{file.path}")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePlan:
    """A compaction of one place before anything is done: all that its tasks and its publication need.

    listed   as it was listed, with the committed write ids
    inputs   the directories to merge, what kind of compaction that is, the results' names and the way to publish them
    reason   why it is done, and why in this way
    files    to make, each by a task or, where it `is_shared`, by several; of a rebalance those of the present buckets
    buckets  of a rebalance, which has a second stage: tasks find the runs of rows in `files`, and these are dealt out
             to so many new files; None for others
    """

    listed: ListedPlace
    inputs: CompactionInputs
    reason: str
    files: tuple[Unit | JoinUnit, ...]
    buckets: int | None = None

    def done(
        self,
        result: CompactionResult,
        results: Sequence[UnitResult],
        verification: Verification | None,
        *,
        visible: tuple[str, ...],
        publication: str | None = None,
    ) -> CompactionResult:
        """Return the planned result with what tasks have made: directories that are `visible`, or would be."""
        # the deltas that a reader has to merge once the results have taken the place of their inputs
        merged = {directory.path for directory in self.inputs.directories}
        deltas_after = sum(delta.path not in merged for delta in self.listed.state.deltas)
        deltas_after += sum(isinstance(parse_directory(name, self.listed.hive.names), DeltaDir) for name in visible)
        publication = publication or result.publication
        result = replace(result, output_directories=visible, deltas_after=deltas_after, publication=publication)
        return result.with_work(results, verification)

    def expected(self) -> CompactionResult:
        """Return what a dry run says of the place, as far as it is known without reading a row."""
        place, inputs = self.listed.place, self.inputs
        result = CompactionResult(
            **place.ref._asdict(), location=str(place.location), type="", state=Outcome.PLANNED, reason=self.reason
        )
        return replace(planned(result, inputs), output_directories=tuple(output.name for output in inputs.outputs))

    def __str__(self) -> str:
        """Return what a dry run shows, with the files that are made."""
        from acidlib.report.text import compaction_lines

        files = [
            f"  {file.directory}/{file.file_name}: {plural(len(file.inputs), 'file')}, {human_bytes(input_bytes(file))}"
            f"{', in parts' if self.buckets is None and is_shared(file) else ''}"
            for file in self.files
        ]
        dealt = [] if self.buckets is None else [f"  its rows are dealt out to {plural(self.buckets, 'bucket')}"]
        return "\n".join([*compaction_lines(self.expected(), dry_run=True), *files, *dealt])


def planned(result: CompactionResult, inputs: CompactionInputs) -> CompactionResult:
    """Return the result of a place with what is known once its inputs are."""
    return replace(
        result,
        type=inputs.kind.label.lower(),
        publication=str(inputs.publication.value),
        write_ids=WriteIdRange(
            min=inputs.min_write_id, max=inputs.max_write_id, high_water_mark=inputs.high_water_mark
        ),
        inputs=tuple(directory.path or "original files" for directory in inputs.directories),
        empty_files=inputs.empty_files,
        bytes_in=sum(file.length for directory in inputs.directories for file in directory.files),
    )


def choose_inputs(
    stores: Stores,
    listed: ListedPlace,
    kind: CompactionType,
    tails: Tails | None = None,
    *,
    minor_as_major_bytes: int,
    automatic: bool,
) -> CompactionInputs | Refusal:
    """Return the inputs and outputs of a compaction of a listed place, or the reason why there is nothing to do.

    Files have their logical lengths if they have side files.

    automatic  the initiator asks, not the operator

    Raises RefusedError for a place that cannot be compacted until its owner changes it, LargeTailError for a tail that
    a task has to read.
    """
    place = listed.place
    if kind is CompactionType.REBALANCE:
        place.require_rebalanceable(listed.hive.names)
    columns = None if place.is_insert_only else place.row_type()
    if columns is not None:
        parse_row_type(columns, where=str(place.ref))  # refuses types before anything is read
    interpretation = place.interpretation
    tails = tails or Tails.in_driver(stores, place.location, {})
    inputs = compaction_inputs(
        listed.state,
        listed.listing,
        kind,
        names=listed.hive.names,
        visibility_txn=interpretation.visibility_txn,
        visible_on_commit=interpretation.visible_on_commit,
        minor_as_major_bytes=minor_as_major_bytes,
        shows_at_once=stores.store(place.location).shows_at_once,
        insert_only=place.is_insert_only,
        automatic=automatic,
    )
    if isinstance(inputs, Refusal):
        unproven = inputs.cleaning_only and not (place.is_insert_only or _holds_events(listed, tails))
        return replace(inputs, cleaning_only=False) if unproven else inputs
    if place.is_insert_only:
        return inputs
    directories = with_logical_lengths(stores.fs(place.location), place.location, inputs.directories)
    prove_full_acid(place, directories, tails)
    schema = schema_file(directories, tails if columns is None else None)
    return replace(inputs, directories=directories, schema=schema)


def schema_file(directories: Sequence[InputDirectory], tails: Tails | None) -> DataFile | None:
    """Return the file whose columns are the table's; without `tails` these are stated, and any whole file will do."""
    candidates, otherwise = schema_candidates(directories)
    return next((file for file in candidates if tails is None or tails.of(file).rows), otherwise)


def with_logical_lengths(
    fs: FileSystem, location: Location, directories: tuple[InputDirectory, ...], *, may_grow: bool = False
) -> tuple[InputDirectory, ...]:
    """Return the same directories with the length of each file as readers see it.

    may_grow  a streaming writer may write on: what it has added since the listing is of transactions that are open
    """

    def with_logical_length(file: DataFile) -> DataFile:
        if file.flush_length is None:
            return file
        side = f"{location}/{file.flush_length.path}"
        try:
            return replace(file, length=flush_length(fs, side, file.length))
        except CorruptError:
            if file.aborted:
                return replace(file, length=0)  # its writer died before it wrote a length; its rows are left out anyway
            length = fs.entry(f"{location}/{file.path}", missing=ConflictError).length if may_grow else file.length
            if length <= file.length:
                raise
            return replace(file, length=flush_length(fs, side, length))

    for directory in directories:
        for side in () if directory.wholly_aborted else directory.lone_side_files:
            data = side.removesuffix(SIDE_FILE_SUFFIX)
            if flush_length(fs, f"{location}/{side}", 1 << 62):
                raise CorruptError(f"Cannot read {location}: {side} is there and {data} is missing")
    return tuple(
        replace(directory, files=tuple(map(with_logical_length, directory.files))) for directory in directories
    )


def _holds_events(listed: ListedPlace, tails: Tails) -> bool:
    """Return whether a file proves that the table is full ACID, or the caller says so; else nothing may be removed."""
    if listed.place.interpretation.table_kind == FULL:
        return True
    for file in listed.listing.files:
        if file.length and file.name.startswith("bucket_") and not file.name.endswith(SIDE_FILE_SUFFIX):
            try:
                return tails.of(DataFile(path=file.path, directory="", length=file.length, bucket=0)).acid
            except LargeTailError:
                raise
            except AcidError:
                return False
    return False


def prove_full_acid(
    place: Place,
    directories: Sequence[InputDirectory],
    tails: Tails,
    *,
    unproven: type[RefusedError] = RefusedError,
) -> None:
    """Raise an error unless the files are proven to hold ACID events: those of an insert-only table hold none.

    unproven  where an argument can state the kind
    """
    cannot = f"Cannot read {place.ref}:"
    # a kind that is stated of several tables would be wrong for the others
    alone = f"name it alone, by {LOCATION} with {KIND_OF_ONE}; {EXCLUDE} leaves it out of a run for several"
    names_one = place.interpretation.names_one
    instead = f"if the table is insert-only, {f'give {INSERT_ONLY}' if names_one else alone}"
    if place.facts is not None:
        instead, unproven = "the metastore has the table as full ACID", RefusedError
    files = [file for directory in directories for file in directory.files]
    for file in files:
        if file.form is FileForm.EVENTS and file.length and not file.aborted:
            if tails.of(file).acid:
                return
            raise unproven(f"{cannot} {file.path} has no ACID columns; {instead}")
    if files and place.interpretation.table_kind != FULL:
        stated = f"give {TABLE_KIND}" if names_one else alone
        raise unproven(f"{cannot} no file proves whether the table is full ACID or insert-only; {stated}")
    first = next((file for file in files if file.length), None)
    if first is None:
        return
    # the caller says full ACID, and such rows are in ORC files only
    with closing(tails.files.open(first)) as source:
        head = source.read(0, min(first.length, 4))
    other_format = next((name for magic, name in _FORMATS.items() if head.startswith(magic)), None)
    if other_format is not None:
        raise unproven(f"{cannot} {first.path} is {other_format}, and a full ACID table is ORC; {instead}")
    if not head.startswith(MAGIC):
        raise CorruptError(f"{cannot} {first.path} does not begin as an ORC file does; {instead}")


async def facts_of(
    stores: Stores, listed: ListedPlace, inputs: CompactionInputs, *, checks: Sequence[Task] = ()
) -> Facts:
    """Return what tasks find in files that decide which files are made.

    checks  tasks that have to succeed before any file is made
    """
    place = listed.place
    ways = ways_of(place.storage, place.properties) if place.is_insert_only else None
    deciding = delete_files(inputs.directories) if ways is None else input_files(inputs)
    looks = [
        Task(
            partial(look_task, stores, place.location, file, ways),
            file.length,
            "look",
            f"{place.location}/{file.path}",
        )
        for file in deciding
    ]
    answers = await run_tasks(*checks, *looks)
    return {file.path: answer for file, answer in zip(deciding, answers[len(checks) :], strict=True)}


def plan_compaction(
    listed: ListedPlace,
    inputs: CompactionInputs,
    facts: Facts,
    settings: RewriteSettings,
    common: Settings,
    *,
    reason: str = "",
    buckets: int | None = None,
) -> PlacePlan:
    """Return the plan, by what is known of a place.

    common   the settings of the run
    buckets  the number of buckets of a rebalance; None = as many as there are

    Raises RefusedError if the files could not become visible at once.
    """
    place, hive = listed.place, listed.hive
    settings = place.rewrite_settings(settings, hive.reader)
    files: tuple[Unit | JoinUnit, ...]
    if place.is_insert_only:
        files = join_units(inputs, facts, location=place.location, reader=hive.reader, settings=settings)
    else:
        files = compaction_units(
            inputs,
            delete_buckets=facts,
            location=place.location,
            hive=hive,
            write_ids=listed.write_ids.for_compactor(),
            settings=settings,
            matching=place.matching(common, hive.reader),
            row_type=place.row_type(),
        )
    txn = place.interpretation.visibility_txn
    if inputs.publication is Publication.FILE_BY_FILE and txn is not None and len(files) > 1:
        raise RefusedError(
            f"Cannot compact {place.ref}: in a bucket its {len(files)} files cannot become visible at once, "
            f"and a name with a transaction hides them from no reader; leave {VISIBILITY_TXN} out"
        )
    is_rebalance = inputs.kind is CompactionType.REBALANCE
    buckets = buckets or present_buckets(listed.listing, inputs) if is_rebalance else None
    return PlacePlan(listed=listed, inputs=inputs, reason=reason, files=files, buckets=buckets)


# --- the tasks --------------------------------------------------------------------------------------------------------


async def execute(plan: PlacePlan, staging: str | None, stores: Stores) -> tuple[UnitResult, ...]:
    """Have the files of a plan made in a staging directory, or without one only planned."""
    units: Sequence[AnyUnit] = plan.files
    if plan.buckets is not None:
        units = await new_bucket_units(plan, plan.buckets, stores) or units  # without rows the result is a major's
    results = await run_tasks(*(file_task(unit, staging, stores) for unit in units))
    first = units[0] if units else None
    if staging is not None and isinstance(first, Unit) and not any(result.path for result in results):
        # readers that only list files would go on reading the replaced ones
        results[:1] = await run_tasks(file_task(replace(first, keep_empty=True), staging, stores))
    return tuple(results)


async def new_bucket_units(plan: PlacePlan, buckets: int, stores: Stores) -> tuple[RebalanceUnit, ...]:
    """Return the new buckets of a rebalance, after tasks have found the runs of rows in the present ones."""
    tasks = []
    for number, unit in enumerate(plan.files):
        assert isinstance(unit, Unit)
        # of the files at most about an eighth is read: the ids of their rows
        length = sum(file.length for file in (*unit.inputs, *unit.deletes)) // 8
        tasks.append(Task(partial(find_runs_task, unit, number, stores), length, "look", result_path(unit)))
    sources = await run_tasks(*tasks)
    (output,) = plan.inputs.outputs
    return distribute_rows(sources, buckets, directory=output.name) if sources else ()


def result_path(unit: AnyUnit) -> str:
    """Return where the file of a unit will lie, for people."""
    return f"{unit.location}/{unit.directory}/{unit.file_name}"


REWRITE = "rewrite"
# the shares of a bucket's rewriting time that planning it and joining its parts take (bench.shared_bucket)
PLANNING, JOINING = 0.04, 0.07


def input_bytes(unit: AnyUnit) -> int:
    """Return the bytes of the input of a file to make."""
    return unit.length if isinstance(unit, RebalanceUnit) else sum(file.length for file in unit.inputs)


def is_shared(unit: AnyUnit) -> bool:
    """Return whether several tasks make a file: one plans its parts, others make these, and one joins them."""
    if not isinstance(unit, Unit) or unit.is_delete:
        return False
    return 0 < 2 * unit.settings.part_bytes <= input_bytes(unit)


def file_task(unit: AnyUnit, staging: str | None, stores: Stores) -> Task | Subtask:
    """Return the task of a unit, or a subtask that has several tasks share a large bucket.

    staging  the directory in which the file is made; None = only plan it
    """
    whole = Task(partial(run_unit_task, unit, staging, stores), input_bytes(unit), REWRITE, result_path(unit))
    if staging is None or not isinstance(unit, Unit) or not is_shared(unit):
        return whole
    return _shared(whole, unit, staging, stores)


async def _shared(whole: Task, unit: Unit, staging: str, stores: Stores) -> UnitResult:
    planning, joining = int(whole.length * PLANNING), int(whole.length * JOINING)
    plan: BucketPlan
    (plan,) = await run_tasks(Task(partial(plan_bucket_task, unit, stores), planning, "plan parts", result_path(unit)))
    parts = [plan.part(numbers) for numbers in actions_of_tasks(plan.actions, unit.settings.part_bytes)]
    if not parts:
        (result,) = await run_tasks(whole)
        return cast("UnitResult", result)
    tasks = []
    for part in parts:
        length = sum(action.length for action in part.actions.values())
        tasks.append(Task(partial(run_part_task, part, staging, stores), length, REWRITE, result_path(unit)))
    results = tuple(await run_tasks(*tasks))
    join = partial(join_parts_task, plan, results, staging, stores)
    (result,) = await run_tasks(Task(join, joining, "join parts", result_path(unit)))
    return cast("UnitResult", result)


def filled_directories(inputs: CompactionInputs, results: Sequence[UnitResult]) -> tuple[str, ...]:
    """Return the planned directories that have rows or events; if none has, the first one, as one is needed."""
    planned = [output.name for output in inputs.outputs]
    filled = [path for path in planned if any(result.has_content for result in results if result.directory == path)]
    return tuple(filled or planned[:1])
