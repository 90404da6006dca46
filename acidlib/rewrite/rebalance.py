"""A rebalance: the rows of a place as runs, their distribution among buckets, and one bucket file of them.

A run is a sequence of neighbours in a stripe with the same write id and bucket property. All rows of such a pair lie
in one bucket, so that the order of all rows of all buckets, which is that of their ids, is an order of whole runs.
Planning looks at no single row.

A bucket file has rows of any buckets, in the order of all, under newly counted ids. Where it takes a whole stripe the
columns are copied, and only the ids are written. Else its rows are chosen from their stripes and joined in their order,
encoded as in any other rewritten stripe. Source of the new ids: Hive 4 `CompactionQueryBuilderForRebalance`: the write
id stays, the row's transaction becomes that of its write id, bucket and row id are new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.datafiles import DataFiles
from acidlib.errors import CorruptError, RefusedError
from acidlib.location import Location
from acidlib.model.units import MAX_BUCKET, DataFile, Unit, UnitResult, encode_bucket
from acidlib.orc.columns import Longs, Mask
from acidlib.orc.schema import acid_tree
from acidlib.orc.writer import FileOptions
from acidlib.points import Point, reach
from acidlib.rewrite.bucket import (
    AlignedFile,
    bucket_file,
    check_calendar,
    container_difference,
    count_set,
    delete_events,
    open_rows,
    planned_inputs,
    planned_result,
    result_columns,
    result_row,
)
from acidlib.rewrite.output import InputStripe, file_options, input_stripe, plan_actions, result_of_actions, row_counts
from acidlib.rewrite.recode import KeptRows, may_be_spliced
from acidlib.rows.deletes import read_deletes
from acidlib.rows.files import InputFiles, OpenInput, memory_of, open_inputs
from acidlib.rows.row_ids import Ids, Keys, StripeKeys, kept_mask, row_masks

Runs = NDArray[np.void]
_FIELDS = (
    *("source", "file", "stripe", "first", "rows"),
    *("write_id", "bucket", "first_id", "last_id"),
    *("live", "live_from", "live_to"),
)
RUN = np.dtype([(name, np.int64) for name in _FIELDS])
"""A run.

source, file, stripe  numbers of its bucket, of a file with rows among those of the bucket, of a stripe in that file
first, rows           number of the first row in the stripe, and number of rows
write_id, bucket      write id and bucket property of its rows
first_id, last_id     the lowest and the highest row id
live                  number of rows that are neither deleted nor aborted
live_from, live_to    the live rows that go into the bucket of the result: all or, at the edges of that, a part
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBucket:
    """The contents of a bucket before a rebalance.

    inputs   its files with rows, by the numbers that runs have for them
    planned  counts of the files and delete events that were read, and notes
    """

    unit: Unit
    inputs: tuple[AlignedFile, ...]
    runs: Runs
    planned: UnitResult


def find_runs(unit: Unit, source: int, data: DataFiles) -> SourceBucket:
    """Return the runs of a bucket, in the order of its files; `source` is its number among those of its place.

    Raises RefusedError or CorruptError for rows that cannot be rewritten.
    """
    files = InputFiles(unit.location, data)
    events = delete_events(unit, files)
    deleted = events.deleted_keys()
    every = [np.zeros(0, dtype=RUN)]
    with open_rows(unit, files) as inputs:
        for number, file in enumerate(inputs.files):
            for stripe, facts in enumerate(file.tail.stripes):
                if facts.rows:
                    keys = StripeKeys(file, stripe)
                    keys.check()
                    runs = _runs_of(keys, deleted, unit.write_ids)
                    keys.forget()
                    runs["source"], runs["file"], runs["stripe"] = source, number, stripe
                    every.append(runs)
        planned = planned_result(unit, inputs, (), events)
    return SourceBucket(unit=unit, inputs=inputs.aligned(), runs=np.concatenate(every), planned=planned)


