"""Kernels of conversions: texts of numbers and dates, padding, digits of decimals; the oracle is Python."""

from __future__ import annotations

from datetime import date
from decimal import Context
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acidlib.orc.kernels.texts import date_texts, decimal_texts, first_too_long, integer_texts, real_texts, repadded

LEAST, MOST = -(2**63), 2**63 - 1
EDGES = [0, 1, -1, 9, 10, -9, -10, 99, 100, 2**31, -(2**31), LEAST, LEAST + 1, MOST]
EDGES += [sign * 10**n + step for n in range(19) for sign in (1, -1) for step in (-1, 0, 1)]


def split(data: Any, lengths: Any) -> list[bytes]:
    assert int(lengths.sum()) == len(data)
    ends = np.cumsum(lengths).tolist()
    return [data[end - size : end].tobytes() for end, size in zip(ends, lengths.tolist(), strict=True)]


def longs(values: list[int]) -> Any:
    return np.array(values, dtype=np.int64)


@example(EDGES, 0)
@example(EDGES, 5)
@example(EDGES, 255)
@given(st.lists(st.integers(LEAST, MOST), max_size=30), st.integers(0, 30))
def test_numbers_as_texts(numbers: list[int], width: int) -> None:
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
    assert first_too_long(longs([]), longs([]), longs([]), 38, 0) == -1


def halves(number: int) -> tuple[int, int]:
    """Low and high word, both signed."""
    low = number & (2**64 - 1)
    return (low - 2**64 if low >= 2**63 else low), number >> 64


def wrong(numbers: list[tuple[int, int]], precision: int, scale: int) -> int:
    low, high = zip(*(halves(number) for number, _ in numbers), strict=True)
    return first_too_long(longs(list(low)), longs(list(high)), longs([s for _, s in numbers]), precision, scale)


@pytest.mark.parametrize(("precision", "scale"), [(38, 0), (38, 38), (38, 10), (18, 2), (19, 19), (1, 0), (20, 1)])
@pytest.mark.parametrize("sign", [1, -1])
def test_decimals_of_too_many_digits(precision: int, scale: int, sign: int) -> None:
    for stored in range(scale + 1):
        most = 10 ** (precision - scale + stored) - 1
        assert wrong([(0, stored), (sign * most, stored)], precision, scale) == -1
        assert wrong([(0, stored), (sign * (most + 1), stored)], precision, scale) == 1
    assert wrong([(0, 0), (0, scale), (0, scale + 1)], precision, scale) == 2
    assert wrong([(0, 0), (0, -1)], precision, scale) == 1


@pytest.mark.parametrize("number", [2**127 - 1, -(2**127), -(2**127) + 1, 10**38])
def test_the_widest_numbers_are_no_decimals(number: int) -> None:
    assert wrong([(1, 0), (number, 0)], 38, 0) == 1


def test_the_carry_of_a_negative_number_counts() -> None:
    # its low word is 0, and its high word one above that of the least number that is too long
    assert wrong([(0, 0), (-(((10**30 >> 64) + 1) << 64), 0)], 30, 0) == 1


# --- decimals, dates and real numbers as texts ------------------------------------------------------------------------


def plain(number: int, scale: int) -> str:
    """A decimal without zeros at the end of its fraction."""
    text = f"{Context(prec=80).scaleb(number, -scale):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.integers(1 - 10**38, 10**38 - 1), st.integers(0, 38).map(lambda n: 10**n), st.integers(-99, 99)
            ),
            st.integers(0, 38),
        ),
        max_size=20,
    ),
    st.integers(0, 50),
)
def test_decimals_as_texts(numbers: list[tuple[int, int]], width: int) -> None:
    low, high = ([halves(number)[side] for number, _ in numbers] for side in (0, 1))
    found = decimal_texts(longs(low), longs(high), longs([scale for _, scale in numbers]), width)
    assert split(*found) == [plain(*one).ljust(width).encode() for one in numbers]


def test_dates_before_the_gregorian_calendar_as_texts() -> None:
    """As java.util.GregorianCalendar has them: the Julian year has a leap day in every fourth."""
    found = [text.decode() for text in split(*date_texts(np.arange(-719_164, -141_426), 0))]
    assert (found[0], found[-2:]) == ("0001-01-01", ["1582-10-04", "1582-10-15"])
    assert (found[58], found[59]) == ("0001-02-28", "0001-03-01")
    leap = [text for text in found if text.endswith("-02-29")]
    assert leap == [f"{year:04d}-02-29" for year in range(4, 1582, 4)]
    assert found == sorted(set(found))
    assert len(found) == 1581 * 365 + len(leap) + 31 + 28 + 31 + 30 + 31 + 30 + 31 + 31 + 30 + 4 + 1


@given(st.lists(st.dates(min_value=date(1582, 10, 15)), max_size=30), st.integers(0, 20))
def test_dates_as_texts(days: list[date], width: int) -> None:
    found = date_texts(longs([day.toordinal() - 719_163 for day in days]), width)
    assert split(*found) == [day.isoformat().ljust(width).encode() for day in days]


@pytest.mark.parametrize("width", [0, 9, 30])
@pytest.mark.parametrize(
    ("given_", "java"),
    [
        ("0.0", "0.0"), ("-0.0", "-0.0"), ("1.0", "1.0"), ("100.0", "100.0"), ("-12.5", "-12.5"), ("0.001", "0.001"),
        ("9999999.5", "9999999.5"), ("10000000.0", "1.0E7"), ("1e+07", "1.0E7"), ("16777216", "1.6777216E7"),
        ("0.0009765625", "9.765625E-4"), ("1.5e-05", "1.5E-5"), ("2.2250738585072014e-308", "2.2250738585072014E-308"),
        ("1e+100", "1.0E100"), ("inf", "Infinity"), ("-inf", "-Infinity"), ("123456.789", "123456.789"),
        ("0.0123", "0.0123"), ("1230000000000000000", "1.23E18"),
    ],
)  # fmt: skip
def test_real_numbers_in_javas_form(given_: str, java: str, width: int) -> None:
    forms = np.array([given_, "7.0"], dtype="S32")
    found = real_texts(forms.view(np.uint8), 32, width)
    assert split(*found) == [java.ljust(width).encode(), b"7.0".ljust(width)]
