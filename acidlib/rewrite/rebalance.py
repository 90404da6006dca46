"""A rebalance: the rows of a place as runs, how they are shared out among buckets, and one bucket file of them.

A run are neighbours in one stripe that have write id and bucket property in common. All rows of one such pair lie in
one bucket, so that the order of all rows of all buckets, which is that of their ids, is an order of whole runs: what is
planned needs no single row.

A bucket file has rows of any buckets, in the order of all, under ids that are counted anew. Where a whole stripe comes
together its columns are copied, and only its ids are written. Else the rows that are meant are chosen from the stripes
they lie in, and joined in their order, encoded as they are in any other rewritten stripe. Source of the new ids: Hive 4
`CompactionQueryBuilderForRebalance`: the write id stays, the transaction that wrote the row is that of its write id,
bucket and row id are new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from acidlib.datafiles import DataFiles, SinkFile
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.location import Location
from acidlib.model.units import MAX_BUCKET, DataFile, StripeAction, StripeFacts, Unit, UnitResult, encode_bucket
from acidlib.orc.columns import Longs, Mask
from acidlib.orc.reader import read_tail
from acidlib.orc.schema import TypeNode, acid_tree
from acidlib.orc.writer import FileOptions, OrcWriter
from acidlib.points import Point, passing
from acidlib.rewrite.bucket import (
    Clock,
    PlannedInput,
    RowStripe,
    check_calendar,
    container_difference,
    delete_set,
    kept_rows,
    open_bucket,
    planned_inputs,
    planned_result,
    result_row,
    row_masks,
)
from acidlib.rewrite.deletes import read_deletes
from acidlib.rewrite.inputs import InputFiles, OpenInput, acid_metadata, key_index, open_inputs
from acidlib.rewrite.keys import Keys, StripeIds, StripeKeys
from acidlib.rewrite.output import (
    file_options,
    found_filters,
    new_file,
    plan_actions,
    removed_on_error,
    result_columns,
    result_input,
    result_of_actions,
)
from acidlib.rewrite.recode import KeptRows, encode_rows, graft, has_timestamps, may_be_grafted

_StripeName = tuple[int, int]
"""The number of an open file and of a stripe in it."""

_Masks = tuple[Mask | None, Mask | None]
"""Which rows of a stripe stay, None where all do; and which are aborted, None where none is."""

_NONE: Longs = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """n runs: int64 arrays of length n.

    source, file, stripe  of which bucket, which of its files with rows, and which stripe of that, by their numbers
    first, rows           the first row in the stripe, and how many
    write_ids, buckets    what the rows have in common
    first_ids, last_ids   the lowest and the highest row id
    live                  rows that are neither deleted nor aborted
    """

    source: Longs
    file: Longs
    stripe: Longs
    first: Longs
    rows: Longs
    write_ids: Longs
    buckets: Longs
    first_ids: Longs
    last_ids: Longs
    live: Longs

    def __len__(self) -> int:
        return len(self.first)

    def select(self, chosen: Longs | slice) -> Runs:
        """The runs at an index array or slice."""
        return Runs(**{one.name: getattr(self, one.name)[chosen] for one in fields(self)})

    @staticmethod
    def joined(several: Sequence[Runs]) -> Runs:
        """All of several, one after the other."""
        return Runs(
            **{
                one.name: np.concatenate([_NONE, *(getattr(runs, one.name) for runs in several)])
                for one in fields(Runs)
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBucket:
    """What a bucket holds before a rebalance.

    inputs   its files with rows, by the numbers that runs have for them
    planned  what is known of the rows and delete events that were read
    """

    unit: Unit
    inputs: tuple[PlannedInput, ...]
    runs: Runs
    planned: UnitResult


def find_runs(unit: Unit, source: int, data: DataFiles) -> SourceBucket:
    """Find the runs of a bucket, in the order of its files; `source` is its number among those of its place.

    RefusedError or CorruptError for what cannot be rewritten.
    """
    place = InputFiles(unit.location, data)
    deletes, deleted = delete_set(unit, place)
    found: list[Runs] = []
    aborted_rows = deleted_rows = rows = 0
    with open_bucket(unit, place) as bucket:
        for number, file in enumerate(bucket.inputs.files):
            for stripe, facts in enumerate(file.tail.stripes):
                if not facts.rows:
                    continue
                keys = StripeKeys(file, stripe)
                keys.check()
                runs, dropped, aborted = _runs_of(keys, deleted, unit, (source, number, stripe))
                keys.forget()
                found.append(runs)
                rows += facts.rows
                deleted_rows += dropped
                aborted_rows += aborted
        inputs = tuple(
            PlannedInput(file=opened.file, first_row=opened.first_row, alignment=alignment)
            for opened, alignment in zip(bucket.inputs.files, bucket.alignments, strict=True)
        )
        planned = replace(
            planned_result(unit, bucket, (), deletes),
            rows_in=rows,
            rows_deleted=deleted_rows,
            rows_aborted=aborted_rows,
            rows_out=rows - deleted_rows - aborted_rows,
        )
    return SourceBucket(unit=unit, inputs=inputs, runs=Runs.joined(found), planned=planned)


def _runs_of(keys: StripeKeys, deleted: Keys, unit: Unit, where: tuple[int, int, int]) -> tuple[Runs, int, int]:
    """The runs of a stripe, and how many of its rows are deleted and aborted."""
    deleted_mask, aborted_mask = row_masks(keys, deleted, unit.write_ids)
    known = keys.known_range()
    if known is not None and known[0][:2] == known[1][:2] and deleted_mask is None and aborted_mask is None:
        low, high = known
        rows, last = np.array([keys.rows], dtype=np.int64), np.array([high[2]], dtype=np.int64)
        common = Keys(*(np.array([part], dtype=np.int64) for part in low))
        return _made(where, np.zeros(1, dtype=np.int64), rows, common, last, rows), 0, 0
    ids = keys.ids().keys
    if not ids.ascending():
        raise RefusedError(f"Cannot rebalance {keys.where}: because its keys do not ascend")
    changes = (ids.write_ids[1:] != ids.write_ids[:-1]) | (ids.buckets[1:] != ids.buckets[:-1])
    first = np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(changes).astype(np.int64) + 1])
    ends = np.append(first[1:], np.int64(keys.rows))
    keep = kept_rows(deleted_mask, aborted_mask)
    live = ends - first if keep is None else np.add.reduceat(keep, first, dtype=np.int64)
    aborted = 0 if aborted_mask is None else int(np.count_nonzero(aborted_mask))
    dropped = keys.rows - int(live.sum()) - aborted
    return _made(where, first, ends - first, ids.select(first), ids.row_ids[ends - 1], live), dropped, aborted


def _made(where: tuple[int, int, int], first: Longs, rows: Longs, common: Keys, last: Longs, live: Longs) -> Runs:
    source, file, stripe = (np.full(len(first), number, dtype=np.int64) for number in where)
    return Runs(
        source=source,
        file=file,
        stripe=stripe,
        first=first,
        rows=rows,
        write_ids=common.write_ids,
        buckets=common.buckets,
        first_ids=common.row_ids,
        last_ids=last,
        live=live,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceUnit:
    """One bucket file of a rebalance to make, from rows of any buckets.

    unit       of the result: its inputs are those that it has rows of
    inputs     the same, by the numbers that the runs have for them
    deletes    for each bucket of theirs the files that may hold delete events of it
    runs       in the order in which their rows are to stand; `file` is a number among `inputs` alone
    live_from, live_to  which of the live rows of each run are meant
    first_row  row id of the first row; from there on they are counted
    rows       of the result
    length     input bytes, about
    found      of the buckets before, what one unit tells for all of them
    """

    unit: Unit
    inputs: tuple[PlannedInput, ...]
    deletes: Mapping[int, tuple[DataFile, ...]]
    runs: Runs
    live_from: Longs
    live_to: Longs
    first_row: int
    rows: int
    length: int
    found: tuple[UnitResult, ...] = ()

    @property
    def location(self) -> Location:
        """Of the table or partition."""
        return self.unit.location

    @property
    def directory(self) -> str:
        """Name of the result's directory."""
        return self.unit.directory

    @property
    def file_name(self) -> str:
        """Name of the result's file."""
        return self.unit.file_name