def _runs_of(keys: StripeKeys, deleted: Keys, write_ids: ValidWriteIdList) -> Runs:
    """Return the runs of a stripe."""
    deleted_rows, aborted = row_masks(keys, deleted, write_ids)
    bounds = keys.known_range()
    if bounds is not None and bounds[0][:2] == bounds[1][:2] and deleted_rows is None and aborted is None:
        low, high = bounds
        return np.array([(0, 0, 0, 0, keys.rows, *low, high[2], keys.rows, 0, 0)], dtype=RUN)
    ids, _ = keys.ids()
    if not ids.ascending():
        raise RefusedError(f"Cannot rebalance {keys.where}: its keys do not ascend")
    changes = (ids.write_ids[1:] != ids.write_ids[:-1]) | (ids.buckets[1:] != ids.buckets[:-1])
    first = np.flatnonzero(np.concatenate(([True], changes)))
    ends = np.append(first[1:], keys.rows)
    keep = kept_mask(deleted_rows, aborted)
    runs = np.zeros(len(first), dtype=RUN)
    runs["first"], runs["rows"] = first, ends - first
    runs["write_id"], runs["bucket"] = ids.write_ids[first], ids.buckets[first]
    runs["first_id"], runs["last_id"] = ids.row_ids[first], ids.row_ids[ends - 1]
    runs["live"] = ends - first if keep is None else np.add.reduceat(keep, first, dtype=np.int64)
    return runs


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceUnit:
    """One bucket file of a rebalance to make, from rows of any buckets.

    unit       of the result; its inputs are the files of its rows
    inputs     the same files, by the numbers that the runs have for them
    deletes    for each bucket of the inputs the files that may hold its delete events
    runs       in the order of their rows in the result; `file` is a number among `inputs` alone
    first_row  row id of the first row, from which row ids are counted on
    length     input bytes, about
    sources    counts and notes of all buckets before, which one unit reports for the others too
    """

    unit: Unit
    inputs: tuple[AlignedFile, ...]
    deletes: Mapping[int, tuple[DataFile, ...]]
    runs: Runs
    first_row: int
    length: int
    sources: tuple[UnitResult, ...] = ()

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

    def ids(self, start: int, rows: int) -> Ids:
        """Return keys and currentTransaction of a number of rows of the result, from the row `start` on."""
        ends = np.cumsum(self.runs["live_to"] - self.runs["live_from"])
        counts = np.diff(np.clip(ends, start, start + rows), prepend=start)
        write_ids = np.repeat(self.runs["write_id"], counts)
        keys = Keys.sequence(0, encode_bucket(self.unit.bucket), self.first_row + start, rows)
        return replace(keys, write_ids=write_ids), write_ids


