"""Lists of transaction and write ids out of a metastore's answers: which are open, which aborted.

Source: Hive `TxnCommonUtils`; the bits are those of `java.util.BitSet`: bit i of byte i / 8, lowest first, belongs to
entry i of the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from acidlib.errors import CorruptError
from acidlib.metastore.values import OpenTxns
from acidlib.model.names import LONG_MAX
from acidlib.model.txnids import IdRange, ValidTxnList
from acidlib.model.writeids import ValidWriteIdList


def open_txns(answer: Any, call: str) -> OpenTxns:
    """The snapshot of a GetOpenTxnsResponse; raises CorruptError when its bits do not fit its ids."""
    opened, aborted = _split(answer.open_txns, answer.abortedBits, call)
    mark = answer.txn_high_water_mark
    return OpenTxns(
        txns=ValidTxnList(high_water_mark=mark, opened=_ranges(opened), aborted=_ranges(aborted)), high_water_mark=mark
    )


def write_ids(answer: Any, full_name: str, call: str) -> ValidWriteIdList:
    """The list of a TableValidWriteIds; raises CorruptError when its bits do not fit its ids."""
    opened, aborted = _split(answer.invalidWriteIds, answer.abortedBits, call)
    lowest = answer.minOpenWriteId
    return ValidWriteIdList(
        table=full_name,
        high_water_mark=answer.writeIdHighWaterMark,
        open_ids=tuple(opened),
        aborted_ids=tuple(aborted),
        min_open=LONG_MAX if lowest is None or lowest < 0 else lowest,
    )


def expanded(txns: ValidTxnList) -> ValidTxnList:
    """The same list with each id on its own."""
    return ValidTxnList(
        high_water_mark=txns.high_water_mark, opened=_singles(txns.opened), aborted=_singles(txns.aborted)
    )


def _split(ids: Sequence[int], data: bytes, call: str) -> tuple[list[int], list[int]]:
    flags = int.from_bytes(data, "little")
    if flags.bit_length() > len(ids):
        raise CorruptError(
            f"Cannot read the answer of {call}: because it marks entry {flags.bit_length()} of {len(ids)} as aborted"
        )
    opened: list[int] = []
    aborted: list[int] = []
    for index, number in enumerate(ids):
        at = index >> 3
        is_aborted = at < len(data) and data[at] >> (index & 7) & 1
        (aborted if is_aborted else opened).append(number)
    return opened, aborted


def _ranges(ids: Iterable[int]) -> tuple[IdRange, ...]:
    ranges: list[IdRange] = []
    for number in sorted(ids):
        if ranges and number <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)


def _singles(ranges: Iterable[IdRange]) -> tuple[IdRange, ...]:
    return tuple((number, number) for low, high in ranges for number in range(low, high + 1))
