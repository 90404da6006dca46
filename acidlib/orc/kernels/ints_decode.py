"""Decodes integer run-length streams. Source: ORC specification, Integer Run Length Encoding, versions 1 and 2."""

import numpy as np

from acidlib.errors import CorruptError
from acidlib.orc.kernels.jit import Bytes, Longs, byte_at, kernel, kernel_bytes, load_word, wrapping_add, wrapping_sub

_OK, _TRUNCATED, _TOO_MANY, _TRAILING, _VARINT, _PATCHES, _DELTA = range(7)
_REASONS = {
    _TRUNCATED: "the stream ends before the last value",
    _TOO_MANY: "a run holds more values than are left",
    _TRAILING: "bytes follow the last value",
    _VARINT: "a varint has more than 64 bits",
    _PATCHES: "a patch list is impossible",
    _DELTA: "a delta run is too short for its deltas",
}
# Four bytes can stand for 512 equal values, nothing is denser; in version 1 it is 3 bytes for 130.
_MOST_VALUES_PER_BYTE = 128
# Widths by their five-bit code.
_WIDTHS = np.array([*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64], dtype=np.int64)


def decode_ints(buf: Bytes, count: int, *, signed: bool, version: int) -> Longs:
    """All values of an uncompressed integer stream.

    `version` is 1 for column encodings DIRECT and DICTIONARY, 2 for DIRECT_V2 and DICTIONARY_V2. Sums wrap at 64 bits
    as Java's do; unsigned values above 2^63-1 come out as their bit pattern.

    Raises CorruptError unless the stream holds exactly `count` values: no run may go beyond them (every writer cuts
    its last run) and no byte may follow.
    """
    if version not in (1, 2):
        raise ValueError(f"no integer run-length version {version}")
    data = kernel_bytes(buf)
    if count < 0 or count > _MOST_VALUES_PER_BYTE * len(data):
        raise CorruptError(f"Cannot decode integers: because {len(data)} bytes cannot hold {count} values")
    out = np.empty(count, dtype=np.int64)
    code, at = (_decode_v1 if version == 1 else _decode_v2)(data, out, int(signed))
    if code != _OK:
        raise CorruptError(
            f"Cannot decode integers: because {_REASONS[code]} (run at byte {at} of {len(data)}, {count} values wanted)"
        )
    return out


@kernel
def unzigzag(value: int) -> int:
    """The signed value of a zigzag pattern."""
    return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1)


@kernel
def read_varint(buf: Bytes, pos: int) -> tuple[int, int]:
    """An unsigned base-128 varint of at most 64 bits and the position behind it, or a negative error code there."""
    value = 0
    shift = 0
    while pos < len(buf):
        byte = byte_at(buf, pos)
        pos += 1
        if shift == 63 and byte > 1:
            return 0, -_VARINT
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    return 0, -_TRUNCATED


@kernel
def _decode_v1(buf: Bytes, out: Longs, signed: int) -> tuple[int, int]:
    pos = 0
    done = 0
    while done < len(out):
        at = pos
        if pos + 1 >= len(buf):
            return _TRUNCATED, at
        control = byte_at(buf, pos)
        literals = control >= 0x80
        length = 0x100 - control if literals else control + 3
        if length > len(out) - done:
            return _TOO_MANY, at
        step = 0
        pos += 1
        if not literals:
            step = int(np.int64(np.int8(buf[pos])))
            pos += 1
        value = 0
        for i in range(length):
            if literals or i == 0:
                value, pos = read_varint(buf, pos)
                if pos < 0:
                    return -pos, at
                if signed:
                    value = unzigzag(value)
            else:
                value = wrapping_add(value, step)
            out[done + i] = value
        done += length
    return (_OK if pos == len(buf) else _TRAILING), pos


@kernel
def _decode_v2(buf: Bytes, out: Longs, signed: int) -> tuple[int, int]:
    patches = np.empty(32, dtype=np.int64)
    pos = 0
    done = 0
    while done < len(out):
        at = pos
        if pos + 1 >= len(buf):
            return _TRUNCATED, at
        first = byte_at(buf, pos)
        kind = first >> 6
        length = (first & 7) + 3 if kind == 0 else ((first & 1) << 8 | byte_at(buf, pos + 1)) + 1
        if length > len(out) - done:
            return _TOO_MANY, at
        width_code = (first >> 1) & 31
        if kind == 0:
            pos = _short_repeat(buf, pos, out, done, length, signed)
        elif kind == 1:
            pos = _direct(buf, pos + 2, out, done, length, int(_WIDTHS[width_code]), signed)
        elif kind == 2:
            pos = _patched_base(buf, pos + 2, out, done, length, int(_WIDTHS[width_code]), patches)
        else:
            width = int(_WIDTHS[width_code]) if width_code else 0
            pos = _delta(buf, pos + 2, out, done, length, width, signed)
        if pos < 0:
            return -pos, at
        done += length
    return (_OK if pos == len(buf) else _TRAILING), pos


