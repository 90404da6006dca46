"""Tables whose files Java's own ORC writer made, in many ways, and their rows as Java reads them."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges import java_files
from judges.java_files import Options
from judges.java_orc import JavaOrc
from judges.merge import bucket_property
from judges.tables import Event, deletes, delta_name, inserts

COLUMNS = (
    "struct<id:int,ok:boolean,tiny:tinyint,small:smallint,big:bigint,f:float,d:double,s:string,v:varchar(7),c:char(5),"
    "b:binary,n:decimal(9,2),w:decimal(38,10),ts:timestamp,ti:timestamp with local time zone,day:date,"
    "li:array<struct<x:int,y:array<string>>>,m:map<string,struct<p:bigint,q:map<int,double>>>,"
    "u:uniontype<int,string,struct<x:int,y:timestamp>>,nu:array<uniontype<bigint,array<int>>>,"
    "same:string,none:string,late:int>"
)
BLOOM = "id,big,d,s,c,n,w,ts,day"

BASE_ROWS, SECOND_ROWS, ABORTED_ROWS, FOURTH_ROWS = 1300, 250, 40, 60
STRIPE_ROWS = 1024
DELETED_OF_BASE = range(STRIPE_ROWS, BASE_ROWS, 9)
"""Only in the second stripe of a base with stripes of STRIPE_ROWS."""
DELETED_OF_SECOND = (0, 1, 2, 100, SECOND_ROWS - 1)
VISIBLE_ROWS = BASE_ROWS + SECOND_ROWS + FOURTH_ROWS + 40 - len(DELETED_OF_BASE) - len(DELETED_OF_SECOND)

Visible = list[tuple[int, int, int, str]]


def real(value: float) -> str:
    """A double in canonical form."""
    return "f:" + struct.pack(">d", value).hex()


def single(value: float) -> str:
    """A float in canonical form: the double nearest to it that a float can hold."""
    return real(struct.unpack(">f", struct.pack(">f", value))[0])


def row(i: int, total: int) -> tuple[Any, ...]:
    """A row of COLUMNS in canonical form: nulls at every level, empty strings and collections, odd floats."""
    rng = random.Random(i)
    null = i % 11 == 3
    text = rng.choice(["", "é", "x" * 20, f"word {i % 40}"])
    # no null inside a union: pyorc shows it as a null union
    struct_value = (None if i % 8 == 2 else i, None if i % 3 else f"t:{i * 1000}:{i}")
    union = (("u", 0, i), ("u", 1, f"s:{text}"), ("u", 2, struct_value), None)[i % 4]
    return (
        i,
        None if null else i % 3 == 0,
        i % 256 - 128,
        None if null else rng.randrange(-(2**15), 2**15),
        None if null else (i - 600) * 10**12 + rng.randrange(1000),
        single(i / 7),
        (real(-0.0), real(float("nan")) if i < 40 else real(1e300), real(i / 3 - 100))[min(i % 50, 2)],
        f"s:{text}",
        None if null else f"s:v{i % 13}",
        f"s:{chr(97 + i // 200)}",
        None if null else "b:" + rng.randbytes(i % 5).hex(),
        f"n:{i}.{i % 2 * 25 or 5}" if i else "n:0",
        f"n:{rng.randrange(-(10**27), 10**27)}.{rng.randrange(1, 10)}" if i % 6 else f"n:{i + 1}",
        None if null else f"t:{1_400_000_000 + i * 86_413}:{rng.choice([0, 1000, 123_456_789])}",
        f"t:{i * 7000 - 3_000_000}:{i % 3}",
        None if null else f"d:{i * 3 - 1500}",
        None if i % 5 == 0 else tuple(None if k == 1 else (k, None if k else (f"s:{i}", None)) for k in range(i % 4)),
        None if null else ((f"s:k{i % 6}", None if i % 4 == 1 else (i, ((i, real(i)), (0, None))[: i % 3])),),
        union,
        None if null else (("u", 0, i), None, ("u", 1, (i, None)), ("u", 1, ()))[: i % 5],
        "s:same",
        None,
        None if i % total >= total - 20 else i,
    )


def rows(first: int, count: int) -> list[tuple[Any, ...]]:
    """Rows of one file; the last of them have a null in `late`."""
    return [row(i, first + count) for i in range(first, first + count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A table on disk."""

    location: Path
    aborted: frozenset[int]
    write_ids: str

    @property
    def before(self) -> list[Path]:
        """Its directories with ACID files."""
        return sorted(path for path in self.location.iterdir() if path.is_dir())


