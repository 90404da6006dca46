"""Run-length streams of bytes and bits, and the packing of bits, varints and big-endian numbers in run lengths.

Source: ORC specification, Byte and Boolean Run Length Encoding, Run Length Encoding.
"""

import numpy as np

from acidlib.errors import CorruptError
from acidlib.orc.kernels.jit import Bytes, Longs, bit_length, byte_at, kernel, kernel_bytes
from acidlib.orc.kernels.vectors import Encoded, checked_marks

OK, TRUNCATED, TOO_MANY, TRAILING = range(4)
REASONS = {
    TRUNCATED: "the stream ends before the last value",
    TOO_MANY: "a run holds more values than are left",
    TRAILING: "bytes follow the last value",
}
_MIN_RUN, _MAX_RUN, _MAX_LITERALS = 3, 130, 128


def decode_bytes(buf: Bytes, count: int) -> Bytes:
    """Return all values of an uncompressed byte stream. Raises CorruptError unless it holds exactly `count` values."""
    data = kernel_bytes(buf)
    if count < 0 or count > _MAX_RUN // 2 * len(data):
        raise CorruptError(f"Cannot decode bytes: because {len(data)} bytes cannot hold {count} values")
    out = np.empty(count, dtype=np.uint8)
    code, at = _decode(data, out)
    if code != OK:
        raise CorruptError(
            f"Cannot decode bytes: because {REASONS[code]} (run at byte {at} of {len(data)}, {count} values wanted)"
        )
    return out


def encode_bytes(values: Bytes, marks: Longs) -> Encoded:
    """Return the values as an uncompressed byte stream, with a position for each mark.

    Runs and literals are those of Java's RunLengthByteWriter, but for a repetition at a full list of literals.
    Raises ValueError if the marks do not ascend within 0..len(values).
    """
    data = kernel_bytes(values)
    checked = checked_marks(marks, len(data))
    out = np.empty(len(data) + (len(data) >> 1) + 2, dtype=np.uint8)
    offsets = np.empty(len(checked), dtype=np.int64)
    skips = np.zeros(len(checked), dtype=np.int64)
    size = _encode(data, checked, out, offsets, skips)
    return Encoded(data=out[:size], offsets=offsets, skips=skips)


