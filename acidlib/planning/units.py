"""The work of a compaction: a unit for each file to make, an action for each stripe, and tasks that run together.

Source: Hive `CompactorMR` (one task per bucket number) and `OrcRawRecordMerger`. Differences, on purpose: delete
events go to the bucket that their key decodes to, whichever file they are in (Hive 3.1's minor compaction copies all
of them into every bucket file of an unbucketed table, and then cannot read the result).

Insert-only tables: rows have no ids and nothing is ever deleted, so a compaction gathers the files of the directories
that are committed. Files of one bucket number become one where their format allows it without looking at a value: ORC
by stripes, Parquet by row groups, text by lines. Others are copied as they are, under names of their own. The order of
files is kept. Source: Hive `CompactorMR.runMmCompaction` (3.1), `MmMajorQueryCompactor` and `MergeCompactor` (4) for
the inputs and for the names of results; `Utilities.getBucketedTableFileName` for numbers in names.

Starting a task of Spark takes some ten milliseconds, joining two small files one. So the small tasks that wait are
dealt out over the executors' free slots, while a large task has a slot of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush

from acidlib.acid.listing import Listing, has_hidden_part
from acidlib.acid.names import BucketFile, DeltaDir, Generation, Hive, OriginalFile, Reader, parse_file
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.location import Location
from acidlib.model.tables import ORC_INPUT_FORMAT, Storage
from acidlib.model.units import (
    MEBIBYTE,
    ColumnMatching,
    DataFile,
    JoinFacts,
    JoinUnit,
    JoinWay,
    RewriteSettings,
    StripeAction,
    StripeFacts,
    Unit,
)
from acidlib.planning.inputs import CompactionInputs, InputDirectory, Role
from acidlib.wording import human_bytes, plural

PARQUET_INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
TEXT_INPUT_FORMAT = "org.apache.hadoop.mapred.TextInputFormat"
ONE_PER_FILE = ("skip.header.line.count", "skip.footer.line.count")
"""Table properties about each single file: text files of a table that has one may not be joined."""

_WAYS = {
    ORC_INPUT_FORMAT: JoinWay.STRIPES,
    PARQUET_INPUT_FORMAT: JoinWay.ROW_GROUPS,
    TEXT_INPUT_FORMAT: JoinWay.LINES,
}

MAX_JOINED_ROWS = 1 << 22
"""Rows of a joined stripe: their keys alone are 128 MiB in memory. Columns of few values take next to no bytes, so the
stripe size is no bound there."""
MAX_PARTS = 64
"""Most tasks that share a bucket: with more, planning and joining their parts takes longer than each of them."""
PART_BYTES_OF_A_SLOT = MEBIBYTE // 16

SMALL_BYTES = 8 * MEBIBYTE
"""A task with less input than this is small: it takes about as long as starting it."""
BATCH_BYTES = 64 * MEBIBYTE
"""Most input of small tasks that are run as one."""
BATCH_TASKS = 64
_LIKE = 4


def row_files(directories: Sequence[InputDirectory]) -> tuple[DataFile, ...]:
    """Return the inputs that hold rows, in order."""
    return tuple(file for entry in directories if entry.role is not Role.DELETE_DELTA for file in entry.files)


def delete_files(directories: Sequence[InputDirectory]) -> tuple[DataFile, ...]:
    """Return the inputs that hold delete events, in order."""
    return tuple(file for entry in directories if entry.role is Role.DELETE_DELTA for file in entry.files)


def schema_candidates(directories: Sequence[InputDirectory]) -> tuple[list[DataFile], DataFile | None]:
    """Return the files of which the first with rows has the table's columns, and the one that has them without any.

    These are the columns where none are stated. The newest file comes first, as inputs are ordered by write id: a
    writer without rows need not have known the columns (`struct<>`), and its transaction changed none of them. Without
    rows it is the newest with any bytes; None where no input has any. A writer that was aborted may have died before
    its file was whole, so others are preferred.
    """
    filled = [file for file in reversed(row_files(directories)) if file.length]
    whole = [file for file in filled if not file.aborted]
    events = [file for file in reversed(delete_files(directories)) if file.length]
    whole_events = [file for file in events if not file.aborted]
    return whole, next(iter(whole or filled or whole_events or events), None)


def present_buckets(listing: Listing, inputs: CompactionInputs) -> int:
    """Return the number of buckets for a rebalance that states none: of different numbers in the names of bucket files.

    Source: Hive 4 `RebalanceQueryCompactor`, which counts the files of obsolete directories, too. It does not count
    original files; where there are no others, their numbers are counted here.
    """
    names = (parse_file(file.name) for file in listing.files if not has_hidden_part(file.path))
    numbers = {name.bucket for name in names if isinstance(name, BucketFile)}
    return len(numbers or {file.bucket for file in row_files(inputs.directories)}) or 1


def compaction_units(
    inputs: CompactionInputs,
    *,
    delete_buckets: Mapping[str, frozenset[int]],
    location: Location,
    hive: Hive,
    write_ids: ValidWriteIdList,
    settings: RewriteSettings,
    matching: ColumnMatching,
    row_type: str | None = None,
) -> tuple[Unit, ...]:
    """Return the units of a compaction, by result directory and bucket; none without a schema file.

    delete_buckets  the buckets that the events of a delete file decode to, by the file's path
    row_type        the table's columns, where they are stated
    matching        how the table's readers find its columns

    With Hive 3's names every bucket number of any input has a file in every result, empty or not, as in Hive 3.1; with
    Hive 4's only buckets with rows or events have one. A result without any row or event is not published.
    """
    schema = inputs.schema
    if schema is None:
        return ()
    rows, events = row_files(inputs.directories), delete_files(inputs.directories)
    routed = {file.path: delete_buckets[file.path] for file in events}
    everywhere = {file.bucket for file in (*rows, *events)}.union(*routed.values())
    keep_empty = hive.names is Generation.HIVE3
    units = []
    for output in inputs.outputs:
        is_delete = isinstance(output, DeltaDir) and output.is_delete
        own = set().union(*routed.values()) if is_delete else {file.bucket for file in rows}
        for bucket in sorted(everywhere if keep_empty else own):
            mine = tuple(file for file in events if bucket in routed[file.path])
            units.append(
                Unit(
                    location=location,
                    directory=output.name,
                    bucket=bucket,
                    is_delete=is_delete,
                    inputs=mine if is_delete else tuple(file for file in rows if file.bucket == bucket),
                    deletes=() if is_delete else mine,
                    collapse=inputs.kind.makes_base,
                    schema=schema,
                    reader=hive.reader,
                    keep_empty=keep_empty,
                    write_ids=write_ids,
                    settings=settings,
                    matching=matching,
                    row_type=row_type,
                )
            )
    return tuple(units)


def ways_of(storage: Storage | None, properties: Mapping[str, str]) -> frozenset[JoinWay]:
    """Return how files of a table or partition may be joined, by its description in a metastore.

    Without a metastore (None) a file shows by itself that it is ORC or Parquet; nothing shows that a file is text
    without header lines.
    """
    if storage is None:
        return frozenset({JoinWay.STRIPES, JoinWay.ROW_GROUPS})
    way = _WAYS.get(storage.input_format or "")
    if way is None or (way is JoinWay.LINES and any(properties.get(key, "0").strip() != "0" for key in ONE_PER_FILE)):
        return frozenset()
    return frozenset({way})


def input_files(inputs: CompactionInputs) -> tuple[DataFile, ...]:
    """Return the files whose rows stay, in order: none of a directory whose write ids are all aborted."""
    return tuple(file for directory in inputs.directories for file in directory.files if not file.aborted)


def join_units(
    inputs: CompactionInputs,
    facts: Mapping[str, JoinFacts],
    *,
    location: Location,
    reader: Reader,
    settings: RewriteSettings,
) -> tuple[JoinUnit, ...]:
    """Return a unit for each file to make, by the `facts` of each input file (by its path).

    A bucket's first file is named as Hive's writers name it, further ones as Hive names copies of it.
    """
    groups: list[list[DataFile]] = []
    open_groups: dict[tuple[int, JoinWay, str], tuple[list[DataFile], float]] = {}
    for file in input_files(inputs):
        fact = facts[file.path]
        key = (file.bucket, fact.way, file.path if fact.way is JoinWay.WHOLE else fact.group_key)
        group, share = open_groups.get(key, ([], 0.0))
        if not group or share + fact.share > 1:
            group, share = [], 0.0
            groups.append(group)
        group.append(file)
        open_groups[key] = (group, share + fact.share)
    copies: Counter[int] = Counter()
    (output,) = inputs.outputs
    units = []
    for group in groups:
        first = group[0]
        name = OriginalFile(bucket=first.bucket, copy=copies[first.bucket] or None).name + extension(first.path)
        copies[first.bucket] += 1
        units.append(
            JoinUnit(
                location=location,
                directory=output.name,
                file_name=name,
                bucket=first.bucket,
                way=facts[first.path].way,
                inputs=tuple(group),
                reader=reader,
                settings=settings,
                reason=facts[first.path].reason,
            )
        )
    return tuple(units)


def extension(path: str) -> str:
    """Return the last dot of a file's name and the rest behind it, by which Hadoop chooses the codec of text."""
    _, dot, rest = path.rpartition("/")[2].rpartition(".")
    return dot + rest if dot else ""


