"""Write-id lists and transaction lists."""

import pytest

from acidlib.acid.names import LONG_MAX
from acidlib.acid.write_ids import ALL_COMMITTED, ListUse, RangePart, ValidTxnList, ValidWriteIdList, all_committed
from acidlib.errors import RefusedError


@pytest.mark.parametrize(
    ("text", "table", "mark", "min_open", "opened", "aborted"),
    [
        ("default.t:10:9223372036854775807::", "default.t", 10, LONG_MAX, (), ()),
        ("default.j_stream:10:8:8,9,10:3,5", "default.j_stream", 10, 8, (8, 9, 10), (3, 5)),
        ("null:10:8:10,8", None, 10, 8, (8, 10), ()),
        ("t:10:9223372036854775807", "t", 10, LONG_MAX, (), ()),
        (" d.f_abort:7:9223372036854775807::2,3,6\n", "d.f_abort", 7, LONG_MAX, (), (2, 3, 6)),
    ],
)
def test_parse(
    text: str, table: str | None, mark: int, min_open: int, opened: tuple[int, ...], aborted: tuple[int, ...]
) -> None:
    parsed = ValidWriteIdList.parse(text)
    assert parsed == ValidWriteIdList(
        table=table, high_water_mark=mark, min_open=min_open, open_ids=opened, aborted_ids=aborted
    )
    assert ValidWriteIdList.parse(parsed.format()) == parsed


def test_format_as_hive_writes_it() -> None:
    assert all_committed(None, 10).format() == "null:10:9223372036854775807::"
    assert ValidWriteIdList.parse("d.t:10:8:8,9:3").format() == "d.t:10:8:8,9:3"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "1 fields"),
        ("  ", "1 fields"),
        ("t:10", "2 fields"),
        ("t:10:11:::", "6 fields"),
        (":10:11", "field 1"),
        ("t:x:11", "'x' in field 2"),
        ("t:10:-1", "'-1' in field 3"),
        ("t:10:4:4,,5:", "'' in field 4"),
        ("t:10:4:4:3-5", "'3-5' in field 5"),
        ("t:10:4:4: 3", "' 3' in field 5"),
        ("t:10:99999999999999999999:", "in field 3"),
        ("t:10:9223372036854775808:", "in field 3"),
        ("t:10:5:4:", "lowest open id is given as 5"),
        ("t:10:4:4,5:5", "5 is both open and aborted"),
    ],
)
def test_a_text_that_does_not_parse_is_refused_with_the_place(text: str, place: str) -> None:
    with pytest.raises(RefusedError, match=place) as caught:
        ValidWriteIdList.parse(text)
    assert repr(text) in str(caught.value)


def test_reader_predicates() -> None:
    ids = ValidWriteIdList.parse("t:10:4:4,8:6")
    assert [i for i in range(1, 13) if ids.is_write_id_valid(i)] == [1, 2, 3, 5, 7, 9, 10]
    assert [i for i in range(1, 13) if ids.is_write_id_aborted(i)] == [6]
    assert [i for i in range(1, 13) if ids.is_valid_base(i)] == [1, 2, 3]
    assert ids.range_valid(1, 3) is RangePart.ALL
    assert ids.range_valid(3, 5) is RangePart.SOME
    assert ids.range_valid(4, 4) is RangePart.NONE
    assert ids.range_valid(9, 10) is RangePart.ALL
    assert ids.range_valid(10, 12) is RangePart.SOME
    assert ids.range_valid(11, 12) is RangePart.NONE
    assert ids.range_aborted(6, 6) is RangePart.ALL
    assert ids.range_aborted(5, 6) is RangePart.SOME
    assert ids.range_aborted(7, 9) is RangePart.NONE
    assert ids.range_aborted(11, 12) is RangePart.NONE


def test_the_highest_valid_one() -> None:
    assert ValidWriteIdList.parse("t:10:8:8,9:10,7").highest_valid == 6
    assert ValidWriteIdList.parse("t:2:1:1:2").highest_valid == 0
    assert all_committed("t", 3).highest_valid == 3


def test_range_below_every_exception_is_valid_even_above_the_mark() -> None:
    assert ValidWriteIdList.parse("t:10:13:13:").range_valid(9, 12) is RangePart.ALL
    assert ValidWriteIdList.parse("t:10:9223372036854775807:").range_valid(9, 12) is RangePart.SOME


def test_lowest_open_id_is_forgotten_by_a_reader_without_exceptions() -> None:
    ids = ValidWriteIdList.parse("t:10:4:")
    assert ids.is_valid_base(7)
    assert ids.for_compactor().high_water_mark == 3


def test_compactor() -> None:
    ids = ValidWriteIdList.parse("default.j_stream:12:8:8,10:3,5,9").for_compactor()
    assert ids.use is ListUse.COMPACTOR
    assert (ids.high_water_mark, ids.aborted_ids, ids.open_ids) == (7, (3, 5), ())
    assert ids.range_valid(3, 3) is RangePart.ALL
    assert ids.range_valid(6, 7) is RangePart.ALL
    assert ids.range_valid(6, 8) is RangePart.NONE
    assert not ids.is_write_id_valid(3)
    assert ids.range_aborted(3, 3) is RangePart.ALL
    assert ids.capped(5).high_water_mark == 5
    assert ids.capped(5).use is ListUse.COMPACTOR


def test_cleaner() -> None:
    ids = ValidWriteIdList.parse("t:30:9223372036854775807::24").for_cleaner(25)
    assert ids.high_water_mark == 25
    assert ids.range_valid(24, 26) is RangePart.NONE
    assert ids.range_valid(23, 25) is RangePart.SOME
    assert ids.range_valid(20, 23) is RangePart.ALL
    assert all_committed("t", 5).for_cleaner(25).high_water_mark == 5


def test_a_hundred_thousand_ids() -> None:
    ids = ValidWriteIdList.parse("t:400000:1:" + ",".join(map(str, range(1, 200_001, 2))) + ":")
    assert sum(ids.is_write_id_valid(i) for i in range(1, 200_001)) == 100_000
    assert ids.range_valid(200_000, 400_000) is RangePart.ALL
    assert ids.range_valid(199_999, 400_000) is RangePart.SOME


def test_transactions() -> None:
    txns = ValidTxnList.parse("20:7:7,9-12:3,5")
    assert [i for i in range(23) if not txns.is_txn_valid(i)] == [3, 5, 7, 9, 10, 11, 12, 21, 22]
    assert [i for i in range(23) if txns.is_txn_aborted(i)] == [3, 5]
    assert txns.format() == "20:7:7,9-12:3,5"
    assert not txns.without(20).is_txn_valid(20)
    assert txns.without(20).with_committed(20) == txns
    assert txns.with_committed(10).format() == "20:7:7,9,11-12:3,5"
    assert txns.with_committed(23).format() == "23:7:7,9-12,21-22:3,5"
    assert ALL_COMMITTED.is_txn_valid(LONG_MAX)
    assert ValidTxnList.parse("1000000000:1:1-999999999:").is_txn_valid(1_000_000_000)
    nested = ValidTxnList(high_water_mark=300, opened=((5, 5), (1, 100)))
    assert not nested.is_txn_valid(50)


@pytest.mark.parametrize("text", ["", "5", "5:x", "5:1:3-1", "5:1:1-", "5:1:a", "5:1:::"])
def test_transaction_lists_that_do_not_parse(text: str) -> None:
    with pytest.raises(RefusedError, match="transaction list"):
        ValidTxnList.parse(text)
