"""What the encoders return: a stream and the positions of row-group starts in it."""

from dataclasses import dataclass

import numpy as np

from acidlib.orc.kernels.jit import Bytes, Longs, kernel_longs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Encoded:
    """An encoded stream before compression, with a position for each mark.

    A mark is the index of the first value of a row group. `offsets` holds the byte offset in `data` of the run that
    contains this value, `skips` the number of values of that run to pass over. A mark behind the last value points to
    the end of the stream with skip 0.
    """

    data: Bytes
    offsets: Longs
    skips: Longs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedBits:
    """An encoded stream of bits. As Encoded, where `skips` counts bytes of the run, and `bits` bits of that byte (0-7).

    Source: ORC's BitFieldWriter.getPosition. Inside a partly filled last byte, a mark behind the last bit points into
    that byte, as Java's writer records it.
    """

    data: Bytes
    offsets: Longs
    skips: Longs
    bits: Longs


def checked_marks(marks: Longs, count: int) -> Longs:
    """The marks as kernels take them. Raises ValueError if they do not ascend within 0..count."""
    checked = kernel_longs(marks)
    if len(checked) and (checked[0] < 0 or checked[-1] > count or bool(np.any(np.diff(checked) < 0))):
        raise ValueError(f"marks must ascend within 0..{count}")
    return checked