def plan_stripes(
    stripes: Sequence[StripeFacts], settings: RewriteSettings, *, most_decoded: int = 1 << 63
) -> tuple[StripeAction, ...]:
    """Return actions in the order of the stripes, which is the order of their keys.

    A stripe is copied unless there is a reason against it. Others are rewritten, joined with their neighbours up to the
    stripe size and `MAX_JOINED_ROWS`; a small stripe that could be copied joins such a group, or other small stripes.

    most_decoded  bytes of memory of a column of stripes that are joined: texts that repeat are next to no bytes in a
                  file
    """
    actions: list[StripeAction] = []
    rewritten: list[StripeFacts] = []
    size = rows = decoded = 0
    for stripe in stripes:
        if stripe.kept == 0:
            actions.append(StripeAction(copy=False, stripes=(stripe,), reason="no row of it is left"))
        elif must_rewrite(stripe) is None and stripe.length >= settings.copy_bytes:
            actions += _close(rewritten)
            actions.append(StripeAction(copy=True, stripes=(stripe,), reason=_unchanged(stripe)))
            rewritten = []
        else:
            fits = (
                size + stripe.length <= settings.stripe_bytes
                and rows + stripe.rows <= MAX_JOINED_ROWS
                and decoded + stripe.decoded <= most_decoded
            )
            if rewritten and not (fits and rewritten[0].timezone == stripe.timezone):
                actions += _close(rewritten)
                rewritten = []
            if not rewritten:
                size = rows = decoded = 0
            rewritten.append(stripe)
            size += stripe.length
            rows += stripe.rows
            decoded += stripe.decoded
    actions += _close(rewritten)
    # a group closes only after the emptied stripes that lie between its members
    place = {stripe: number for number, stripe in enumerate(stripes)}
    return tuple(sorted(actions, key=lambda action: place[action.stripes[0]]))


