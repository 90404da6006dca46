"""Integer run-length streams: versions 1 and 2 decoded, version 2 encoded.

Source: ORC specification, Integer Run Length Encoding.
"""

from typing import TypeAlias

import numpy as np

from acidlib.errors import CorruptError
from acidlib.orc.kernels.bytes_bits import (
    OK,
    REASONS,
    TOO_MANY,
    TRAILING,
    TRUNCATED,
    Surplus,
    big_endian_size,
    pack_bits,
    report,
    varint_size,
    width_code,
    write_big_endian,
    write_varint,
    zigzag,
)
from acidlib.orc.kernels.jit import (
    Bytes,
    Longs,
    bit_length,
    byte_at,
    entry,
    kernel,
    load_word,
    magnitude,
    wrapping_add,
    wrapping_sub,
)
from acidlib.orc.kernels.vectors import Encoded, note_marks

_VARINT, _PATCHES, _DELTA = range(4, 7)
_REASONS = {
    **REASONS,
    _VARINT: "a varint has more than 64 bits",
    _PATCHES: "a patch list is impossible",
    _DELTA: "a delta run is too short for its deltas",
}
MAX_VALUES_PER_BYTE = 128
"""Four bytes can stand for 512 equal values, nothing is denser; version 1 needs 3 bytes or more for at most 130."""

# Widths by their five-bit code.
_WIDTHS = np.array([*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64], dtype=np.int64)

_MAX_RUN = 512
# A run of a single value costs ten bytes at most, a longer run less per value.
_MAX_BYTES_PER_VALUE = 10
_MAX_PATCHES = 31
# Number of values that are compared without a branch.
_STRIDE = 16
# A header of a byte, a value of a byte, and the header of the next block.
_MIN_BREAK_BITS = 32
# The base is stored as sign and magnitude, in at most eight bytes. A base below this limit is rounded up to 56 bits and
# gets a bit for the sign; widths above 56 are rounded up to 64, which leaves no room for the sign.
_BASE_LIMIT = 1 << 55
# Below this the steps of a run cannot overflow twice.
_STEP_LIMIT = 1 << 52


_Summary: TypeAlias = tuple[int, int, int, int, int]
"""Of a block: least and greatest value, patterns or-ed, later distances or-ed, 1 if the values rise or fall."""


def decode_ints(buf: Bytes, count: int, *, signed: bool, version: int, surplus: Surplus | None = None) -> Longs:
    """Return the first `count` values of an uncompressed integer stream.

    `version` is 1 for column encodings DIRECT and DICTIONARY, 2 for DIRECT_V2 and DICTIONARY_V2. Sums wrap at 64 bits
    as Java's do; unsigned values above 2^63-1 come out as their bit pattern.

    Raises CorruptError unless the stream holds so many. Without `surplus` no run may go beyond them either (writers cut
    the last one), and no byte may follow.
    """
    if count < 0 or count > MAX_VALUES_PER_BYTE * len(buf):
        raise CorruptError(f"Cannot decode integers: {len(buf)} bytes cannot hold {count} values")
    # a run is decoded as a whole, and the last one may go beyond the values
    out = np.empty(count + _MAX_RUN - 1, dtype=np.int64)
    code, at = (_decode_v1 if version == 1 else _decode_v2)(buf, out, int(signed))
    if code != OK:
        place = f"(run at byte {at} of {len(buf)}, {count} values wanted)"
        report(code, f"Cannot decode integers: {_REASONS[code]} {place}", surplus)
    return out[:count]


@kernel
def unzigzag(value: int) -> int:
    """Return the signed value of a zigzag pattern."""
    return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1)


@kernel
def read_varint(buf: Bytes, pos: int) -> tuple[int, int]:
    """Return an unsigned varint of at most 64 bits and the position behind it; on damage 0 and a negative code."""
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
    return 0, -TRUNCATED


