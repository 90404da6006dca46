"""Rows whose structs are null, on any level and the row itself, keep their values where a rebalance puts them.

A null struct has no values in the columns below it: a row's place among the values is another in each column.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyorc
import pytest
from compaction import MAJOR, REBALANCE, bucket_files, compact_directory
from conformance.checks import statistics_problems
from judges import orc_tail as o
from judges.merge import bucket_property
from judges.tables import Event, Layout, inserts, write_dir
from judges.values import canonical, open_orc
from rebalancing import renumbered

from acidlib.acid.names import Generation
from acidlib.model.units import RewriteSettings

NARROW = (
    "id:int,s:struct<a:int,t:struct<b:string,c:struct<e:bigint>>>,l:array<struct<k:int,v:struct<w:string>>>,"
    "m:map<string,struct<x:double,n:array<int>>>,o:struct<p:int>"
)
# the file of each write id by itself has no null of the union, and none above it: pyorc writes such wrongly
WIDE = f"{NARROW},u:uniontype<int,struct<y:string,z:struct<q:int>>>"
WRITE_IDS = "default.t:6:9223372036854775807::"


def full(n: int) -> tuple[Any, ...]:
    """A row without a null."""
    return (
        n,
        (n * 3, (f"b{n}", (n << 33,))),
        [(n + i, (f"w{n}.{i}",)) for i in range(n % 3)],
        {f"k{i}": (n / 3 + i, [n, i]) for i in range(n % 4)},
        (n % 5,),
    )


def holed(n: int) -> tuple[Any, ...] | None:
    """A row with null structs on all levels, in other rows on each; some rows are null themselves."""
    if n % 7 in (2, 3):
        return None
    inner = None if n % 3 == 1 else (f"b{n}", None if n % 5 < 2 else (n << 33,))
    items = None if n % 8 == 5 else [None if (n + i) % 3 == 0 else (n + i, None if i else ("w",)) for i in range(n % 4)]
    pairs = None if n % 9 == 4 else {f"k{i}": None if (n + i) % 2 else (None, [n, None]) for i in range(n % 3)}
    return (n, None if n % 4 == 0 else (None if n % 11 == 0 else n, inner), items, pairs, None if n % 6 else (n,))


def joined(n: int) -> tuple[Any, ...]:
    """A row without a null, of the columns with a union."""
    return (*full(n), n if n % 3 else (f"y{n}", None if n % 2 else (n,)))


def events_of(tmp_path: Path, writers: int) -> list[Event]:
    """A delta of each kind of rows, and again, as several writers made them; all events, in no order."""
    found: list[Event] = []
    for write_id, (row, columns) in enumerate(((full, NARROW), (holed, NARROW), (joined, WIDE)) * 2, start=1):
        events: list[Event] = []
        for writer in range(writers):
            numbers = range(write_id * 1000 + writer * 100, write_id * 1000 + writer * 100 + 23 + writer)
            events += inserts(write_id, [row(n) for n in numbers], writer=writer)
        layout = Layout(stride=4 if write_id % 2 else 5)
        write_dir(tmp_path, f"delta_{write_id:07d}_{write_id:07d}_0000", f"struct<{columns}>", events, layout)
        found += events
    return found


def wanted(events: list[Event]) -> list[tuple[Any, ...]]:
    """Their ids and rows, as pyorc gives them back."""
    kind = pyorc.TypeDescription.from_string(f"struct<{WIDE}>")
    width = len(kind.fields)
    rows = [(*e[1:4], None if e[5] is None else (*e[5], *[None] * (width - len(e[5])))) for e in events]
    return [(*ids, canonical(row, kind)) for *ids, row in rows]


def read(path: Path) -> list[tuple[Any, ...]]:
    """All rows by pyorc, which has to find each row group by the index, too."""
    reader, tail = open_orc(path), o.read_orc(path)
    kind, rows, first = reader.schema, list(reader), 0
    for stripe in tail.stripes:
        for start in range(first, first + stripe.rows, tail.stride):
            group = rows[start : min(start + tail.stride, first + stripe.rows)]
            reader.seek(start)
            assert [next(reader) for _ in group] == group, start
        first += stripe.rows
    return [canonical(row, kind) for row in rows]


# the largest stripes before (None: rows lie in their deltas, each stripe of one write id) and after, and new buckets
CASES = {
    "whole stripes and their parts": (None, 2500, 2),
    # one stripe in each bucket, of all write ids: its rows come to stand between those of the other buckets
    "out of one stripe": (64 << 20, 64 << 20, 1),
    # a stripe of each write id
    "out of stripes": (2500, 64 << 20, 2),
    "out of stripes into others": (2500, 4000, 2),
}


@pytest.mark.parametrize(("before", "after", "buckets"), CASES.values(), ids=CASES)
def test_null_structs_stay_with_their_rows(tmp_path: Path, before: int | None, after: int, buckets: int) -> None:
    events = events_of(tmp_path, 3)
    if before is not None:
        settings = RewriteSettings(copy_bytes=1 << 40, stripe_bytes=before, stride=4)
        compact_directory(tmp_path, MAJOR, WRITE_IDS, Generation.HIVE4, 80, settings=settings)
    settings = RewriteSettings(copy_bytes=1 << 40, stripe_bytes=after, stride=4)
    made = compact_directory(tmp_path, REBALANCE, WRITE_IDS, Generation.HIVE4, 90, settings=settings, buckets=buckets)
    paths = bucket_files(tmp_path, made.directories)
    expected = renumbered(wanted(events), buckets)
    copied = any(result.stripes_copied for result in made.results)
    for bucket, path in enumerate(paths):
        rows = [(0, *ids, ids[0], row) for *ids, row in expected if ids[1] == bucket_property(bucket, 0)]
        assert read(path) == rows
        assert statistics_problems(path, 4, copied=copied) == []
    assert len(paths) == buckets
