"""Making one bucket file of a rebalance: rows of any buckets, in the order of all, under ids that are counted anew.

Where a whole stripe comes together its columns are copied, and only its ids are written. Else the rows that are meant
are chosen from the stripes they lie in, and joined in their order, encoded as they are in any other rewritten stripe.
Source of the new ids: Hive 4 `CompactionQueryBuilderForRebalance`: the write id stays, the transaction that wrote the
row is that of its write id, bucket and row id are new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from acidlib.errors import CorruptError
from acidlib.model.rowid import encode_bucket
from acidlib.model.units import StripeAction, StripeFacts, UnitResult
from acidlib.orc.column import Longs, Mask
from acidlib.orc.schema import acid_tree
from acidlib.orc.source import DataFiles, SinkFile
from acidlib.orc.tail import read_tail
from acidlib.orc.writer import FileOptions, OrcWriter
from acidlib.planning.stripes import plan_stripes
from acidlib.points import Point, passing
from acidlib.rewrite.acid_footer import acid_metadata, key_index
from acidlib.rewrite.deletes import read_deletes
from acidlib.rewrite.filters import filter_sizes, found_filters, plan_filters, result_columns
from acidlib.rewrite.graft import graft, may_be_grafted
from acidlib.rewrite.inputs import InputFiles, OpenInput, open_inputs
from acidlib.rewrite.keys import Keys
from acidlib.rewrite.output import file_options, new_file, removed_on_error, result_of_actions
from acidlib.rewrite.parts import planned_inputs
from acidlib.rewrite.readback import ids_of_stripes
from acidlib.rewrite.recode import KeptRows, encode_rows, walk_timestamps
from acidlib.rewrite.rows import RowStripe, check_calendar, container_difference, kept_rows, row_masks
from acidlib.rewrite.runs import RebalanceUnit
from acidlib.rewrite.stripe_keys import StripeIds, StripeKeys
from acidlib.rewrite.unit import result_row

Clock = Callable[[], float]
_StripeName = tuple[int, int]
"""The number of an open file and of a stripe in it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Masks:
    """Which rows of a stripe stay, None where all do; and which are aborted, None where none is."""

    keep: Mask | None
    aborted: Mask | None


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


def run_rebalance(made: RebalanceUnit, data: DataFiles, path: str | None, clock: Clock) -> UnitResult:
    """Make the file at `path`, which must not exist; with `path` None only plan it. Raises as `run_unit` does."""
    start = clock()
    with _open_sources(made, data) as sources:
        job = _Job(made, sources)
        actions, spans, options = job.plan()
        files = [sources.files[number] for number in range(len(made.inputs))]
        result = _with_found(result_of_actions(made.unit, actions, files), made.found)
        if path is None:
            return replace(result, seconds=clock() - start)
        with new_file(data, path) as sink:
            written = job.write(sink, actions, spans, options)
        with removed_on_error(sink):
            _prove(made, data, sink, result, written)
    passing(Point.PROVED)
    return replace(result, path=path, length=sink.position, seconds=clock() - start)


