"""A rebalance: which row goes where, under which id, and which bytes are copied for that."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compaction import MAJOR, REBALANCE, Compacted, bucket_files, compact_directory, files_of, prepared
from judges import bloom, merge
from judges import orc_tail as o
from judges.merge import bucket_property, raw_rows
from judges.tables import (
    Built,
    Layout,
    Transaction,
    acid_bytes,
    build,
    deletes,
    delta_name,
    inserts,
    orc_bytes,
    write_base,
    write_dir,
)
from judges.values import open_orc
from rebalancing import renumbered

import acidlib.rewrite.bucket
import acidlib.rewrite.rebalance
from acidlib.acid.names import Generation
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.units import RewriteSettings
from acidlib.rewrite.rebalance import RebalanceUnit
from acidlib.rewrite.recode import KeptRows

TXN = 90
WIDE = "struct<id:int,v:string>"
V = 8
"""The number of its column in a file with row ids."""
CALENDAR, PROLEPTIC = 11, 2
"""A field of an ORC file's footer, and a value of it."""
SMALL_STRIPES = Layout(stripe_size=1, batch=4, block=1 << 10)
"""Of four rows each, where these are as large as `wide_rows`."""


def wide_rows(first: int, count: int) -> list[tuple[int, str]]:
    """Rows of `WIDE`."""
    return [(number, random.Random(number).randbytes(2000).hex()) for number in range(first, first + count)]


def rebalanced(built: Built, buckets: int | None = None, settings: RewriteSettings | None = None) -> Compacted:
    return compact_directory(
        built.location, REBALANCE, built.write_ids, Generation.HIVE4, TXN, settings=settings, buckets=buckets
    )


def read(built: Built) -> list[merge.Row]:
    return sorted(merge.read(built.location, built.write_ids, generation=4, hidden_txns=frozenset(), strict=True))


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
    assert read(built) == renumbered(built.expected, 3)
    reasons = Counter(action.reason for one in done.results for action in one.actions)
    assert reasons["a part of a stripe (1 of 1 stripe)"] == 4
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
    assert read(built) == renumbered(before, 2)


@pytest.mark.parametrize("layout", [Layout(), SMALL_STRIPES], ids=["a stripe", "stripes"])
def test_every_row_is_told_of_as_kept_deleted_or_aborted(tmp_path: Path, layout: Layout) -> None:
    """Of a delta of several write ids, some aborted, as a stream leaves it: at the edges of buckets, too, and at both
    ends."""
    place, bucket = tmp_path / "t", bucket_property(1, 0)
    streamed = [
        event
        for write_id in range(1, 6)
        for writer in (0, 1)
        for event in inserts(write_id, wide_rows(100 * write_id + 10 * writer, 6), writer=writer)
    ]
    write_dir(place, "delta_0000001_0000005", WIDE, streamed, layout)
    gone = [(2, bucket_property(0, 0), 0), (2, bucket, 0), (2, bucket, 5), (4, bucket, 5), (3, bucket, 2)]
    write_dir(place, "delete_delta_0000006_0000006_0000", WIDE, deletes(6, gone), layout)
    built = Built(location=place, write_ids="default.t:6:9223372036854775807::1,3,5", expected=())
    before = read(built)
    done = rebalanced(built, 4, RewriteSettings(copy_bytes=1 << 40))
    assert read(built) == renumbered(before, 4)
    sums = Counter[str]()
    for one in done.results:
        sums.update(rows_in=one.rows_in, deleted=one.rows_deleted, aborted=one.rows_aborted, out=one.rows_out)
        sums.update(events=one.events_in, aborted_events=one.events_aborted)
    assert sums == Counter(rows_in=60, deleted=4, aborted=36, out=20, events=5)