def distribute_rows(sources: Sequence[SourceBucket], buckets: int, *, directory: str) -> tuple[RebalanceUnit, ...]:
    """Return the buckets of the result; none where no row is left.

    Rows are dealt in the order of write id, bucket property and row id. Each bucket gets the number of all rows by the
    number of `buckets`, rounded up (Hive 4 `CompactionQueryBuilderForRebalance`); the last ones may get fewer, or none.
    Raises CorruptError where the rows of two stripes interleave, or have the same ids.
    """
    if not 0 < buckets <= MAX_BUCKET + 1:
        raise RefusedError(
            f"Cannot rebalance {sources[0].unit.location}: it would have {buckets} buckets, and a table has 1 "
            f"to {MAX_BUCKET + 1}"
        )
    runs = _in_order(sources)
    ends = np.cumsum(runs["live"])
    starts = ends - runs["live"]
    rows = int(ends[-1]) if len(ends) else 0
    if not rows:
        return ()
    share = -(-rows // buckets)
    firsts = np.arange(0, rows, share, dtype=np.int64)
    # a run without live rows goes with the run before it, so that it is in one bucket
    lows = np.searchsorted(ends, firsts, side="right")
    lows[0] = 0
    units = []
    for number, (first, low) in enumerate(zip(firsts, lows, strict=True)):
        end, high = min(int(first) + share, rows), len(runs)
        if number + 1 < len(lows):
            high = int(lows[number + 1])
            high += int(starts[high] < end)
        own = runs[low:high].copy()
        own["live_from"] = np.clip(first - starts[low:high], 0, own["live"])
        own["live_to"] = np.clip(end - starts[low:high], 0, own["live"])
        units.append(_unit(sources, number, directory, own, int(first)))
    return (replace(units[0], sources=tuple(source.planned for source in sources)), *units[1:])


def _in_order(sources: Sequence[SourceBucket]) -> Runs:
    """Return the runs of all buckets in the order of their ids."""
    runs = np.concatenate([source.runs for source in sources])
    runs = runs[np.lexsort((runs["first_id"], runs["bucket"], runs["write_id"]))]
    before, after = runs[:-1], runs[1:]
    same = (before["write_id"] == after["write_id"]) & (before["bucket"] == after["bucket"])
    wrong = np.flatnonzero(same & (after["first_id"] <= before["last_id"]))
    if len(wrong):
        stripes = []
        for run in runs[int(wrong[0]) :][:2]:
            source = sources[int(run["source"])]
            file, _ = source.inputs[int(run["file"])]
            stripes.append(f"stripe {run['stripe']} of {source.unit.location}/{file.path}")
        raise CorruptError(f"Cannot rebalance {stripes[1]}: its row ids interleave with those of {stripes[0]}")
    return runs


def _unit(sources: Sequence[SourceBucket], bucket: int, directory: str, runs: Runs, first_row: int) -> RebalanceUnit:
    """Return the unit of a bucket of the result; write the numbers of its inputs into the runs."""
    pairs, numbers = np.unique(np.stack((runs["source"], runs["file"]), axis=1), axis=0, return_inverse=True)
    runs["file"] = numbers.reshape(-1)
    rows = runs["live_to"] - runs["live_from"]
    inputs, length = [], 0
    for number, (source, file) in enumerate(pairs.tolist()):
        inputs.append(sources[source].inputs[file])
        before = sources[source].runs
        live = int(before["live"][before["file"] == file].sum())
        length += inputs[-1][0].length * int(rows[runs["file"] == number].sum()) // max(1, live)
    used = dict.fromkeys(source for source, _ in pairs.tolist())
    unit = replace(
        sources[0].unit,
        directory=directory,
        bucket=bucket,
        inputs=tuple(file for file, _ in inputs),
        deletes=(),
        keep_empty=False,
    )
    return RebalanceUnit(
        unit=unit,
        inputs=tuple(inputs),
        deletes={sources[source].unit.bucket: sources[source].unit.deletes for source in used},
        runs=runs,
        first_row=first_row,
        length=length,
    )


def run_rebalance(rebalanced: RebalanceUnit, data: DataFiles, path: str | None) -> UnitResult:
    """Make the file at `path`, which must not exist; with `path` None only plan it. Raises as `run_unit` does."""
    unit = rebalanced.unit
    files = InputFiles(unit.location, data)
    with planned_inputs(dict(enumerate(rebalanced.inputs)), files) as inputs:
        tails = [file.tail for file in inputs.values()]
        root, memory = acid_tree(result_row(unit, files)), memory_of(inputs.values())
        options = file_options(root, tails, unit.reader, unit.settings, memory)
        chosen = _ChosenRows(rebalanced, inputs, files, options)
        spans = chosen.spans()
        actions, options = plan_actions(spans, options, unit.settings, unit.reader)
        result = replace(
            result_of_actions(unit, actions, list(inputs.values())),
            events_in=sum(source.events_in for source in rebalanced.sources),
            events_aborted=sum(source.events_aborted for source in rebalanced.sources),
            duplicate_events=sum(source.duplicate_events for source in rebalanced.sources),
            empty_files=tuple(dict.fromkeys(file for source in rebalanced.sources for file in source.empty_files)),
            notes=tuple(dict.fromkeys(note for source in rebalanced.sources for note in source.notes)),
        )
        dealt = int((rebalanced.runs["live_to"] - rebalanced.runs["live_from"]).sum())
        if result.rows_out != dealt:
            raise CorruptError(
                f"Cannot publish {unit.directory}/{unit.file_name}: {result.rows_out} rows were planned of "
                f"{dealt}; nothing was changed"
            )
        if path is None:
            return result
        by_start = {(span.facts.file, span.facts.number, span.facts.first): span for span in spans if span.facts.kept}
        with bucket_file(data, path, unit, options, row_counts(actions), expected=rebalanced.ids) as bucket:
            row = 0
            for action in actions:
                kept = (facts for facts in action.stripes if facts.kept)
                members = [by_start[facts.file, facts.number, facts.first] for facts in kept]
                rows = sum(span.facts.kept for span in members)
                ids = rebalanced.ids(row, rows)
                row += rows
                if action.copy:
                    bucket.copy(members[0], ids)
                elif members:
                    parts, order = chosen.parts(members, ids)
                    bucket.write_rows(parts, members[0].facts.timezone, (ids[0].key(0), ids[0].key(-1)), order)
                reach(Point.WRITTEN)
    reach(Point.PROVED)
    return replace(result, path=path, length=bucket.length)


_StripeName = tuple[int, int]
"""The number of an open file and of a stripe in it."""


class _ChosenRows:
    """The rows of input stripes that go into a bucket of the result."""

    def __init__(
        self, rebalanced: RebalanceUnit, inputs: Mapping[int, OpenInput], files: InputFiles, options: FileOptions
    ) -> None:
        self._unit, self._inputs, self._options = rebalanced, inputs, options
        # the deleted rows of each bucket, at least those in the stripes that are read
        self._deleted: dict[int, Keys] = {}
        names = np.unique(rebalanced.runs[["file", "stripe"]]).tolist()
        stripes = [StripeKeys(inputs[file], stripe) for file, stripe in names]
        for bucket, deletes in rebalanced.deletes.items():
            near = [stripe.key_range() for stripe in stripes if deletes and stripe.file.file.bucket == bucket]
            with open_inputs(deletes, files) as opened:
                events = read_deletes(opened, bucket, rebalanced.unit.write_ids, near)
            self._deleted[bucket] = events.deleted_keys()
        self._stripes: dict[_StripeName, InputStripe] = {}
        # of each stripe the rows that stay, None where all do; and the aborted rows, None where there are none
        self._masks: dict[_StripeName, tuple[Mask | None, Mask | None]] = {}

    def spans(self) -> list[InputStripe]:
        """Return the rows in their order as parts of stripes; neighbouring runs of a stripe are in one part."""
        ranges: list[tuple[_StripeName, int, int, int]] = []
        for run in self._unit.runs:
            name = int(run["file"]), int(run["stripe"])
            if name not in self._stripes:
                keys = StripeKeys(self._inputs[name[0]], name[1])
                check_calendar(keys, self._options)
                no_copy: str | None = "columns that cannot be copied as they are"
                if may_be_spliced(keys):
                    no_copy = container_difference(keys.file.tail, self._options, statistics_true=True)
                columns = result_columns(keys.file, self._options, new_ids=True)
                self._stripes[name] = input_stripe(
                    keys, self._options, name[0], columns, no_copy=no_copy, changes="new row ids"
                )
            start, end = self._bounds(name, run)
            live = int(run["live_to"] - run["live_from"])
            if ranges and ranges[-1][0] == name:  # and next to it: between them there is no other run
                _, start, _, before = ranges.pop()
                live += before
            ranges.append((name, start, end, live))
        spans = [self._span(*bounds) for bounds in ranges]
        self._masks.clear()
        return spans

    def _bounds(self, name: _StripeName, run: Any) -> tuple[int, int]:
        """Return the rows of a run that are taken, as a range in their stripe; dropped rows at its ends included."""
        first, rows, live = int(run["first"]), int(run["rows"]), int(run["live"])
        low, high = int(run["live_from"]), int(run["live_to"])
        if live == rows:
            return first + low, first + high
        keep, _ = self._masks_of(name)
        stays = np.flatnonzero(keep[first : first + rows]) if keep is not None else np.arange(rows)
        if len(stays) != live:
            raise self._miscounted(name, f"{len(stays)} rows stay of {rows}, and {live} were counted")
        start = first if low == 0 else first + int(stays[low])
        return start, first + rows if high == live else first + int(stays[high])

    def _masks_of(self, name: _StripeName) -> tuple[Mask | None, Mask | None]:
        """Return the rows of a stripe that stay, None where all do, and the aborted rows, None where there are none."""
        if name not in self._masks:
            keys = self._stripes[name].keys
            deleted, aborted = row_masks(keys, self._deleted[keys.file.file.bucket], self._unit.unit.write_ids)
            self._masks[name] = kept_mask(deleted, aborted), aborted
            keys.forget()
        return self._masks[name]

    def _span(self, name: _StripeName, start: int, end: int, live: int) -> InputStripe:
        """Return a range of rows of a stripe as a stripe of its own, of which so many stay."""
        stripe, rows = self._stripes[name], end - start
        whole = stripe.facts
        aborted = 0
        if live < rows:
            _, mask = self._masks_of(name)
            aborted = 0 if mask is None else count_set(mask[start:end])
        facts = replace(
            whole,
            first=start,
            rows=rows,
            length=max(1, whole.length * rows // whole.rows),
            decoded=whole.decoded * rows // whole.rows,
            deleted=rows - live - aborted,
            aborted=aborted,
            no_copy=whole.no_copy if rows == whole.rows else "a part of a stripe",
        )
        return replace(stripe, facts=facts)

    def parts(self, members: Sequence[InputStripe], ids: Ids) -> tuple[list[KeptRows], Longs | None]:
        """Return the rows of spans, stripe by stripe, with their new ids, and their order as for `encode_rows`."""
        keys, current = ids
        by_stripe: dict[_StripeName, list[InputStripe]] = {}
        targets: dict[_StripeName, list[Longs]] = {}
        end = 0
        for span in members:
            name = span.facts.file, span.facts.number
            start, end = end, end + span.facts.kept
            by_stripe.setdefault(name, []).append(span)
            targets.setdefault(name, []).append(np.arange(start, end, dtype=np.int64))
        parts = []
        for name, spans in by_stripe.items():
            own = np.concatenate(targets[name])
            parts.append(
                KeptRows(
                    stripe=self._stripes[name].keys,
                    keep=self._chosen(name, spans),
                    keys=keys.select(own),
                    current=current[own],
                )
            )
        last = members[-1].facts.file, members[-1].facts.number
        self._masks = {name: masks for name, masks in self._masks.items() if name == last}
        if len(by_stripe) == len(members):
            return parts, None
        target = np.concatenate([rows for own in targets.values() for rows in own])
        order = np.empty(len(target), dtype=np.int64)
        order[target] = np.arange(len(target), dtype=np.int64)
        return parts, order

    def _chosen(self, name: _StripeName, spans: Sequence[InputStripe]) -> Mask | None:
        """Return for each row of a stripe whether it is in the spans and stays; None where all rows are."""
        rows, live = self._stripes[name].facts.rows, sum(span.facts.kept for span in spans)
        if live == rows:
            return None
        chosen = np.zeros(rows, dtype=np.bool_)
        for span in spans:
            chosen[span.facts.first : span.facts.first + span.facts.rows] = True
        if live < sum(span.facts.rows for span in spans):
            keep, _ = self._masks_of(name)
            if keep is not None:
                chosen &= keep
        if int(np.count_nonzero(chosen)) != live:
            raise self._miscounted(name, f"{np.count_nonzero(chosen)} rows are chosen, and {live} were counted")
        return chosen

    def _miscounted(self, name: _StripeName, counts: str) -> CorruptError:
        return CorruptError(f"Cannot rebalance {self._stripes[name].keys.where}: {counts}")