def must_rewrite(stripe: StripeFacts) -> str | None:
    """Return why a stripe cannot be copied even if it is large enough, or None."""
    if stripe.deleted or stripe.aborted:
        return _dropped([stripe])
    return stripe.no_copy


def _close(group: list[StripeFacts]) -> Iterator[StripeAction]:
    """Yield the action of a group; a stripe that is only small is copied if there is no other to join it with."""
    if not group:
        return
    if len(group) == 1 and must_rewrite(group[0]) is None:
        reason = f"{_unchanged(group[0])}, and no small neighbour to join with"
        yield StripeAction(copy=True, stripes=tuple(group), reason=reason)
        return
    changed = [stripe for stripe in group if stripe.deleted or stripe.aborted]
    parts = [_dropped(changed)] if changed else []
    others = Counter(stripe.no_copy or "small" for stripe in group if stripe not in changed)
    parts += [f"{reason} ({count} of {plural(len(group), 'stripe')})" for reason, count in others.most_common()]
    yield StripeAction(copy=False, stripes=tuple(group), reason="; ".join(parts))


def _unchanged(stripe: StripeFacts) -> str:
    return "unchanged" if stripe.column_changes is None else f"unchanged but for {stripe.column_changes}"


def _dropped(stripes: list[StripeFacts]) -> str:
    deleted, aborted = sum(s.deleted for s in stripes), sum(s.aborted for s in stripes)
    counts = [f"{count} {state}" for count, state in ((deleted, "deleted"), (aborted, "aborted")) if count]
    rows = "row" if deleted + aborted == 1 else "rows"
    return f"{rows} to leave out: {', '.join(counts)}"