def write_table(java: JavaOrc, location: Path, base: Options, *others: Options, original: bool = False) -> Written:
    """A base (or original files), inserts, deletes, and aborted inserts and deletes; the options by turns.

    Bucket 1 has nothing but a few inserted rows.
    """
    options = others or (base,)
    base_id = 0 if original else 1
    first = rows(0, BASE_ROWS)
    if original:
        java_files.write_orc(java, location / "000000_0", COLUMNS, first[:STRIPE_ROWS], base)
        java_files.write_orc(java, location / "000000_0_copy_1", COLUMNS, first[STRIPE_ROWS:], base)
    else:
        java_files.write_dir(java, location, "base_0000001", COLUMNS, inserts(1, first), base)
    second = inserts(2, rows(BASE_ROWS, SECOND_ROWS)) + inserts(2, rows(100, 40), writer=1)
    gone = [(base_id, bucket_property(0, 0), i) for i in DELETED_OF_BASE]
    gone += [(2, bucket_property(0, 0), i) for i in DELETED_OF_SECOND]
    for number, (write_id, delete, events) in enumerate(
        (
            (2, False, second),
            (3, False, inserts(3, rows(0, ABORTED_ROWS))),
            (4, False, inserts(4, rows(BASE_ROWS + SECOND_ROWS, FOURTH_ROWS))),
            (5, True, deletes(5, gone)),
            (6, True, deletes(6, [(base_id, bucket_property(0, 0), i) for i in range(50)])),
        )
    ):
        name = delta_name(write_id, write_id, delete=delete)
        java_files.write_dir(java, location, name, COLUMNS, events, options[number % len(options)])
    return Written(location=location, aborted=frozenset({3, 6}), write_ids="default.t:6:9223372036854775807::3,6")


def visible(
    java: JavaOrc,
    directories: Iterable[Path],
    aborted: Iterable[int] = (),
    *,
    zone: str = "",
    location: Path | None = None,
) -> Visible:
    """What a reader sees in some directories, and in the original files of a location, all read by Java.

    Sorted (write id, bucket property, row id, row as Java's text). `zone`: as a reader in that time zone shows it.
    """
    found: Visible = []
    gone: set[tuple[int, int, int]] = set()
    ignored = set(aborted)
    for directory in directories:
        for path in sorted(directory.glob("bucket_*")):
            for line in java.dump_in_zone(path, zone) if zone else java.dump(path):
                *numbers, text = line[1:-1].split(",", 5)
                operation, write_id, bucket, row_id, current = map(int, numbers)
                if current in ignored:
                    continue
                if operation == 2:
                    gone.add((write_id, bucket, row_id))
                else:
                    found.append((write_id, bucket, row_id, text))
    if location is not None:
        originals = sorted(path for path in location.iterdir() if path.is_file() and path.name[0] == "0")
        lines = [line for path in originals for line in java.dump(path)]
        found += [(0, bucket_property(0, 0), i, line) for i, line in enumerate(lines)]
    return sorted(item for item in found if item[:3] not in gone)


def one_delta_each(
    java: JavaOrc, location: Path, columns: str, batches: Iterable[tuple[list[Any], Options]], *, delete: bool = True
) -> list[Path]:
    """A delta per batch of rows with its options, and if wanted one delete of the second row of each."""
    made, gone = [], []
    for write_id, (batch, options) in enumerate(batches, 1):
        events: list[Event] = inserts(write_id, batch)
        made.append(java_files.write_dir(java, location, delta_name(write_id, write_id), columns, events, options))
        gone.append((write_id, bucket_property(0, 0), 1))
    if delete:
        last = len(made) + 1
        events = deletes(last, gone)
        made.append(java_files.write_dir(java, location, delta_name(last, last, delete=True), columns, events, options))
    return made