def distribute_rows(sources: Sequence[SourceBucket], buckets: int, *, directory: str) -> tuple[RebalanceUnit, ...]:
    """The buckets of the result; none where no row is left.

    All rows are counted by write id, bucket property and row id, and each bucket gets as many of them, in that order,
    as the number of all by the number of `buckets`, rounded up (Hive 4 `CompactionQueryBuilderForRebalance`); the last
    ones may get fewer, or none. CorruptError where the rows of two stripes interleave, or have the same ids.
    """
    if not 0 < buckets <= MAX_BUCKET + 1:
        raise RefusedError(
            f"Cannot rebalance {sources[0].unit.location}: because it would have {buckets} buckets, and a table has 1 "
            f"to {MAX_BUCKET + 1}"
        )
    runs = _in_order(sources)
    ends = np.cumsum(runs.live)
    starts = ends - runs.live
    rows = int(ends[-1]) if len(ends) else 0
    if not rows:
        return ()
    each = -(-rows // buckets)
    firsts = np.arange(0, rows, each, dtype=np.int64)
    # runs without live rows go with those before them, so that each is in one bucket
    lows = np.searchsorted(ends, firsts, side="right")
    lows[0] = 0
    made = []
    for number, (first, low) in enumerate(zip(firsts, lows, strict=True)):
        end, high = min(int(first) + each, rows), len(runs)
        if number + 1 < len(lows):
            high = int(lows[number + 1])
            high += int(starts[high] < end)
        chosen = slice(int(low), high)
        mine = runs.select(chosen)
        live_from = np.clip(int(first) - starts[chosen], 0, mine.live)
        live_to = np.clip(end - starts[chosen], 0, mine.live)
        made.append(_unit(sources, number, directory, mine, live_from, live_to, int(first), end - int(first)))
    return (replace(made[0], found=tuple(source.planned for source in sources)), *made[1:])


def _in_order(sources: Sequence[SourceBucket]) -> Runs:
    runs = Runs.joined([source.runs for source in sources])
    runs = runs.select(np.lexsort((runs.first_ids, runs.buckets, runs.write_ids)))
    same = (runs.write_ids[1:] == runs.write_ids[:-1]) & (runs.buckets[1:] == runs.buckets[:-1])
    wrong = np.flatnonzero(same & (runs.first_ids[1:] <= runs.last_ids[:-1]))
    if len(wrong):
        before, after = (_where(sources, runs, int(wrong[0]) + step) for step in (0, 1))
        raise CorruptError(f"Cannot rebalance {after}: because its row ids interleave with those of {before}")
    return runs


def _where(sources: Sequence[SourceBucket], runs: Runs, number: int) -> str:
    source = sources[int(runs.source[number])]
    return f"stripe {runs.stripe[number]} of {source.unit.location}/{source.inputs[int(runs.file[number])].file.path}"


def _unit(
    sources: Sequence[SourceBucket],
    bucket: int,
    directory: str,
    runs: Runs,
    live_from: Longs,
    live_to: Longs,
    first_row: int,
    rows: int,
) -> RebalanceUnit:
    pairs, places = np.unique(np.stack((runs.source, runs.file), axis=1), axis=0, return_inverse=True)
    files = places.reshape(-1)
    inputs = tuple(sources[source].inputs[file] for source, file in pairs.tolist())
    length = 0
    for number, (source, file) in enumerate(pairs.tolist()):
        all_runs, mine = sources[source].runs, files == number
        of_file = int(all_runs.live[all_runs.file == file].sum())
        length += inputs[number].file.length * int((live_to - live_from)[mine].sum()) // max(1, of_file)
    used = dict.fromkeys(source for source, _ in pairs.tolist())
    unit = sources[0].unit
    return RebalanceUnit(
        unit=replace(
            unit,
            directory=directory,
            bucket=bucket,
            inputs=tuple(one.file for one in inputs),
            deletes=(),
            keep_empty=False,
        ),
        inputs=inputs,
        deletes={sources[source].unit.bucket: sources[source].unit.deletes for source in used},
        runs=replace(runs, file=files.astype(np.int64)),
        live_from=live_from,
        live_to=live_to,
        first_row=first_row,
        rows=rows,
        length=length,
    )


def run_rebalance(made: RebalanceUnit, data: DataFiles, path: str | None, clock: Clock) -> UnitResult:
    """Make the file at `path`, which must not exist; with `path` None only plan it. Raises as `run_unit` does."""
    start = clock()
    place = InputFiles(made.unit.location, data)
    with planned_inputs(dict(enumerate(made.inputs)), place) as files:
        deleted = {
            bucket: _deleted_near(made, bucket, files, place) if deletes else Keys.empty()
            for bucket, deletes in made.deletes.items()
        }
        job = _Job(made, files, deleted)
        actions, spans, options = job.plan(result_row(made.unit, place))
        result = replace(
            result_of_actions(made.unit, actions, list(files.values())),
            events_in=sum(one.events_in for one in made.found),
            events_aborted=sum(one.events_aborted for one in made.found),
            duplicate_events=sum(one.duplicate_events for one in made.found),
            empty_files=tuple(dict.fromkeys(path for one in made.found for path in one.empty_files)),
            notes=tuple(dict.fromkeys(note for one in made.found for note in one.notes)),
        )
        if path is None:
            return replace(result, seconds=clock() - start)
        with new_file(data, path) as sink:
            written = job.write(sink, actions, spans, options)
        with removed_on_error(sink):
            _prove(made, data, sink, result, written)
    passing(Point.PROVED)
    return replace(result, path=path, length=sink.position, seconds=clock() - start)


def _deleted_near(made: RebalanceUnit, bucket: int, files: Mapping[int, OpenInput], place: InputFiles) -> Keys:
    """The deleted rows of a bucket, at least those in the stripes that are read."""
    stripes = np.unique(np.stack((made.runs.file, made.runs.stripe), axis=1), axis=0).tolist()
    ranges = [
        StripeKeys(files[file], stripe).key_range() for file, stripe in stripes if files[file].file.bucket == bucket
    ]
    with open_inputs(made.deletes[bucket], place) as opened:
        return read_deletes(opened, bucket, made.unit.write_ids, near=ranges).deleted_keys()


@dataclass(frozen=True, slots=True)
class _Span:
    """Neighbouring rows of a stripe that stand together in the result: `start` to `end`, of which some may be dropped.

    runs  their numbers among those of the unit
    live  how many stay
    """

    stripe: _StripeName
    start: int
    end: int
    runs: range
    live: int


@dataclass(slots=True)
class _Written:
    """The ids that were written: the write ids of the rows of each stripe, and where its first row stands."""

    write_ids: list[Longs] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    rows: int = 0

    def add(self, write_ids: Longs) -> None:
        """The write ids of one more stripe."""
        self.write_ids.append(write_ids)
        self.starts.append(self.rows)
        self.rows += len(write_ids)

    def ids(self, made: RebalanceUnit, number: int) -> StripeIds:
        """The id columns of a stripe."""
        write_ids, first = self.write_ids[number], made.first_row + self.starts[number]
        keys = Keys.sequence(0, encode_bucket(made.unit.bucket), first, len(write_ids))
        return StripeIds(keys=replace(keys, write_ids=write_ids), current=write_ids)

    def all_ids(self, made: RebalanceUnit) -> Iterator[StripeIds]:
        """Those of all stripes."""
        return (self.ids(made, number) for number in range(len(self.write_ids)))


class _Job:
    """One file, from its plan to its bytes."""

    def __init__(self, made: RebalanceUnit, files: Mapping[int, OpenInput], deleted: Mapping[int, Keys]) -> None:
        """`deleted`: the deleted rows of each bucket."""
        self._made, self._files, self._deleted = made, files, deleted
        self._stripes: dict[_StripeName, RowStripe] = {}
        self._masks: dict[_StripeName, _Masks] = {}
        self._amounts = made.live_to - made.live_from

    def plan(self, row: TypeNode) -> tuple[tuple[StripeAction, ...], dict[StripeFacts, _Span], FileOptions]:
        """What becomes of the rows, the spans of rows that this is about, and the options of the result."""
        unit, tails = self._made.unit, [file.tail for file in self._files.values()]
        options = file_options(acid_tree(row), tails, unit.generation, unit.settings)
        spans = list(self._spans(options))
        stripes = list(self._stripes.values())
        by_facts: dict[StripeFacts, _Span] = {}

        def split(checked: tuple[StripeFacts, ...]) -> tuple[StripeFacts, ...]:
            facts = {(one.file, one.number): one for one in checked}
            by_facts.update((self._facts(span, facts[span.stripe]), span) for span in spans)
            self._masks.clear()
            return tuple(by_facts)

        actions, options = plan_actions(stripes, options, unit.settings, unit.generation, split=split)
        return actions, by_facts, options

    def _spans(self, options: FileOptions) -> Iterator[_Span]:
        """The rows in their order, those together that stand together where they come from."""
        runs, before = self._made.runs, None
        for number in range(len(runs)):
            name = int(runs.file[number]), int(runs.stripe[number])
            if name not in self._stripes:
                self._stripes[name] = self._row_stripe(name, options)
            start, end = self._bounds(name, number)
            live = int(self._amounts[number])
            if before is not None and before.stripe == name:  # and next to it: between them there is no other run
                before = replace(before, end=end, runs=range(before.runs.start, number + 1), live=before.live + live)
                continue
            if before is not None:
                yield before
            before = _Span(stripe=name, start=start, end=end, runs=range(number, number + 1), live=live)
        if before is not None:
            yield before

    def _bounds(self, name: _StripeName, number: int) -> tuple[int, int]:
        """The rows of a run that are meant, in their stripe; with the dropped ones before the first and behind."""
        made, runs = self._made, self._made.runs
        first, rows, live = int(runs.first[number]), int(runs.rows[number]), int(runs.live[number])
        low, high = int(made.live_from[number]), int(made.live_to[number])
        if live == rows:
            return first + low, first + high
        keep, _ = self._masks_of(name)
        stays = np.flatnonzero(keep[first : first + rows]) if keep is not None else np.arange(rows)
        if len(stays) != live:
            raise self._changed(name, f"{len(stays)} rows stay of {rows}, and {live} were counted")
        start = first if low == 0 else first + int(stays[low])
        return start, first + rows if high == live else first + int(stays[high])

    def _row_stripe(self, name: _StripeName, options: FileOptions) -> RowStripe:
        file, alignment = self._files[name[0]], self._made.inputs[name[0]].alignment
        reader, keys = file.stripe(name[1]), StripeKeys(file, name[1])
        check_calendar(file, keys, alignment, options)
        no_copy: str | None = "columns that cannot be copied as they are"
        if may_be_grafted(file, name[1], alignment, reader):
            no_copy = container_difference(file.tail, options, statistics_true=True)
        zones = has_timestamps(options.root)
        facts = StripeFacts(
            file=name[0],
            number=name[1],
            rows=keys.rows,
            length=file.tail.stripes[name[1]].length,
            deleted=0,
            aborted=0,
            timezone=reader.timezone if zones else "UTC",
            no_copy=no_copy,
            regroup="new row ids",
        )
        # the id columns are written anew, and filters of theirs with them
        filters = found_filters(reader, result_columns(alignment, options.root, acid=False))
        return RowStripe(keys=keys, file=file, alignment=alignment, facts=facts, filters=filters)

    def _facts(self, span: _Span, stripe: StripeFacts) -> StripeFacts:
        rows = span.end - span.start
        deleted = aborted = 0
        if span.live < rows:
            _, mask = self._masks_of(span.stripe)
            aborted = 0 if mask is None else int(np.count_nonzero(mask[span.start : span.end]))
            deleted = rows - span.live - aborted
        return replace(
            stripe,
            first=span.start,
            rows=rows,
            length=max(1, stripe.length * rows // stripe.rows),
            deleted=deleted,
            aborted=aborted,
            no_copy=stripe.no_copy if rows == stripe.rows else "a part of a stripe",
        )

    def _masks_of(self, name: _StripeName) -> _Masks:
        if name not in self._masks:
            keys = self._stripes[name].keys
            deleted = self._deleted[keys.file.file.bucket]
            found, aborted = row_masks(keys, deleted, self._made.unit.write_ids)
            self._masks[name] = kept_rows(found, aborted), aborted
            keys.forget()
        return self._masks[name]

    def _changed(self, name: _StripeName, what: str) -> CorruptError:
        return CorruptError(f"Cannot rebalance {self._stripes[name].keys.where}: because {what}")

    def write(
        self,
        sink: SinkFile,
        actions: Sequence[StripeAction],
        spans: Mapping[StripeFacts, _Span],
        options: FileOptions,
    ) -> _Written:
        """Carry the actions out."""
        writer, written = OrcWriter(sink, options), _Written()
        for action in actions:
            members = [spans[facts] for facts in action.stripes if spans[facts].live]
            if action.copy:
                self._copy(writer, members[0], written)
            elif members:
                self._recode(writer, members, action, options, written)
            passing(Point.WRITTEN)
        last_keys = [ids.keys.key(-1) for ids in written.all_ids(self._made)]
        writer.finish(acid_metadata(last_keys, inserts=written.rows, deletes=0))
        return written

    def _copy(self, writer: OrcWriter, span: _Span, written: _Written) -> None:
        stripe = self._stripes[span.stripe]
        written.add(self._write_ids([span]))
        graft(writer, stripe.file, stripe.keys, stripe.alignment, ids=written.ids(self._made, -1))

    def _recode(
        self,
        writer: OrcWriter,
        members: Sequence[_Span],
        action: StripeAction,
        options: FileOptions,
        written: _Written,
    ) -> None:
        written.add(self._write_ids(members))
        ids = written.ids(self._made, -1)
        rows = len(ids.keys)
        by_stripe: dict[_StripeName, list[int]] = {}
        for number, span in enumerate(members):
            by_stripe.setdefault(span.stripe, []).append(number)
        ends = np.cumsum([span.live for span in members])
        # for the rows as they are read, one stripe after the other: where each is to stand
        places = [
            np.arange(ends[number] - members[number].live, ends[number], dtype=np.int64)
            for numbers in by_stripe.values()
            for number in numbers
        ]
        place = np.concatenate(places)
        order = np.empty(rows, dtype=np.int64)
        order[place] = np.arange(rows, dtype=np.int64)
        parts, start = [], 0
        for name, numbers in by_stripe.items():
            spans = [members[number] for number in numbers]
            mine = place[start : start + sum(span.live for span in spans)]
            start += len(mine)
            parts.append(
                KeptRows(
                    reader=self._stripes[name].file.stripe(name[1]),
                    alignment=self._stripes[name].alignment,
                    rows=self._stripes[name].facts.rows,
                    keep=self._chosen(name, spans),
                    keys=ids.keys.select(mine),
                    current=ids.current[mine],
                )
            )
        self._masks = {name: masks for name, masks in self._masks.items() if name == members[-1].stripe}
        timezone = action.stripes[0].timezone
        is_moved = len(by_stripe) < len(members)
        encoded = encode_rows(parts, options, timezone, order=order if is_moved else None)
        writer.write_stripe(encoded, rows=rows, timezone=timezone)

    def _chosen(self, name: _StripeName, spans: Sequence[_Span]) -> Mask | None:
        """Return which rows of a stripe are meant; None where all are."""
        rows, live = self._stripes[name].facts.rows, sum(span.live for span in spans)
        if live == rows:
            return None
        chosen = np.zeros(rows, dtype=np.bool_)
        for span in spans:
            chosen[span.start : span.end] = True
        if live < sum(span.end - span.start for span in spans):
            keep, _ = self._masks_of(name)
            if keep is not None:
                chosen &= keep
        if int(np.count_nonzero(chosen)) != live:
            raise self._changed(name, f"{np.count_nonzero(chosen)} rows are chosen, and {live} were counted")
        return chosen

    def _write_ids(self, spans: Sequence[_Span]) -> Longs:
        runs = self._made.runs
        parts = [slice(span.runs.start, span.runs.stop) for span in spans]
        found = [np.repeat(runs.write_ids[part], self._amounts[part]) for part in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)


def _prove(made: RebalanceUnit, data: DataFiles, sink: SinkFile, planned: UnitResult, written: _Written) -> None:
    """Check the finished file as it lies there: every id in it, its number of rows, and its key index."""
    where = f"{made.unit.directory}/{made.unit.file_name}"
    if (planned.rows_out, written.rows) != (made.rows, made.rows):
        raise _broken(where, f"{planned.rows_out} rows were planned and {written.rows} written of {made.rows}")
    source = data.open(sink.name, sink.position)
    try:
        tail = read_tail(source)
        expected = list(written.all_ids(made))
        if [len(ids.keys) for ids in expected] != [stripe.rows for stripe in tail.stripes]:
            raise _broken(where, "its stripes do not have the rows that were written")
        if key_index(tail) != tuple(ids.keys.key(-1) for ids in expected):
            raise _broken(where, "its key index is not that of its last rows")
        file = result_input(source, tail, directory="")
        for number, wanted in enumerate(expected):
            found = StripeKeys(file, number).ids()
            if not (wanted.keys.ascending() and found.keys.equals(wanted.keys)):
                raise _broken(where, f"the ids of its stripe {number} are not those that were written, or not in order")
            if not np.array_equal(found.current, wanted.current):
                raise _broken(where, f"stripe {number} names other transactions than those of its write ids")
    finally:
        source.close()


def _broken(where: str, reason: str) -> CorruptError:
    return CorruptError(f"Cannot publish {where}: because {reason}; nothing was changed")