@entry
def _decode_v1(buf: Bytes, out: Longs, signed: int) -> tuple[int, int]:
    count = len(out) - (_MAX_RUN - 1)
    pos = 0
    done = 0
    at = 0
    while done < count:
        at = pos
        if pos + 1 >= len(buf):
            return TRUNCATED, at
        control = byte_at(buf, pos)
        literals = control >= 0x80
        length = 0x100 - control if literals else control + 3
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
    if pos < len(buf):
        return TRAILING, pos
    return (OK if done == count else TOO_MANY), at


@entry
def _decode_v2(buf: Bytes, out: Longs, signed: int) -> tuple[int, int]:
    count = len(out) - (_MAX_RUN - 1)
    patches = np.empty(32, dtype=np.int64)
    pos = 0
    done = 0
    at = 0
    while done < count:
        at = pos
        if pos + 1 >= len(buf):
            return TRUNCATED, at
        first = byte_at(buf, pos)
        kind = first >> 6
        length = (first & 7) + 3 if kind == 0 else ((first & 1) << 8 | byte_at(buf, pos + 1)) + 1
        coded_width = (first >> 1) & 31
        if kind == 0:
            size = ((first >> 3) & 7) + 1
            if size > len(buf) - pos - 1:
                return TRUNCATED, at
            value = _big_endian(buf, pos + 1, size)
            out[done : done + length] = unzigzag(value) if signed else value
            pos += 1 + size
        elif kind == 1:
            pos = _unpack(buf, pos + 2, out, done, length, int(_WIDTHS[coded_width]))
            if pos > 0 and signed:
                for i in range(done, done + length):
                    out[i] = unzigzag(out[i])
        elif kind == 2:
            pos = _patched_base(buf, pos + 2, out, done, length, int(_WIDTHS[coded_width]), patches)
        else:
            width = int(_WIDTHS[coded_width]) if coded_width else 0
            pos = _delta(buf, pos + 2, out, done, length, width, signed)
        if pos < 0:
            return -pos, at
        done += length
    if pos < len(buf):
        return TRAILING, pos
    return (OK if done == count else TOO_MANY), at


@kernel
def _big_endian(buf: Bytes, pos: int, size: int) -> int:
    value = 0
    for i in range(pos, pos + size):
        value = (value << 8) | byte_at(buf, i)
    return value


