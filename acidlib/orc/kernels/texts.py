"""Texts of numbers and dates, texts without their padding, and whether decimals have no more digits than their type."""

import numpy as np

from acidlib.orc.kernels.jit import Bytes, Longs, bit_length, byte_at, entry, kernel, magnitude

_BLANK, _MINUS, _POINT, _ZERO = 32, 45, 46, 48
_HUNDRED, _BILLION = np.uint64(100), np.uint64(10**9)
_HALF, _LOW_HALF = np.uint64(32), np.uint64(2**32 - 1)
DIGITS_ROOM = 48
_REAL_ROOM = 24
_EXPONENT, _JAVA_EXPONENT, _OF_INFINITY = 101, 69, 105
_INFINITY = np.frombuffer(b"Infinity", dtype=np.uint8)
MAX_DIGITS = 38
"""Of the longest HiveDecimal, and those of its longest fraction."""
_LOW_POWERS = np.array([10**n & (2**64 - 1) for n in range(MAX_DIGITS + 1)], dtype=np.uint64)
_HIGH_POWERS = np.array([10**n >> 64 for n in range(MAX_DIGITS + 1)], dtype=np.uint64)


@entry
def integer_texts(values: Longs, width: int) -> tuple[Bytes, Longs]:
    """Return the decimal text of each number (Java's `Long.toString`), padded with blanks to `width` bytes.

    The result is the bytes of all texts, one after the other, and the length of each.
    """
    lengths = np.empty(len(values), np.int64)
    total = 0
    for i in range(len(values)):
        number = magnitude(values[i])
        # 1233 / 4096 is just below the decimal logarithm of 2; the guess is a digit short from the power of ten on
        guess = (bit_length(number | 1) * 1233) >> 12
        size = guess + int(np.uint64(number) >= _LOW_POWERS[guess]) + int(values[i] < 0)
        # a 0 is below the first power, and has a digit
        lengths[i] = max(size, 1, width)
        total += lengths[i]
    out = np.empty(total, np.uint8)
    digits = np.empty(20, np.uint8)
    pos = 0
    for i in range(len(values)):
        rest = np.uint64(magnitude(values[i]))
        first = 20
        while rest >= _HUNDRED:
            next_rest = rest // _HUNDRED
            pair = int(rest - next_rest * _HUNDRED)
            first -= 2
            digits[first] = _ZERO + pair // 10
            digits[first + 1] = _ZERO + pair % 10
            rest = next_rest
        pair = int(rest)
        first -= 1
        digits[first] = _ZERO + pair % 10
        if pair >= 10:
            first -= 1
            digits[first] = _ZERO + pair // 10
        end = pos + lengths[i]
        if values[i] < 0:
            out[pos] = _MINUS
            pos += 1
        for at in range(first, 20):
            out[pos] = digits[at]
            pos += 1
        while pos < end:
            out[pos] = _BLANK
            pos += 1
    return out, lengths


