"""Kernels of conversions: texts of numbers, padding, digits of decimals; the oracle is Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidlib.orc.kernels.texts import first_too_long, integer_texts, repadded

LEAST, MOST = -(2**63), 2**63 - 1
EDGES = [0, 1, -1, 9, 10, -9, -10, 99, 100, 2**31, -(2**31), LEAST, LEAST + 1, MOST]
EDGES += [sign * 10**n + step for n in range(19) for sign in (1, -1) for step in (-1, 0, 1)]


def split(data: Any, lengths: Any) -> list[bytes]:
    assert int(lengths.sum()) == len(data)
    ends = np.cumsum(lengths).tolist()
    return [data[end - size : end].tobytes() for end, size in zip(ends, lengths.tolist(), strict=True)]


def longs(values: list[int]) -> Any:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize("width", [0, 1, 5, 20, 255])
def test_numbers_as_texts(width: int) -> None:
    assert split(*integer_texts(longs(EDGES), width)) == [str(n).ljust(width).encode() for n in EDGES]


@given(st.lists(st.integers(LEAST, MOST), max_size=30), st.integers(0, 30))
def test_any_numbers_as_texts(numbers: list[int], width: int) -> None:
    assert split(*integer_texts(longs(numbers), width)) == [str(n).ljust(width).encode() for n in numbers]


TEXTS = ["", " ", "   ", "a", "a ", " a", " a b  ", "é", "é  ", "😀 ", "\t ", "x" * 300, "\u00a0 "]


@pytest.mark.parametrize("width", [0, 1, 3, 8, 255])
def test_blanks_at_the_end(width: int) -> None:
    bare = [text.rstrip(" ") for text in TEXTS]
    data = np.frombuffer("".join(TEXTS).encode(), dtype=np.uint8)
    padded, lengths, most = repadded(data, longs([len(text.encode()) for text in TEXTS]), width)
    assert split(padded, lengths) == [text.ljust(width).encode() for text in bare]
    assert most == 300


def test_nothing_to_do() -> None:
    none = np.zeros(0, dtype=np.uint8)
    assert [len(part) for part in integer_texts(longs([]), 9)] == [0, 0]
    assert repadded(none, longs([]), 9)[2] == 0
    assert first_too_long(longs([]), None, longs([]), 38, 0) is None


def halves(number: int) -> tuple[int, int]:
    """Low and high word, both signed."""
    low = number & (2**64 - 1)
    return (low - 2**64 if low >= 2**63 else low), number >> 64


def wrong(numbers: list[tuple[int, int]], precision: int, scale: int) -> int | None:
    low, high = zip(*(halves(number) for number, _ in numbers), strict=True)
    return first_too_long(longs(list(low)), longs(list(high)), longs([s for _, s in numbers]), precision, scale)


@pytest.mark.parametrize(("precision", "scale"), [(38, 0), (38, 38), (38, 10), (18, 2), (19, 19), (1, 0), (20, 1)])
@pytest.mark.parametrize("sign", [1, -1])
def test_decimals_of_too_many_digits(precision: int, scale: int, sign: int) -> None:
    for stored in range(scale + 1):
        most = 10 ** (precision - scale + stored) - 1
        assert wrong([(0, stored), (sign * most, stored)], precision, scale) is None
        assert wrong([(0, stored), (sign * (most + 1), stored)], precision, scale) == 1
    assert wrong([(0, 0), (0, scale), (0, scale + 1)], precision, scale) == 2
    assert wrong([(0, 0), (0, -1)], precision, scale) == 1


@pytest.mark.parametrize("number", [2**127 - 1, -(2**127), -(2**127) + 1, 10**38])
def test_the_widest_numbers_are_no_decimals(number: int) -> None:
    assert wrong([(1, 0), (number, 0)], 38, 0) == 1


def test_the_carry_of_a_negative_number_counts() -> None:
    # its low word is 0, and its high word one above that of the least number that is too long
    assert wrong([(0, 0), (-(((10**30 >> 64) + 1) << 64), 0)], 30, 0) == 1


def test_decimals_of_64_bits() -> None:
    scales = longs([2, 2, 2])
    assert first_too_long(longs([10**9 - 1, 1 - 10**9, 0]), None, scales, 9, 2) is None
    assert first_too_long(longs([0, -(10**9), 0]), None, scales, 9, 2) == 1
    assert first_too_long(longs([LEAST, 0, 0]), None, scales, 38, 2) is None