@kernel
def _short_repeat(buf: Bytes, pos: int, out: Longs, start: int, length: int, signed: int) -> int:
    size = ((byte_at(buf, pos) >> 3) & 7) + 1
    pos += 1
    if size > len(buf) - pos:
        return -_TRUNCATED
    value = _big_endian(buf, pos, size)
    if signed:
        value = unzigzag(value)
    out[start : start + length] = value
    return pos + size


@kernel
def _big_endian(buf: Bytes, pos: int, size: int) -> int:
    value = 0
    for i in range(pos, pos + size):
        value = (value << 8) | byte_at(buf, i)
    return value


@kernel
def _direct(buf: Bytes, pos: int, out: Longs, start: int, length: int, width: int, signed: int) -> int:
    pos = _unpack(buf, pos, out, start, length, width)
    if pos > 0 and signed:
        for i in range(start, start + length):
            out[i] = unzigzag(out[i])
    return pos


@kernel
def _unpack(buf: Bytes, pos: int, out: Longs, start: int, length: int, width: int) -> int:
    size = (length * width + 7) >> 3
    if size > len(buf) - pos:
        return -_TRUNCATED
    data = buf[pos:]
    target = out[start : start + length]
    shift = np.uint64(64 - width)
    # eight bytes from where a value begins hold it: it is at most 30 bits wide or begins with a byte
    whole = min(length, ((len(data) - 8) * 8 + 7) // width + 1) if len(data) >= 8 else 0
    for i in range(whole):
        at = i * width
        target[i] = np.int64((load_word(data, at >> 3) << np.uint64(at & 7)) >> shift)
    for i in range(whole, length):
        target[i] = _bits(data, i * width, width)
    return pos + size


@kernel
def _bits(data: Bytes, at: int, width: int) -> int:
    """The number that `width` bits from bit `at` on hold."""
    end = at + width
    value = 0
    for i in range(at >> 3, (end + 7) >> 3):
        value = (value << 8) | byte_at(data, i)
    value >>= -end & 7
    return value if width == 64 else value & ((1 << width) - 1)


@kernel
def closest_width(bits: int) -> int:
    """The least width with a five-bit code that holds this many bits (0..64)."""
    if bits <= 24:
        return max(bits, 1)
    if bits <= 32:
        return bits + (bits & 1)
    return (bits + 7) & ~7


@kernel
def _patched_base(buf: Bytes, pos: int, out: Longs, start: int, length: int, width: int, patches: Longs) -> int:
    if len(buf) - pos < 2:
        return -_TRUNCATED
    base_size = (byte_at(buf, pos) >> 5) + 1
    patch_width = int(_WIDTHS[byte_at(buf, pos) & 31])
    gap_width = (byte_at(buf, pos + 1) >> 5) + 1
    count = byte_at(buf, pos + 1) & 31
    pos += 2
    # Java and C++ alike refuse wide patches and read past an empty list.
    if patch_width + gap_width > 64 or count == 0 or width == 64:
        return -_PATCHES
    if base_size > len(buf) - pos:
        return -_TRUNCATED
    base = _big_endian(buf, pos, base_size)
    sign = 1 << (base_size * 8 - 1)
    if base & sign:
        base = -(base & ~sign)
    pos = _unpack(buf, pos + base_size, out, start, length, width)
    if pos < 0:
        return pos
    pos = _unpack(buf, pos, patches, 0, count, closest_width(patch_width + gap_width))
    if pos < 0:
        return pos
    if not _apply_patches(out, start, length, width, patches, count, patch_width):
        return -_PATCHES
    for i in range(start, start + length):
        out[i] = wrapping_add(out[i], base)
    return pos


@kernel
def _apply_patches(
    out: Longs, start: int, length: int, width: int, patches: Longs, count: int, patch_width: int
) -> bool:
    patch_mask = ~(-1 << patch_width)
    gap_mask = ~(-1 << (64 - patch_width))
    at = 0
    filler = False
    for k in range(count):
        patch = patches[k] & patch_mask
        gap = (patches[k] >> patch_width) & gap_mask
        if gap == 0 and k > 0 and not filler:
            return False
        at += gap
        filler = gap == 255 and patch == 0
        if filler:
            continue
        if at >= length:
            return False
        out[start + at] |= patch << width
    return not filler


@kernel
def _delta(buf: Bytes, pos: int, out: Longs, start: int, length: int, width: int, signed: int) -> int:
    value, pos = read_varint(buf, pos)
    if pos < 0:
        return pos
    if signed:
        value = unzigzag(value)
    step, pos = read_varint(buf, pos)
    if pos < 0:
        return pos
    step = unzigzag(step)
    if width == 0:
        for i in range(start, start + length):
            out[i] = value
            value = wrapping_add(value, step)
        return pos
    if length < 2:
        return -_DELTA
    out[start] = value
    value = wrapping_add(value, step)
    out[start + 1] = value
    pos = _unpack(buf, pos, out, start + 2, length - 2, width)
    if pos > 0:
        for i in range(start + 2, start + length):
            value = wrapping_sub(value, out[i]) if step < 0 else wrapping_add(value, out[i])
            out[i] = value
    return pos