def test_so_many_buckets_as_files_have_numbers_unless_it_is_said(tmp_path: Path) -> None:
    rows = tuple((i, "v") for i in range(18))
    for buckets, sizes in ((None, [6, 6, 6]), (4, [5, 5, 5, 3]), (100, [1] * 18)):
        built = build(tmp_path / str(buckets), "struct<id:int,v:string>", [Transaction(inserts=rows)], writers=3)
        done = rebalanced(built, buckets)
        assert [one.rows_out for one in done.results] == sizes
        assert [one.file_name for one in done.results] == [f"bucket_{number:05d}" for number in range(len(sizes))]
    with pytest.raises(RefusedError, match="5000 buckets"):
        rebalanced(build(tmp_path / "more", "struct<id:int>", [Transaction(inserts=((1,),))]), 5000)


def test_values_come_as_the_table_has_them_now(tmp_path: Path) -> None:
    """A column that has become a wider one is not copied."""
    write_dir(tmp_path, "delta_0000001_0000001_0000", "struct<id:int>", inserts(1, [(1,), (2,)]))
    now = "struct<id:bigint,v:string>"
    write_dir(tmp_path, "delta_0000002_0000002_0000", now, inserts(2, [(1 << 40, "new")]))
    made = compact_directory(tmp_path, REBALANCE, "", Generation.HIVE4, TXN, row_type=now, buckets=1)
    (path,) = bucket_files(tmp_path, made.directories)
    assert str(open_orc(path).schema.fields["row"]) == now
    assert [(row[3], row[5]) for row in raw_rows(path)] == [
        (0, (1, None)), (1, (2, None)), (2, (1 << 40, "s:new")),
    ]  # fmt: skip


def test_times_stay_in_the_zone_of_their_writer(tmp_path: Path) -> None:
    zones = [Layout(timezone=zone) for zone in ("America/Los_Angeles", "America/Los_Angeles", "UTC")]
    transactions = [Transaction(inserts=tuple(((1_500_000_000 + n, n),) for n in range(9))) for _ in zones]
    built = build(tmp_path / "t", "struct<t:timestamp>", transactions, layouts=zones)
    before = read(built)
    rebalanced(built, 2, RewriteSettings(copy_bytes=1 << 40))
    assert read(built) == renumbered(before, 2)


def test_dates_of_another_calendar_are_refused(tmp_path: Path) -> None:
    """As they are by a major: a bucket of the result may have rows of files that a major would not join."""
    for write_id, writer in ((1, 0), (2, 1)):
        events = inserts(write_id, [(-200_000,)] * 5, writer=writer)
        write_dir(tmp_path, delta_name(write_id, write_id), "struct<d:date>", events)
    path = tmp_path / "delta_0000002_0000002_0000" / "bucket_00001"
    orc = o.read_orc(path)
    path.write_bytes(o.with_tail(orc, {**orc.footer, CALENDAR: [PROLEPTIC]}))
    with pytest.raises(RefusedError, match="in another calendar"):
        rebalanced(Built(location=tmp_path, write_ids="", expected=()), 1)
    assert compact_directory(tmp_path, MAJOR, "", Generation.HIVE4, TXN).results


def test_rows_out_of_order_are_refused(tmp_path: Path) -> None:
    events = [*inserts(1, [(1,), (2,)]), *inserts(2, [(3,)])]
    path = tmp_path / "base_0000002" / "bucket_00000"
    path.parent.mkdir()
    path.write_bytes(acid_bytes("struct<id:int>", [events[1], events[0], events[2]]))
    with pytest.raises(RefusedError, match="keys do not ascend"):
        rebalanced(Built(location=tmp_path, write_ids="", expected=()))


def test_a_bucket_weighs_as_much_as_its_share_of_the_files(tmp_path: Path) -> None:
    """By that, tasks are shared out among executors."""
    built = build(tmp_path / "t", WIDE, [Transaction(inserts=tuple(wide_rows(0, 12)))], writers=2)
    found = prepared(built.location, REBALANCE, built.write_ids, Generation.HIVE4, TXN)
    total = sum(path.stat().st_size for path in built.location.rglob("bucket_*"))
    lengths = [unit.length for unit in files_of(found, buckets=3) if isinstance(unit, RebalanceUnit)]
    assert lengths == [pytest.approx(total / 3, rel=0.01)] * 3