@kernel
def _unpack(buf: Bytes, pos: int, out: Longs, start: int, length: int, width: int) -> int:
    size = (length * width + 7) >> 3
    if size > len(buf) - pos:
        return -TRUNCATED
    data = buf[pos:]
    target = out[start : start + length]
    shift = np.uint64(64 - width)
    # eight bytes from where a value begins hold it: it is at most 30 bits wide or begins with a byte
    whole = min(length, ((len(data) - 8) * 8 + 7) // width + 1) if len(data) >= 8 else 0
    for i in range(whole):
        at = i * width
        target[i] = np.int64((load_word(data, at >> 3) << np.uint64(at & 7)) >> shift)
    for i in range(whole, length):
        first, end = i * width, i * width + width
        value = _big_endian(data, first >> 3, ((end + 7) >> 3) - (first >> 3)) >> (-end & 7)
        target[i] = value if width == 64 else value & ((1 << width) - 1)
    return pos + size


@kernel
def closest_width(bits: int) -> int:
    """Return the least width with a five-bit code that holds this many bits (0..64)."""
    if bits <= 24:
        return max(bits, 1)
    if bits <= 32:
        return bits + (bits & 1)
    return (bits + 7) & ~7


@kernel
def _patched_base(buf: Bytes, pos: int, out: Longs, start: int, length: int, width: int, patches: Longs) -> int:
    if len(buf) - pos < 2:
        return -TRUNCATED
    base_size = (byte_at(buf, pos) >> 5) + 1
    patch_width = int(_WIDTHS[byte_at(buf, pos) & 31])
    gap_width = (byte_at(buf, pos + 1) >> 5) + 1
    count = byte_at(buf, pos + 1) & 31
    pos += 2
    # Java and C++ refuse wide patches; on an empty list they would read past its end, so it is refused here
    if patch_width + gap_width > 64 or count == 0 or width == 64:
        return -_PATCHES
    if base_size > len(buf) - pos:
        return -TRUNCATED
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
    patch_mask = ~(-1 << patch_width)
    gap_mask = ~(-1 << (64 - patch_width))
    at = start
    filler = False
    for k in range(count):
        patch = patches[k] & patch_mask
        gap = (patches[k] >> patch_width) & gap_mask
        if gap == 0 and k > 0 and not filler:
            return -_PATCHES
        at += gap
        filler = gap == 255 and patch == 0
        if not filler:
            if at >= start + length:
                return -_PATCHES
            out[at] |= patch << width
    if filler:
        return -_PATCHES
    for i in range(start, start + length):
        out[i] = wrapping_add(out[i], base)
    return pos


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


def encode_ints(values: Longs, *, signed: bool, marks: Longs) -> Encoded:
    """Return the values as an uncompressed RLEv2 stream, with a position for each mark (a sorted value index, 0..len).

    Every run is one that Java, C++ and Trino read: bit widths of direct and delta runs are the aligned ones of Java's
    default strategy, a delta run never starts with delta 0 nor spans more than 63 bits, a patch list has at most 31
    entries. Runs are not cut at marks.
    """
    return Encoded(*_encode(values, int(signed), marks))


@entry
def _encode(values: Longs, signed: int, marks: Longs) -> tuple[Bytes, Longs, Longs]:
    """Return the stream, and for each mark an offset in it and the number of values to skip there.

    An even run has equal distances. A block is the values between even runs, at most 512. `forced`: the previous block
    was cut for the even run that begins at `start`, so that run is written. `calm`: no even run cut the previous
    block, so the fast search for the end of a block goes first.
    """
    out = np.empty(_MAX_BYTES_PER_VALUE * len(values), dtype=np.uint8)
    offsets = np.empty_like(marks)
    skips = np.zeros_like(marks)
    scratch = np.empty(_MAX_RUN, dtype=np.int64)
    same = np.empty(_MAX_RUN, dtype=np.uint8)
    start = 0
    pos = 0
    mark = 0
    forced = False
    calm = True
    summary = (0, 0, 0, 0, 0)
    while start < len(values):
        limit = min(len(values), start + _MAX_RUN)
        at = pos
        length = _even_run(values, start, limit)
        even = (forced and length > 2) or _even_run_pays(values, start, length, signed)
        if not even:
            if calm:
                summary = _summary(values[start:limit], signed)
                end = start + _calm_block_end(values[start:limit], signed, summary, same)
            else:
                end = _block_end(values, start, limit, signed)
            if end < limit or not calm:
                summary = _summary(values[start:end], signed)
            forced = end < limit
            calm = end == limit
            even = length > 2 and _lead_pays(values, start, length, _block_width(values[start:end], summary), signed)
        if even:
            end = start + length
            forced = False
            pos = _write_even_run(values, start, length, signed, out, pos)
        else:
            pos = _write_block(values[start:end], signed, summary, scratch, out, pos)
        mark = note_marks(marks, mark, start, end, at, offsets, skips)
        start = end
    offsets[mark:] = pos
    return out[:pos], offsets, skips


@kernel
def _even_run(values: Longs, start: int, limit: int) -> int:
    """Return the number of values from `start` on with equal distances that do not overflow."""
    if limit - start < 2:
        return limit - start
    step = wrapping_sub(values[start + 1], values[start])
    end = start + 2
    while end + _STRIDE <= limit:
        later, former = values[end : end + _STRIDE], values[end - 1 : end - 1 + _STRIDE]
        other = 0
        for i in range(_STRIDE):
            other |= wrapping_sub(later[i], former[i]) ^ step
        if other:
            break
        end += _STRIDE
    while end < limit and wrapping_sub(values[end], values[end - 1]) == step:
        end += 1
    # the first and last values show whether the steps overflowed
    if not _is_small(step) or (step > 0) != (values[end - 1] > values[start]):
        return 1
    return end - start


@kernel
def _is_small(step: int) -> bool:
    return -_STEP_LIMIT < step < _STEP_LIMIT


@kernel
def _pattern(value: int, signed: int) -> int:
    """Return the pattern that is packed for a value outside of delta runs."""
    return zigzag(value) if signed else value


@kernel
def aligned_width(bits: int) -> int:
    """Return the least width of 1, 2, 4, 8, 16, .. 64 for this many bits. Source: ORC getClosestAlignedFixedBits."""
    if bits > 8:
        return (bits + 7) & ~7
    if bits > 4:
        return 8
    return 4 if bits == 3 else max(bits, 1)


@kernel
def _even_run_bits(value: int, step: int, length: int, signed: int) -> int:
    pattern = _pattern(value, signed)
    if step == 0 and length <= 10:
        return 8 * (1 + big_endian_size(pattern))
    return 8 * (2 + varint_size(pattern) + varint_size(zigzag(step)))


@kernel
def _even_run_pays(values: Longs, start: int, length: int, signed: int) -> bool:
    """Return whether an even run is cheaper by itself than in a block with the next value. Later values are unknown."""
    if length < 3:
        return False
    step = wrapping_sub(values[start + 1], values[start])
    if start + length == len(values) or length == _MAX_RUN:
        return step == 0 or length > 3
    bits = bit_length(_pattern(values[start], signed) | _pattern(values[start + length], signed))
    return step == 0 and _lead_pays(values, start, length, aligned_width(bits), signed)


@kernel
def _lead_pays(values: Longs, start: int, length: int, width: int, signed: int) -> bool:
    """Return whether an even run at the start of a block of this width is cheaper by itself."""
    step = wrapping_sub(values[start + 1], values[start])
    cost = _even_run_bits(values[start], step, length, signed)
    if step == 0:
        return width * length > cost
    return length > 3 and width * length > 2 * cost


@kernel
def _width(is_steady: int, patterns: int, distances: int) -> int:
    """Return the bits of each value of a block, outliers aside."""
    return aligned_width(bit_length(distances if is_steady else patterns))


@kernel
def _block_width(block: Longs, summary: _Summary) -> int:
    _, _, patterns, distances, is_monotonic = summary
    return _width(is_monotonic and block[1] != block[0], patterns, distances)


@kernel
def _write_even_run(values: Longs, start: int, length: int, signed: int, out: Bytes, pos: int) -> int:
    step = wrapping_sub(values[start + 1], values[start])
    pattern = _pattern(values[start], signed)
    if step == 0 and 3 <= length <= 10:
        size = big_endian_size(pattern)
        out[pos] = (size - 1) << 3 | (length - 3)
        return write_big_endian(out, pos + 1, pattern, size)
    out[pos] = 0xC0 | (length - 1) >> 8
    out[pos + 1] = (length - 1) & 0xFF
    pos = write_varint(out, pos + 2, pattern)
    return write_varint(out, pos, zigzag(step))


@kernel
def _block_end(values: Longs, start: int, limit: int, signed: int) -> int:
    """Return the end of the block from `start` on: the limit, or the start of the first even run that pays by itself.

    A run is judged where it ends, together with the value after it, which may be wider or end a monotonic block.
    """
    patterns = _pattern(values[start], signed)
    distances = 0
    rising = 1
    falling = 1
    seen = start + 1
    run = 1
    step = 0
    distance = 0
    for end in range(start + 1, limit + 1):
        if end < limit:
            distance = wrapping_sub(values[end], values[end - 1])
            if distance == step:
                run += 1
                continue
        head = end - run
        if head > start and (run > 3 or (run == 3 and step == 0)):
            following = min(end + 1, limit)
            for i in range(seen, following):
                patterns |= _pattern(values[i], signed)
                rising &= int(values[i] >= values[i - 1])
                falling &= int(values[i] <= values[i - 1])
                distances |= magnitude(wrapping_sub(values[i], values[i - 1])) if i > start + 1 else 0
            seen = following
            width = _width((rising | falling) and values[start + 1] != values[start], patterns, distances)
            if _break_pays(values[head], step, run, width, signed):
                return head
        run = 2
        step = distance
    return limit


@kernel
def _calm_block_end(block: Longs, signed: int, summary: _Summary, same: Bytes) -> int:
    """Return the end of the block as `_block_end` does, by the values' summary; fast where few even runs are long.

    Only a run that would pay in a block as wide as all the values can pay in the block that ends with it.
    """
    if len(block) < 4:
        return len(block)
    last = len(block) - 1
    # the width of all values: distances, of which a shorter block may consist, are never wider than patterns
    width = _block_width(block, summary)
    # same[i]: the distances before and behind value i are equal
    any_same = 0
    for i in range(1, last):
        equal = int(wrapping_sub(block[i + 1], block[i]) == wrapping_sub(block[i], block[i - 1]))
        same[i] = equal
        any_same |= equal
    if not any_same:
        return len(block)
    fewest = max(1, _MIN_BREAK_BITS // width - 1)
    edge = 1
    while edge < last and same[edge]:
        edge += 1
    while edge + fewest < last:
        i = edge + fewest
        while i > edge and same[i]:
            i -= 1
        if i > edge:
            edge = i
            continue
        end = edge + fewest + 1
        while end < last and same[end]:
            end += 1
        # the run goes from the edge to the value after the last flag
        run = end + 1 - edge
        step = wrapping_sub(block[edge + 1], block[edge])
        if (run > 3 or step == 0) and _break_pays(block[edge], step, run, width, signed):
            exact = _block_width(block, _summary(block[: end + 2], signed))
            if _break_pays(block[edge], step, run, exact, signed):
                return edge
        edge = end
    return len(block)


@kernel
def _summary(block: Longs, signed: int) -> _Summary:
    least = block[0]
    greatest = block[0]
    patterns = 0
    for i in range(len(block)):
        least = min(least, block[i])
        greatest = max(greatest, block[i])
        patterns |= _pattern(block[i], signed)
    distances = 0
    rising = 1
    falling = 1
    for i in range(len(block) - 1):
        rising &= int(block[i + 1] >= block[i])
        falling &= int(block[i + 1] <= block[i])
        distances |= magnitude(wrapping_sub(block[i + 1], block[i])) if i else 0
    return least, greatest, patterns, distances, rising | falling


@kernel
def _break_pays(value: int, step: int, run: int, width: int, signed: int) -> bool:
    """Return whether a block should end before an even run, which then costs a run of its own and another header."""
    if width * run <= _MIN_BREAK_BITS:
        return False
    cost = _even_run_bits(value, step, run, signed) + 16
    if step == 0:
        return width * run > cost
    # a narrow block of distances deflates well, so the gain must be clear
    return _is_small(step) and width * run > 2 * cost


@kernel
def _write_block(block: Longs, signed: int, summary: _Summary, scratch: Longs, out: Bytes, pos: int) -> int:
    """Write values that are no even run in the cheapest form: distances, patched patterns or plain patterns."""
    length = len(block)
    least, greatest, patterns, distances, is_monotonic = summary
    width = aligned_width(bit_length(patterns))
    cost = 2 + (length * width + 7) // 8
    # the greatest distance in the block must fit 63 bits, for exact sums
    if length > 3 and wrapping_sub(greatest, least) >= 0:
        first = block[1] - block[0]
        if first != 0 and is_monotonic:
            # code 0, which width 1 would have, means a run of equal deltas
            delta_width = max(2, aligned_width(bit_length(distances)))
            head = 2 + varint_size(_pattern(block[0], signed)) + varint_size(zigzag(first))
            if head + ((length - 2) * delta_width + 7) // 8 <= cost:
                for i in range(length - 2):
                    scratch[i] = abs(block[i + 2] - block[i + 1])
                pos = _write_header(0xC0, delta_width, length, out, pos)
                pos = write_varint(out, pos, _pattern(block[0], signed))
                pos = write_varint(out, pos, zigzag(first))
                return pack_bits(out, pos, scratch, length - 2, delta_width)
        if -_BASE_LIMIT < least < _BASE_LIMIT and _has_outliers(block, signed, bit_length(patterns)):
            for i in range(length):
                scratch[i] = block[i] - least
            patched_width = _patched_width(scratch[:length], least, greatest - least, cost)
            if patched_width:
                return _write_patched(scratch[:length], patched_width, least, greatest - least, out, pos)
    for i in range(length):
        scratch[i] = _pattern(block[i], signed)
    pos = _write_header(0x40, width, length, out, pos)
    return pack_bits(out, pos, scratch, length, width)


@kernel
def _write_header(kind: int, width: int, length: int, out: Bytes, pos: int) -> int:
    out[pos] = kind | width_code(width) << 1 | (length - 1) >> 8
    out[pos + 1] = (length - 1) & 0xFF
    return pos + 2


@kernel
def _has_outliers(block: Longs, signed: int, bits: int) -> bool:
    """Return whether at most a tenth of the patterns needs the last two of the bits.

    Source: Java's RunLengthIntegerWriterV2. Java considers patches under this condition only; it is cheap to test.
    """
    if bits < 3:
        return False
    shift = bits - 2
    wide = 0
    for value in block:
        wide += int(_pattern(value, signed) >> shift != 0)
    return wide <= len(block) // 10


@kernel
def _patched_width(above: Longs, base: int, greatest: int, limit: int) -> int:
    """Return the width with which patching values above a base is cheapest, 0 if that needs `limit` bytes or more."""
    counts = np.zeros(65, dtype=np.int64)
    for value in above:
        counts[bit_length(value)] += 1
    top = closest_width(bit_length(greatest))
    head = 4 + (bit_length(abs(base)) + 8) // 8
    best = 0
    wider = 0
    for bits in range(63, 0, -1):
        patch_width = closest_width(top - bits) if bits < top else 0
        if 0 < patch_width <= 56 and closest_width(bits) == bits:
            if wider > _MAX_PATCHES - 2:
                break
            # gap widths are not known yet: the widest and a filler are assumed
            tail = ((wider + 1) * closest_width(patch_width + 8) + 7) // 8
            cost = head + (len(above) * bits + 7) // 8 + tail
            if wider and cost < limit:
                limit = cost
                best = bits
        wider += counts[bits]
    return best


@kernel
def _write_patched(above: Longs, width: int, base: int, greatest: int, out: Bytes, pos: int) -> int:
    """Write values above a base, the bits beyond the width in a patch list, where a gap above 255 needs fillers."""
    patch_width = closest_width(bit_length(greatest) - width)
    patches = np.empty(_MAX_PATCHES, dtype=np.int64)
    count = 0
    widest_gap = 1
    last = 0
    for i in range(len(above)):
        patch = above[i] >> width
        if patch == 0:
            continue
        gap = i - last
        widest_gap = max(widest_gap, gap)
        while gap > 255:
            patches[count] = 255 << patch_width
            count += 1
            gap -= 255
        patches[count] = gap << patch_width | patch
        count += 1
        last = i
        above[i] &= (1 << width) - 1
    gap_width = min(8, bit_length(widest_gap))
    base_size = (bit_length(abs(base)) + 8) // 8
    if base < 0:
        base = -base | 1 << (base_size * 8 - 1)
    pos = _write_header(0x80, width, len(above), out, pos)
    out[pos] = (base_size - 1) << 5 | width_code(patch_width)
    out[pos + 1] = (gap_width - 1) << 5 | count
    pos = write_big_endian(out, pos + 2, base, base_size)
    pos = pack_bits(out, pos, above, len(above), width)
    return pack_bits(out, pos, patches, count, closest_width(patch_width + gap_width))
