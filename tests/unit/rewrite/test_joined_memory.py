"""Stripes are joined as far as the memory of a task goes: highly compressible text is next to no bytes in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from compaction import MAJOR, MINOR, REBALANCE, bucket_files, compact_directory, join_plain_files
from judges import merge, mutants, tables
from judges import orc_tail as o

from acidlib.acid.names import Generation
from acidlib.errors import RefusedError
from acidlib.memory import Memory
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from acidlib.stores.stores import Stores

ROWS, LENGTH, DELTAS = 1000, 1000, 8
HELD = ROWS * (LENGTH + 10)
"""Bytes of a delta's texts once they are decoded, with their lengths; in a file they are some kilobytes."""

SAME, OTHER = tables.Layout(dictionary=1.0), tables.Layout(dictionary=0.0)
COLUMNS = {
    "text": ("struct<n:int,s:string>", lambda text: (7, text)),
    "bytes": ("struct<b:binary>", lambda text: (text.encode(),)),
    "nested": ("struct<a:array<struct<m:map<string,int>>>>", lambda text: ([({text: 1},)],)),
}


def texts(number: int, *, alike: bool) -> list[str]:
    """Texts of a delta: of one or ten entries, or each another one."""
    return [f"{number + row % 10 if alike else number * ROWS + row:0{LENGTH}d}" for row in range(ROWS)]


def build(location: Path, columns: str = "text", alike: str = "no") -> tables.Built:
    """A table of deltas whose texts are kept in dictionaries, or not, or in turns."""
    schema, row = COLUMNS[columns]
    transactions, layouts = [], []
    for number in range(DELTAS):
        has_dictionary = alike == "yes" or (alike == "in turns" and number % 2 == 0)
        rows = tuple(map(row, texts(number, alike=has_dictionary)))
        transactions.append(tables.Transaction(inserts=rows))
        layouts.append(SAME if has_dictionary else OTHER)
    return tables.build(location, schema, transactions, layouts=layouts)


def stripe_rows(path: Path) -> list[int]:
    return [stripe.rows for stripe in o.read_orc(path.read_bytes()).stripes]


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("alike", ["no", "yes", "in turns"])
@pytest.mark.parametrize("kind", [MAJOR, MINOR, REBALANCE], ids=lambda kind: kind.value)
@pytest.mark.pairs
def test_stripes_are_joined_as_far_as_their_memory_goes(
    tmp_path: Path, kind: CompactionType, alike: str, columns: str
) -> None:
    built = build(tmp_path / "t", columns, alike)
    stores = Stores(memory=Memory(5 * HELD))
    done = compact_directory(
        built.location, kind, built.write_ids, generation=Generation.HIVE4, stores=stores, buckets=1
    )
    (made,) = bucket_files(built.location, done.directories)
    assert stripe_rows(made) == [2 * ROWS] * (DELTAS // 2)
    rows = merge.read(built.location, built.write_ids, generation=4, hidden_txns=frozenset(), strict=True)
    assert [row[3:] for row in sorted(rows)] == [row[3:] for row in built.expected]


def test_files_without_row_ids_are_joined_so_too(tmp_path: Path) -> None:
    schema, row = COLUMNS["text"]
    files = []
    for number in range(DELTAS):
        files.append(tmp_path / f"00000{number}_0")
        files[-1].write_bytes(tables.orc_bytes(schema, map(row, texts(number, alike=False))))
    made = tmp_path / "made"
    join_plain_files(files, made, settings=RewriteSettings(), memory=Memory(5 * HELD))
    assert stripe_rows(made) == [2 * ROWS] * (DELTAS // 2)
    assert merge.rows_of(made.read_bytes()) == [row for file in files for row in merge.rows_of(file.read_bytes())]


def test_texts_of_numbers_are_counted(tmp_path: Path) -> None:
    """A column of numbers that has become one of CHAR takes many times as much."""
    built = tables.build(
        tmp_path / "t", "struct<n:int>", [tables.Transaction(inserts=tuple((7,) for _ in range(ROWS)))] * DELTAS
    )
    held = ROWS * (1 + 9 + 255)
    done = compact_directory(
        built.location,
        MAJOR,
        built.write_ids,
        generation=Generation.HIVE4,
        row_type="struct<n:char(255)>",
        stores=Stores(memory=Memory(5 * held)),
    )
    (made,) = bucket_files(built.location, done.directories)
    assert stripe_rows(made) == [2 * ROWS] * (DELTAS // 2)


def test_a_stripe_that_is_too_large_alone_is_refused(tmp_path: Path) -> None:
    built = build(tmp_path / "t")
    reason = (
        r"Cannot read column 8 in stripe 0 of \S+bucket_00000: .*at least [\d,]+ bytes .*acidlib\.task\.memory is 9"
    )
    with pytest.raises(RefusedError, match=reason):
        compact_directory(
            built.location,
            MAJOR,
            built.write_ids,
            generation=Generation.HIVE4,
            settings=RewriteSettings(compression="NONE", stated=frozenset({"compression"})),
            stores=Stores(memory=Memory(900_000)),
        )


def test_false_statistics_join_less_or_are_refused(tmp_path: Path) -> None:
    """A file may state any length of its texts."""
    for more, fits in ((1 << 62, True), (-(1 << 62), False), (-ROWS * LENGTH, False)):
        built = build(tmp_path / f"{more}")
        for path in built.location.glob("delta_*/bucket_*"):
            orc = o.read_orc(path.read_bytes())
            path.write_bytes(mutants.shift_stripe_statistic(orc, 0, 8, field=3, by=more, kind=4))
        stores = Stores(memory=Memory(5 * HELD))
        if fits:
            done = compact_directory(built.location, MAJOR, built.write_ids, generation=Generation.HIVE4, stores=stores)
            (made,) = bucket_files(built.location, done.directories)
            assert stripe_rows(made) == [ROWS] * DELTAS
        else:
            with pytest.raises(RefusedError, match=r"Cannot join the rows of stripe 0 .*acidlib\.task\.memory"):
                compact_directory(built.location, MAJOR, built.write_ids, generation=Generation.HIVE4, stores=stores)