@entry
def date_texts(days: Longs, width: int) -> tuple[Bytes, Longs]:
    """Return the text of each day, `1582-10-04`, padded with blanks to `width` bytes, as `integer_texts` does.

    Days are counted from 1970-01-01. They lie from 0001-01-01 to 9999-12-31, as the caller has checked, in the calendar
    in which 1582-10-15 follows 1582-10-04 (java.util.GregorianCalendar).
    """
    size = max(10, width)
    out = np.full(len(days) * size, _BLANK, np.uint8)
    for i in range(len(days)):
        # of eras of 400 years, which begin with March; there were more leap days before 1582-10-15
        day = days[i] + 719_468
        if days[i] >= -141_427:
            era = day // 146_097
            rest = day - era * 146_097
            year = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
            of_year = rest - (365 * year + year // 4 - year // 100)
            year += era * 400
        else:
            day += 2
            era = day // 1461
            rest = day - era * 1461
            year = (rest - rest // 1460) // 365
            of_year = rest - 365 * year
            year += era * 4
        month = (5 * of_year + 2) // 153
        of_month = of_year - (153 * month + 2) // 5 + 1
        month += 3
        if month > 12:
            month -= 12
            year += 1
        at = i * size
        for place in range(4):
            out[at + 3 - place] = _ZERO + year % 10
            year //= 10
        out[at + 4] = out[at + 7] = _MINUS
        out[at + 5] = _ZERO + month // 10
        out[at + 6] = _ZERO + month % 10
        out[at + 8] = _ZERO + of_month // 10
        out[at + 9] = _ZERO + of_month % 10
    return out, np.full(len(days), size, np.int64)


@entry
def repadded(data: Bytes, lengths: Longs, width: int) -> tuple[Bytes, Longs, int]:
    """Return each text without the blanks at its end, then with blanks up to `width` characters (0: none at all).

    The texts lie in `data` one after the other, by lengths that the caller has checked. Returns the new bytes, their
    lengths, and the most characters of a text without its blanks.
    """
    kept, padded = np.empty_like(lengths), np.empty_like(lengths)
    start = 0
    most = 0
    for i in range(len(lengths)):
        end = start + lengths[i]
        while end > start and data[end - 1] == _BLANK:
            end -= 1
        characters = 0
        for at in range(start, end):
            characters += data[at] & 0xC0 != 0x80
        kept[i] = end - start
        padded[i] = kept[i] + max(width - characters, 0)
        most = max(most, characters)
        start += lengths[i]
    out = np.full(padded.sum(), _BLANK, np.uint8)
    start = 0
    pos = 0
    for i in range(len(lengths)):
        for at in range(kept[i]):
            out[pos + at] = data[start + at]
        start += lengths[i]
        pos += padded[i]
    return out, padded, most


@entry
def first_too_long(low: Longs, high: Longs, scales: Longs, precision: int, scale: int) -> int:
    """Return the first number that is no DECIMAL(precision, scale), or -1.

    Numbers have 128 bits; `scales` has the number of digits after the point of each.
    """
    for i in range(len(low)):
        if scales[i] < 0 or scales[i] > scale:
            return i
        bottom, top = _absolute(low[i], high[i])
        digits = precision - scale + scales[i]
        if top > _HIGH_POWERS[digits] or (top == _HIGH_POWERS[digits] and bottom >= _LOW_POWERS[digits]):
            return i
    return -1


@kernel
def _absolute(low: int, high: int) -> tuple[np.uint64, np.uint64]:
    """Return the absolute value of a two's complement of 128 bits, its lower and upper half."""
    bottom, top = np.uint64(low), np.uint64(high)
    if high < 0:
        bottom = ~bottom + np.uint64(1)
        top = ~top + np.uint64(bottom == np.uint64(0))
    return bottom, top


@entry
def decimal_texts(low: Longs, high: Longs, scales: Longs, width: int) -> tuple[Bytes, Longs]:
    """Return the text of each number without zeros at the end of its fraction (`HiveDecimal.toString`).

    Numbers have 128 bits and at most 38 digits; `scales` has the number of digits after the point of each. Padding and
    result are as for `integer_texts`.
    """
    digits = np.empty(DIGITS_ROOM, np.uint8)
    lengths = np.empty_like(low)
    total = 0
    for i in range(len(low)):
        count = decimal_digits(low[i], high[i], digits)
        size = 1
        if count > 0:
            zeros = trailing_zeros(digits, count, scales[i])
            size = int(high[i] < 0) + max(count - scales[i], 1)
            if zeros < scales[i]:
                size += 1 + scales[i] - zeros
        lengths[i] = max(size, width)
        total += lengths[i]
    out = np.full(total, _BLANK, np.uint8)
    start = 0
    for i in range(len(low)):
        count = decimal_digits(low[i], high[i], digits)
        write_decimal(digits, count, scales[i], high[i], out, start)
        start += lengths[i]
    return out, lengths


@kernel
def decimal_digits(low: int, high: int, digits: Bytes) -> int:
    """Write the digits of a number's absolute value, the last digit first, and return their number."""
    bottom, top = _absolute(low, high)
    count = 0
    while top != np.uint64(0):
        # divide by 10 ** 9, 32 bits at a time
        carried = np.uint64(0)
        parts = (top >> _HALF, top & _LOW_HALF, bottom >> _HALF, bottom & _LOW_HALF)
        top = bottom = np.uint64(0)
        for place in range(4):
            part = (carried << _HALF) | parts[place]
            whole = part // _BILLION
            carried = part - whole * _BILLION
            if place < 2:
                top = (top << _HALF) | whole
            else:
                bottom = (bottom << _HALF) | whole
        for _ in range(9):
            rest = carried // np.uint64(10)
            digits[count] = _ZERO + int(carried - rest * np.uint64(10))
            carried = rest
            count += 1
    while bottom != np.uint64(0):
        rest = bottom // np.uint64(10)
        digits[count] = _ZERO + int(bottom - rest * np.uint64(10))
        bottom = rest
        count += 1
    # of nine digits the first ones may have been zeros
    while count > 0 and digits[count - 1] == _ZERO:
        count -= 1
    return count


@kernel
def trailing_zeros(digits: Bytes, count: int, scale: int) -> int:
    """Return the number of zeros at the end of the fraction of a number other than 0."""
    zeros = 0
    while zeros < min(count, scale) and digits[zeros] == _ZERO:
        zeros += 1
    return zeros


@kernel
def write_decimal(digits: Bytes, count: int, scale: int, sign: int, out: Bytes, pos: int) -> int:
    """Write a number (`HiveDecimal.toString`) from its digits, the last digit first, and return the end of its text.

    The sign is below 0 for a minus.
    """
    if count == 0:
        out[pos] = _ZERO
        return pos + 1
    if sign < 0:
        out[pos] = _MINUS
        pos += 1
    if count <= scale:
        out[pos] = _ZERO
        pos += 1
    for at in range(count - 1, scale - 1, -1):
        out[pos] = digits[at]
        pos += 1
    zeros = trailing_zeros(digits, count, scale)
    if zeros < scale:
        out[pos] = _POINT
        pos += 1
        for at in range(scale - 1, zeros - 1, -1):
            out[pos] = digits[at] if at < count else _ZERO
            pos += 1
    return pos


@entry
def real_texts(numbers: Bytes, size: int, width: int) -> tuple[Bytes, Longs]:
    """Return each number in Java's notation (`Double.toString`): `0.001`, `1.0E7`, `-Infinity`.

    `numbers` has texts in any other notation, each of `size` bytes with zeros at its end: `1e+07`, `-inf`, `16777216`.
    Padding and result are as for `integer_texts`.
    """
    texts = len(numbers) // size
    out = np.full(texts * max(_REAL_ROOM, width), _BLANK, np.uint8)
    lengths = np.empty(texts, np.int64)
    digits = np.empty(DIGITS_ROOM, np.uint8)
    pos = 0
    for i in range(texts):
        at, end = i * size, i * size + size
        start = pos
        if numbers[at] == _MINUS:
            out[pos] = _MINUS
            pos += 1
            at += 1
        if numbers[at] == _OF_INFINITY:
            for place in range(len(_INFINITY)):
                out[pos + place] = _INFINITY[place]
            pos += len(_INFINITY)
        else:
            # the digits from the first other than zero on, and the power of ten of the first
            count, power, behind = 0, -1, False
            while at < end and numbers[at] != 0 and numbers[at] != _EXPONENT:
                if numbers[at] == _POINT:
                    behind = True
                else:
                    if count > 0 or numbers[at] != _ZERO:
                        digits[count] = numbers[at]
                        count += 1
                        power += int(not behind)
                    else:
                        power -= int(behind)
                at += 1
            if at < end and numbers[at] == _EXPONENT:
                below = numbers[at + 1] == _MINUS
                exponent = 0
                at += 2
                while at < end and numbers[at] != 0:
                    exponent = exponent * 10 + byte_at(numbers, at) - _ZERO
                    at += 1
                power += -exponent if below else exponent
            while count > 0 and digits[count - 1] == _ZERO:
                count -= 1
            if count == 0:
                power = 0
            pos = _write_real(digits, count, power, out, pos)
        lengths[i] = max(pos - start, width)
        pos = start + lengths[i]
    return out[:pos].copy(), lengths


@kernel
def _write_real(digits: Bytes, count: int, power: int, out: Bytes, pos: int) -> int:
    """Write a number whose first digit is that of 10 ** power, and return the end of its text."""
    is_plain = -3 <= power < 7
    first = power if is_plain else 0
    if first < 0:
        out[pos], out[pos + 1] = _ZERO, _POINT
        pos += 2
        for _ in range(-first - 1):
            out[pos] = _ZERO
            pos += 1
    for place in range(max(count, first + 2, 1)):
        if place == first + 1 and first >= 0:
            out[pos] = _POINT
            pos += 1
        out[pos] = digits[place] if place < count else _ZERO
        pos += 1
    if is_plain:
        return pos
    out[pos] = _JAVA_EXPONENT
    pos += 1
    if power < 0:
        out[pos] = _MINUS
        pos += 1
        power = -power
    for unit in (100, 10, 1):
        if power >= unit or unit == 1:
            out[pos] = _ZERO + power // unit % 10
            pos += 1
    return pos