def test_filters_that_are_asked_for_are_in_all_stripes(tmp_path: Path) -> None:
    rows = tuple(wide_rows(0, 12))
    built = build(tmp_path / "t", WIDE, [Transaction(inserts=rows)], layouts=(SMALL_STRIPES,))
    rebalanced(built, 2, RewriteSettings(bloom_columns="v", stripe_bytes=1))
    for path in bucket_files(built.location, [f"base_0000001_v{TXN:07d}"]):
        stripes = o.read_orc(path).stripes
        assert [bloom.columns(stripe) for stripe in stripes] == [[V]] * 2
    assert read(built) == renumbered(built.expected, 2)


def with_ids_reversed(part: KeptRows) -> KeptRows:
    return replace(part, keys=part.keys.select(slice(None, None, -1)))


def with_later_transactions(part: KeptRows) -> KeptRows:
    return replace(part, current=part.current + 1)


@pytest.mark.parametrize("fault", [with_ids_reversed, with_later_transactions])
def test_a_file_with_other_ids_than_it_is_to_have_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[KeptRows], KeptRows]
) -> None:
    built = build(tmp_path / "t", WIDE, [Transaction(inserts=tuple(wide_rows(0, 4)))])
    true = acidlib.rewrite.bucket.encode_rows

    def faulty(parts: Sequence[KeptRows], *rest: Any, **more: Any) -> Any:
        return true([fault(part) for part in parts], *rest, **more)

    monkeypatch.setattr(acidlib.rewrite.bucket, "encode_rows", faulty)
    with pytest.raises(CorruptError, match="its ids are not the expected ones"):
        rebalanced(built, 2)
    assert read(built) == list(built.expected)


def test_a_plan_that_has_lost_a_stripe_is_not_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build(tmp_path / "t", WIDE, [Transaction(inserts=tuple(wide_rows(0, 4)))])
    true = acidlib.rewrite.rebalance.plan_actions

    def less_one(*given: Any) -> Any:
        actions, options = true(*given)
        return actions[:-1], options

    monkeypatch.setattr(acidlib.rewrite.rebalance, "plan_actions", less_one)
    with pytest.raises(CorruptError, match="0 rows were planned of 2"):
        rebalanced(built, 2)
    assert read(built) == list(built.expected)


def of_one_write_id(place: Path, *first_ids: int, others: int = 0) -> Built:
    """Three rows of a base and one of a delta, all of one write id, with row ids from these on; and other rows."""
    columns = "struct<id:int>"
    more = inserts(2, [(100 + number,) for number in range(others)])
    write_base(place, 2, columns, [*inserts(1, [(1,), (2,), (3,)], first=first_ids[0]), *more])
    write_dir(place, "delta_0000003_0000003_0000", columns, inserts(1, [(4,)], first=first_ids[1]))
    return Built(location=place, write_ids="default.t:3:9223372036854775807::", expected=())


@pytest.mark.parametrize("others", [0, 1], ids=["a stripe of one write id", "of two"])
@pytest.mark.parametrize("first_id", [0, 1, 2])
def test_rows_with_the_same_ids_are_refused(tmp_path: Path, first_id: int, others: int) -> None:
    with pytest.raises(CorruptError, match="interleave"):
        rebalanced(of_one_write_id(tmp_path / "t", 0, first_id, others=others), 1)


def test_the_order_is_that_of_ids_wherever_rows_lie(tmp_path: Path) -> None:
    built = of_one_write_id(tmp_path / "t", 1, 0)
    rebalanced(built, 2)
    prop = [bucket_property(number, 0) for number in (0, 0, 1, 1)]
    assert read(built) == [(1, prop[n], n, (value,)) for n, value in enumerate((4, 1, 2, 3))]
