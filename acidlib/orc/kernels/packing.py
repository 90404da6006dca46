"""Bits, varints and big-endian numbers as run lengths pack them. Source: ORC specification, Run Length Encoding."""

import numpy as np

from acidlib.orc.kernels.jit import Bytes, Longs, bit_length, kernel


@kernel
def zigzag(value: int) -> int:
    """The pattern with the sign in its lowest bit."""
    return (value << 1) ^ (value >> 63)


@kernel
def width_code(width: int) -> int:
    """The five-bit code of a bit width (1..24, 26, 28, 30, 32, 40, 48, 56, 64)."""
    if width <= 24:
        return width - 1
    if width <= 32:
        return 12 + width // 2 - 1
    return 23 + width // 8


@kernel
def varint_size(pattern: int) -> int:
    """Bytes of an unsigned varint."""
    return (max(bit_length(pattern), 1) + 6) // 7


@kernel
def big_endian_size(pattern: int) -> int:
    """Bytes of a big-endian number, at least one."""
    return (max(bit_length(pattern), 1) + 7) // 8


@kernel
def write_varint(out: Bytes, pos: int, pattern: int) -> int:
    """Writes an unsigned varint and returns the position behind it."""
    while pattern & ~0x7F:
        out[pos] = (pattern & 0x7F) | 0x80
        pattern = (pattern >> 7) & 0x01FFFFFFFFFFFFFF
        pos += 1
    out[pos] = pattern
    return pos + 1


@kernel
def write_big_endian(out: Bytes, pos: int, pattern: int, size: int) -> int:
    """Writes the lowest bytes of a number and returns the position behind them."""
    for i in range(size):
        out[pos + i] = (pattern >> (8 * (size - 1 - i))) & 0xFF
    return pos + size


@kernel
def pack(out: Bytes, pos: int, patterns: Longs, length: int, width: int) -> int:
    """Packs patterns of a bit width, padded to a byte, and returns the position behind them."""
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
