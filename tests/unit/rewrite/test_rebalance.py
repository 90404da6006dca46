"""A rebalance: which row goes where, under which id, and which bytes are copied for that."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from compaction import MAJOR, REBALANCE, Compacted, compact_directory
from judges import merge
from judges.merge import bucket_property
from judges.tables import Built, Layout, Transaction, build, deletes, inserts, orc_bytes, write_base, write_dir

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.generation import Generation
from acidlib.model.units import RewriteSettings

NESTED = "struct<id:int,v:string,l:array<struct<k:bigint,s:string>>,m:map<string,double>,d:date>"
TXN = 90


def nested_row(number: int) -> tuple[object, ...]:
    """A row of `NESTED`, with nulls on every level."""
    if number % 11 == 0:
        return (number, None, None, None, None)
    items = [(number * 10 + i, f"s{i}" if i % 2 else None) for i in range(number % 4)]
    pairs = {f"k{i}": number / 3 if i else None for i in range(number % 3)}
    return (number, f"v{number % 7}", items, pairs, number % 50)


def expected(rows: list[merge.Row], buckets: int) -> list[merge.Row]:
    """The rows as Hive 4 gives them new ids."""
    each = -(-len(rows) // buckets)
    return sorted((row[0], bucket_property(n // each, 0), n, *row[3:]) for n, row in enumerate(sorted(rows)))


def rebalanced(built: Built, buckets: int | None = None, settings: RewriteSettings | None = None) -> Compacted:
    return compact_directory(
        built.location, REBALANCE, built.write_ids, Generation.HIVE4, TXN, settings=settings, buckets=buckets
    )


def read(built: Built) -> list[merge.Row]:
    return sorted(merge.read(built.location, built.write_ids, generation=4, hidden_txns=frozenset(), strict=True))


@pytest.mark.parametrize("settings", [RewriteSettings(), RewriteSettings(stripe_bytes=600, copy_bytes=0)])
@pytest.mark.parametrize("has_base", [False, True], ids=["deltas", "base"])
def test_rows_of_all_buckets_are_counted_by_their_ids(
    tmp_path: Path, has_base: bool, settings: RewriteSettings
) -> None:
    """Interleaved write ids of several writers, deleted, updated and aborted rows, every kind of nested column."""
    chance = random.Random(7)
    transactions, next_row = [], 0
    for number in range(9):
        count = chance.randint(1, 40)
        transactions.append(
            Transaction(
                inserts=tuple(nested_row(next_row + i) for i in range(count)),
                updates=tuple(
                    (chance.randint(0, 99), nested_row(1000 + next_row + i)) for i in range(chance.randint(0, 4))
                ),
                deletes=tuple(chance.randint(0, 99) for _ in range(chance.randint(0, 5))),
                aborted=number in (3, 6),
            )
        )
        next_row += count
    built = build(tmp_path / "t", NESTED, transactions, writers=3, layouts=(Layout(), Layout(stripe_size=1, batch=7)))
    if has_base:  # of many write ids in each stripe, which those of the other buckets lie between
        compact_directory(built.location, MAJOR, built.write_ids, Generation.HIVE4, TXN - 1)
    done = rebalanced(built, 4, settings)
    assert done.directories == (f"base_0000009_v{TXN:07d}",)
    assert read(built) == expected(list(built.expected), 4)
    assert sum(one.rows_out or 0 for one in done.results) == len(built.expected)


def test_whole_stripes_are_copied_and_those_at_the_edge_of_a_bucket_are_not(tmp_path: Path) -> None:
    built = build(
        tmp_path / "t",
        "struct<id:int,v:string>",
        [
            Transaction(inserts=tuple((i, f"{i * 7919 % 10007}" * 50) for i in range(4000))),
            Transaction(inserts=((9, "last"),)),
        ],
        layouts=(Layout(stripe_size=1, batch=200, block=1 << 10),),
    )
    done = rebalanced(built, 3, RewriteSettings(copy_bytes=1))
    assert read(built) == expected(list(built.expected), 3)
    reasons = Counter(action.reason for one in done.results for action in one.actions)
    assert reasons["a part of a stripe (1 of 1 stripes)"] == 4
    assert reasons["unchanged but for new row ids"] == sum(one.stripes_copied for one in done.results) > 10


def test_rows_of_original_files_and_of_loaded_ones_get_ids_as_they_are_numbered(tmp_path: Path) -> None:
    place = tmp_path / "t"
    place.mkdir()
    columns = "struct<id:int,v:string>"
    for name, first in (("000000_0", 1), ("000000_0_copy_1", 11), ("000001_0", 21)):
        (place / name).write_bytes(orc_bytes(columns, [(first + i, "original") for i in range(3)]))
    write_dir(place, "delta_0000001_0000001_0000", columns, inserts(1, [(31, "one"), (32, "one")], writer=1))
    write_dir(
        place,
        "delete_delta_0000002_0000002_0000",
        columns,
        deletes(2, [(0, bucket_property(0, 0), 4), (0, bucket_property(1, 0), 0)]),
    )
    built = Built(location=place, write_ids="default.t:2:9223372036854775807::", expected=())
    before = read(built)
    assert len(before) == 9
    rebalanced(built)
    assert read(built) == expected(before, 2)


def test_so_many_buckets_as_files_have_numbers_unless_it_is_said(tmp_path: Path) -> None:
    rows = tuple((i, "v") for i in range(18))
    for buckets, sizes in ((None, [6, 6, 6]), (4, [5, 5, 5, 3]), (100, [1] * 18)):
        built = build(tmp_path / str(buckets), "struct<id:int,v:string>", [Transaction(inserts=rows)], writers=3)
        done = rebalanced(built, buckets)
        assert [one.rows_out for one in done.results] == sizes
        assert [one.file_name for one in done.results] == [f"bucket_{number:05d}" for number in range(len(sizes))]
    with pytest.raises(RefusedError, match="5000 buckets"):
        rebalanced(build(tmp_path / "more", "struct<id:int>", [Transaction(inserts=((1,),))]), 5000)


def test_rows_with_the_same_ids_are_refused(tmp_path: Path) -> None:
    columns = "struct<id:int>"
    write_base(tmp_path / "t", 2, columns, inserts(1, [(1,), (2,), (3,)]))
    write_dir(tmp_path / "t", "delta_0000003_0000003_0000", columns, inserts(1, [(4,)], first=1))
    built = Built(location=tmp_path / "t", write_ids="default.t:3:9223372036854775807::", expected=())
    with pytest.raises(CorruptError, match="interleave"):
        rebalanced(built, 1)