def decode_bits(buf: Bytes, count: int) -> Bytes:
    """Return all values of an uncompressed bit stream as 0 or 1. The bits that fill the last byte are not looked at.

    Raises CorruptError unless the stream holds exactly as many bytes as `count` bits need.
    """
    data = decode_bytes(buf, -(-count // 8) if count > 0 else count)
    return np.unpackbits(data, count=count)


def encode_bits(bits: Bytes, marks: Longs) -> Encoded:
    """Return the bits (0 or 1 each) as an uncompressed bit stream, with a position for each mark (a bit index).

    Raises ValueError if the marks do not ascend within 0..len(bits).
    """
    checked = checked_marks(marks, len(bits))
    encoded = encode_bytes(np.packbits(bits), checked >> 3)
    return Encoded(data=encoded.data, offsets=encoded.offsets, skips=encoded.skips, bits=checked & 7)


@kernel
def _decode(buf: Bytes, out: Bytes) -> tuple[int, int]:
    pos = 0
    done = 0
    while done < len(out):
        at = pos
        if pos + 1 >= len(buf):
            return TRUNCATED, at
        control = byte_at(buf, pos)
        length = control + _MIN_RUN if control < 0x80 else 0x100 - control
        if length > len(out) - done:
            return TOO_MANY, at
        pos += 1
        if control < 0x80:
            out[done : done + length] = buf[pos]
            pos += 1
        else:
            if length > len(buf) - pos:
                return TRUNCATED, at
            for i in range(length):
                out[done + i] = buf[pos + i]
            pos += length
        done += length
    return (OK if pos == len(buf) else TRAILING), pos


@kernel
def _repeats(values: Bytes, start: int, limit: int) -> int:
    """Return how many values from here on are equal, at most up to the limit."""
    end = start + 1
    while end < limit and values[end] == values[start]:
        end += 1
    return end - start


@kernel
def _literals(values: Bytes, start: int) -> int:
    """Return how many values from here on precede the next run of three."""
    limit = min(len(values), start + _MAX_LITERALS)
    end = start + 1
    while end < limit:
        if end + 2 < len(values) and values[end] == values[end + 1] and values[end] == values[end + 2]:
            break
        end += 1
    return end - start


@kernel
def _encode(values: Bytes, marks: Longs, out: Bytes, offsets: Longs, skips: Longs) -> int:
    start = 0
    pos = 0
    mark = 0
    while start < len(values):
        at = pos
        length = _repeats(values, start, min(len(values), start + _MAX_RUN))
        if length >= _MIN_RUN:
            out[pos] = length - _MIN_RUN
            out[pos + 1] = values[start]
            pos += 2
        else:
            length = _literals(values, start)
            out[pos] = 0x100 - length
            for i in range(length):
                out[pos + 1 + i] = values[start + i]
            pos += 1 + length
        end = start + length
        while mark < len(marks) and marks[mark] < end:
            offsets[mark] = at
            skips[mark] = marks[mark] - start
            mark += 1
        start = end
    offsets[mark:] = pos
    return pos


@kernel
def zigzag(value: int) -> int:
    """Return the pattern with the sign in its lowest bit."""
    return (value << 1) ^ (value >> 63)


@kernel
def width_code(width: int) -> int:
    """Return the five-bit code of a bit width (1..24, 26, 28, 30, 32, 40, 48, 56, 64)."""
    if width <= 24:
        return width - 1
    if width <= 32:
        return 12 + width // 2 - 1
    return 23 + width // 8


@kernel
def varint_size(pattern: int) -> int:
    """Return the bytes of an unsigned varint."""
    return (max(bit_length(pattern), 1) + 6) // 7


@kernel
def big_endian_size(pattern: int) -> int:
    """Return the bytes of a big-endian number, at least one."""
    return (max(bit_length(pattern), 1) + 7) // 8


@kernel
def write_varint(out: Bytes, pos: int, pattern: int) -> int:
    """Write an unsigned varint and returns the position behind it."""
    while pattern & ~0x7F:
        out[pos] = (pattern & 0x7F) | 0x80
        pattern = (pattern >> 7) & 0x01FFFFFFFFFFFFFF
        pos += 1
    out[pos] = pattern
    return pos + 1


@kernel
def write_big_endian(out: Bytes, pos: int, pattern: int, size: int) -> int:
    """Write the lowest bytes of a number and returns the position behind them."""
    for i in range(size):
        out[pos + i] = (pattern >> (8 * (size - 1 - i))) & 0xFF
    return pos + size


@kernel
def pack(out: Bytes, pos: int, patterns: Longs, length: int, width: int) -> int:
    """Pack patterns of a bit width, padded to a byte, and returns the position behind them."""
    size = width >> 3
    if width & 7 == 0:
        # a view that starts at 0, and constant sizes, become straight code
        target = out[pos : pos + size * length]
        if size == 1:
            for i in range(length):
                target[i] = np.uint8(patterns[i])
        elif size == 2:
            for i in range(length):
                write_big_endian(target, 2 * i, patterns[i], 2)
        elif size == 3:
            for i in range(length):
                write_big_endian(target, 3 * i, patterns[i], 3)
        elif size == 4:
            for i in range(length):
                write_big_endian(target, 4 * i, patterns[i], 4)
        else:
            for i in range(length):
                write_big_endian(target, size * i, patterns[i], size)
        return pos + size * length
    done = 0
    if width in (1, 2, 4):
        share = 8 // width
        whole = length // share
        target = out[pos : pos + whole]
        if width == 4:
            for i in range(whole):
                target[i] = np.uint8(patterns[2 * i] << 4 | patterns[2 * i + 1])
        elif width == 2:
            for i in range(whole):
                at = 4 * i
                pair = patterns[at] << 6 | patterns[at + 1] << 4
                target[i] = np.uint8(pair | patterns[at + 2] << 2 | patterns[at + 3])
        else:
            for i in range(whole):
                octet = 0
                for k in range(8):
                    octet = octet << 1 | patterns[8 * i + k]
                target[i] = np.uint8(octet)
        done = whole * share
        pos += whole
    # at most 30 bits wide here, so that the bits in hand stay below 64
    held = 0
    bits = 0
    for i in range(done, length):
        held = held << width | patterns[i]
        bits += width
        while bits >= 8:
            bits -= 8
            out[pos] = (held >> bits) & 0xFF
            pos += 1
    if bits:
        out[pos] = (held << (8 - bits)) & 0xFF
        pos += 1
    return pos
