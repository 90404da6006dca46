"""The rows of a place as runs, and how a rebalance shares them out among buckets.

A run are neighbours in one stripe that have write id and bucket property in common. All rows of one such pair lie in
one bucket, so that the order of all rows of all buckets, which is that of their ids, is an order of whole runs: what is
planned needs no single row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.location import Location
from acidlib.model.rowid import MAX_BUCKET
from acidlib.model.units import DataFile, Unit, UnitResult
from acidlib.orc.column import Longs
from acidlib.orc.source import DataFiles
from acidlib.rewrite.inputs import InputFiles
from acidlib.rewrite.keys import Keys
from acidlib.rewrite.parts import PlannedInput
from acidlib.rewrite.rows import kept_rows, row_masks
from acidlib.rewrite.stripe_keys import StripeKeys
from acidlib.rewrite.unit import delete_set, open_bucket, planned_result


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


_NONE: Longs = np.zeros(0, dtype=np.int64)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsLook:
    """A bucket whose runs are to be found; `number` among all of its place."""

    unit: Unit
    number: int


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


def find_runs(look: RunsLook, data: DataFiles) -> SourceBucket:
    """The runs of a bucket, in the order of its files. RefusedError or CorruptError for what cannot be rewritten."""
    unit, place = look.unit, InputFiles(look.unit.location, data)
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
                runs, dropped, aborted = _runs_of(keys, deleted, unit, (look.number, number, stripe))
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


def shared_out(sources: Sequence[SourceBucket], buckets: int, *, directory: str) -> tuple[RebalanceUnit, ...]:
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