def part_bytes_on(slots: int, least: int) -> int:
    """Return the input bytes of a task that shares a bucket with others, on an executor pool of so many slots.

    They are at least `least` (0: no bucket is shared), and more the more slots there are: Spark starts only some
    thousand tasks a second.
    """
    return max(least, slots * PART_BYTES_OF_A_SLOT) if least else 0


def actions_of_tasks(actions: Mapping[int, StripeAction], part_bytes: int) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of the rewriting actions of each task, of about `part_bytes` input; () for a single task.

    The largest are dealt first, each to the task that has least so far, so that all end at about the same time.
    """
    lengths = {number: action.length for number, action in actions.items() if not action.copy}
    count = min(sum(lengths.values()) // part_bytes, len(lengths), MAX_PARTS) if part_bytes else 0
    if count < 2:
        return ()
    loads = [(0, task) for task in range(count)]
    dealt: list[list[int]] = [[] for _ in range(count)]
    for number in sorted(lengths, key=lambda number: -lengths[number]):
        load, task = heappop(loads)
        dealt[task].append(number)
        heappush(loads, (load + lengths[number], task))
    return tuple(tuple(sorted(numbers)) for numbers in dealt)


def task_batches(lengths: Sequence[int], free: int) -> list[list[int]]:
    """Return the tasks to start now on so many free slots, by their numbers: each list shares one slot.

    lengths  input bytes of the tasks that wait, the longest waiting first; tasks that do not fit go on waiting
    """
    large: list[int] = []
    small: list[int] = []
    for number, length in enumerate(lengths):
        if length >= SMALL_BYTES and len(large) + bool(small) < free:
            large.append(number)
        elif length < SMALL_BYTES and len(large) < free:
            small.append(number)
    slots = free - len(large)
    waiting = small[: slots * BATCH_TASKS]
    dealt: list[list[int]] = [[] for _ in range(min(slots, len(waiting)))]
    filled = [0] * len(dealt)
    # in turns, the largest first, so that the large ones are spread over all slots
    for turn, number in enumerate(sorted(waiting, key=lambda number: -lengths[number])):
        slot = turn % len(dealt)
        if not dealt[slot] or filled[slot] + lengths[number] <= BATCH_BYTES:
            dealt[slot].append(number)
            filled[slot] += lengths[number]
    return [[number] for number in large] + dealt


def spark_needed_reason(begun: int, more: int, *, most: int) -> str | None:
    """Return why a run without a session needs Spark for its next tasks; None if processes of its own are enough.

    The start of Spark takes as long as rewriting some hundred megabytes, and a process has the memory and the cores of
    one machine.

    begun  input bytes of the run's tasks so far
    more   those of the next tasks
    most   those that a process takes; 0 = none
    """
    if not most:
        return "no task is to run in this process"
    if begun + more <= most:
        return None
    return f"its tasks have {human_bytes(begun + more)} of input so far, more than {human_bytes(most)}"


def groups_of_like_length(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Yield batches of tasks of about equal length, by their numbers, so that no batch is held up by one slow member.

    most  tasks in a batch
    """
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    group: list[int] = []
    for number in order:
        unlike = group and lengths[number] * _LIKE < lengths[group[0]] and lengths[group[0]] >= SMALL_BYTES
        if unlike or len(group) == most:
            yield group
            group = []
        group.append(number)
    if group:
        yield group