def _with_found(result: UnitResult, found: Sequence[UnitResult]) -> UnitResult:
    """With what is to be told of the buckets that were read, beside their rows."""
    return replace(
        result,
        events_in=sum(one.events_in for one in found),
        events_aborted=sum(one.events_aborted for one in found),
        duplicate_events=sum(one.duplicate_events for one in found),
        empty_files=tuple(dict.fromkeys(path for one in found for path in one.empty_files)),
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """The open files, by their numbers, and the deleted rows of each of their buckets."""

    place: InputFiles
    files: Mapping[int, OpenInput]
    deleted: Mapping[int, Keys]


@contextmanager
def _open_sources(made: RebalanceUnit, data: DataFiles) -> Iterator[_Sources]:
    place = InputFiles(made.unit.location, data)
    with planned_inputs(dict(enumerate(made.inputs)), place) as files:
        deleted = {
            bucket: _deleted_near(made, bucket, files, place) if deletes else Keys.empty()
            for bucket, deletes in made.deletes.items()
        }
        yield _Sources(place=place, files=files, deleted=deleted)


def _deleted_near(made: RebalanceUnit, bucket: int, files: Mapping[int, OpenInput], place: InputFiles) -> Keys:
    """The deleted rows of a bucket, at least those in the stripes that are read."""
    stripes = np.unique(np.stack((made.runs.file, made.runs.stripe), axis=1), axis=0).tolist()
    ranges = [
        StripeKeys(files[file], stripe).key_range() for file, stripe in stripes if files[file].file.bucket == bucket
    ]
    with open_inputs(made.deletes[bucket], place) as opened:
        return read_deletes(opened, bucket, made.unit.write_ids, near=ranges).deleted_keys()


class _Job:
    """One file, from its plan to its bytes."""

    def __init__(self, made: RebalanceUnit, sources: _Sources) -> None:
        self._made = made
        self._sources = sources
        self._stripes: dict[_StripeName, RowStripe] = {}
        self._masks: dict[_StripeName, _Masks] = {}
        self._amounts = made.live_to - made.live_from

    # --- planning -------------------------------------------------------------------------------------------------

    def plan(self) -> tuple[tuple[StripeAction, ...], dict[StripeFacts, _Span], FileOptions]:
        """What becomes of the rows, the spans of rows that this is about, and the options of the result."""
        unit, files = self._made.unit, self._sources.files
        row = result_row(unit, self._sources.place)
        tails = [file.tail for file in files.values()]
        options = file_options(acid_tree(row), tails, unit.generation, unit.settings)
        spans = list(self._spans(options))
        stripes = list(self._stripes.values())
        checked, filtered = plan_filters(stripes, options.root, unit.settings)
        facts = {(one.file, one.number): one for one in checked}
        by_facts = {self._facts(span, facts[span.stripe]): span for span in spans}
        self._masks.clear()
        actions = plan_stripes(tuple(by_facts), unit.settings)
        filters = filter_sizes(stripes, filtered, actions, options, unit.generation, unit.settings)
        return actions, by_facts, replace(options, filters=filters)

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
        keep = self._masks_of(name).keep
        stays = np.flatnonzero(keep[first : first + rows]) if keep is not None else np.arange(rows)
        if len(stays) != live:
            raise self._changed(name, f"{len(stays)} rows stay of {rows}, and {live} were counted")
        start = first if low == 0 else first + int(stays[low])
        return start, first + rows if high == live else first + int(stays[high])

    def _row_stripe(self, name: _StripeName, options: FileOptions) -> RowStripe:
        file, alignment = self._sources.files[name[0]], self._made.inputs[name[0]].alignment
        reader, keys = file.stripe(name[1]), StripeKeys(file, name[1])
        check_calendar(file, keys, alignment, options)
        no_copy: str | None = "columns that cannot be copied as they are"
        if may_be_grafted(file, name[1], alignment, reader):
            no_copy = container_difference(file.tail, options, statistics_true=True)
        zones = any(True for _ in walk_timestamps(options.root))
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
            masks = self._masks_of(span.stripe)
            inside = slice(span.start, span.end)
            aborted = 0 if masks.aborted is None else int(np.count_nonzero(masks.aborted[inside]))
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
            deleted = self._sources.deleted[keys.file.file.bucket]
            found, aborted = row_masks(keys, deleted, self._made.unit.write_ids)
            self._masks[name] = _Masks(kept_rows(found, aborted), aborted)
            keys.forget()
        return self._masks[name]

    def _changed(self, name: _StripeName, what: str) -> CorruptError:
        return CorruptError(f"Cannot rebalance {self._stripes[name].keys.where}: because {what}")

    # --- writing --------------------------------------------------------------------------------------------------

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
            part = self._part(name, [members[number] for number in numbers])
            mine = place[start : start + part.count]
            start += part.count
            parts.append(part.kept(ids.keys.select(mine), ids.current[mine]))
        self._masks = {name: masks for name, masks in self._masks.items() if name == members[-1].stripe}
        timezone = action.stripes[0].timezone
        is_moved = len(by_stripe) < len(members)
        encoded = encode_rows(parts, options, timezone, order=order if is_moved else None)
        writer.write_stripe(encoded, rows=rows, timezone=timezone)

    def _part(self, name: _StripeName, spans: Sequence[_Span]) -> _Part:
        stripe = self._stripes[name]
        live = sum(span.live for span in spans)
        chosen: Mask | None = None
        if live < stripe.facts.rows:
            chosen = np.zeros(stripe.facts.rows, dtype=np.bool_)
            for span in spans:
                chosen[span.start : span.end] = True
            if live < sum(span.end - span.start for span in spans):
                keep = self._masks_of(name).keep
                if keep is not None:
                    chosen &= keep
            if int(np.count_nonzero(chosen)) != live:
                raise self._changed(name, f"{np.count_nonzero(chosen)} rows are chosen, and {live} were counted")
        return _Part(stripe, chosen, live)

    def _write_ids(self, spans: Sequence[_Span]) -> Longs:
        runs = self._made.runs
        parts = [slice(span.runs.start, span.runs.stop) for span in spans]
        found = [np.repeat(runs.write_ids[part], self._amounts[part]) for part in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of a stripe that go into a rewritten one."""

    stripe: RowStripe
    chosen: Mask | None
    count: int

    def kept(self, keys: Keys, current: Longs) -> KeptRows:
        """The same, with the ids that they get."""
        return KeptRows(
            reader=self.stripe.file.stripe(self.stripe.facts.number),
            alignment=self.stripe.alignment,
            rows=self.stripe.facts.rows,
            keep=self.chosen,
            keys=keys,
            current=current,
        )


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
        for number, (found, wanted) in enumerate(zip(ids_of_stripes(source, tail), expected, strict=True)):
            if not (wanted.keys.ascending() and found.keys.equals(wanted.keys)):
                raise _broken(where, f"the ids of its stripe {number} are not those that were written, or not in order")
            if not np.array_equal(found.current, wanted.current):
                raise _broken(where, f"stripe {number} names other transactions than those of its write ids")
    finally:
        source.close()


def _broken(where: str, reason: str) -> CorruptError:
    return CorruptError(f"Cannot publish {where}: because {reason}; nothing was changed")
