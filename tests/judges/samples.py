"""One wide table of many types, in files with several row groups; small tables of any types."""

from __future__ import annotations

import functools
import random
from typing import Any

import pyorc

from judges import orc_tail as o
from judges import random_orc, tables
from judges.tables import Layout

WIDE = (
    "struct<id:int,big:bigint,small:smallint,tiny:tinyint,s:string,v:varchar(9),c:char(6),d:double,f:float,"
    "n:decimal(20,4),w:decimal(12,2),ts:timestamp,z:timestamp with local time zone,day:date,ok:boolean,bin:binary,"
    "li:array<int>,m:map<string,bigint>,st:struct<x:int,y:string>>"
)


def wide_row(i: int, rng: random.Random) -> tuple[Any, ...]:
    """Row ``i`` of the sample table, raw values."""
    null = i % 11 == 3
    cents = rng.randrange(-(10**8), 10**8)
    moment = (1_500_000_000 + i * 61, rng.randrange(10**9))
    return (
        i,
        (i - 500) * 10**12,
        None if null else i % 30_000 - 5000,
        i // 20 - 50,
        None if null else f"name {i // 7:06d} é" + "x" * (i % 5),
        f"v{i % 13}",
        f"{chr(97 + i // 50)}x".ljust(6),
        i / 3 - 100,
        float(i % 512) + 0.5,
        f"{'-' if cents < 0 else ''}{abs(cents) // 10**4}.{abs(cents) % 10**4:04d}",
        None if null else f"{i}.25",
        moment,
        None if null else moment,
        17_000 + i // 10,
        i % 3 == 0,
        bytes([i % 256, 7]),
        None if null else [i, None, i + 1][: i % 4],
        {f"k{i}": i},
        None if null else (i, f"y{i}"),
    )


@functools.cache
def wide_file(compression: str, rows: int = 1000, **layout: Any) -> bytes:
    """An ACID file of write id 7 with row groups of 125 rows; ``layout``: other fields of tables.Layout."""
    rng = random.Random(5)
    events = tables.inserts(7, [wide_row(i, rng) for i in range(rows)])
    return tables.acid_bytes(WIDE, events, tables.Layout(compression=compression, stride=125, **layout))


def column_of(orc: o.OrcFile, name: str) -> int:
    """The column id of a table column in an ACID file."""
    row = orc.types[orc.types[0].children[5]]
    return row.children[row.names.index(name)]


def any_rows(rng: random.Random, columns: str, most: int, *, least: int = 0) -> tuple[Any, ...]:
    """A few rows of any values, as pyorc writes them."""
    kind = pyorc.TypeDescription.from_string(columns)
    return tuple(random_orc.raw(row, kind) for row in random_orc.rows(rng, columns, rng.randint(least, most)))


def any_layout(rng: random.Random) -> Layout:
    """Small stripes and row groups, all compressions; dictionaries or not."""
    return Layout(
        compression=rng.choice(list(tables.KINDS)),
        stripe_size=rng.choice((1, 64 << 20)),
        stride=rng.choice((2, 3, 10_000)),
        batch=rng.choice((2, 5, 1024)),
        dictionary=rng.choice((0.0, 1.0)),
    )
