"""How the kernels are compiled, and what they share.

A kernel is a function over contiguous arrays that numba compiles once for one set of types, without the interpreter
lock. Kernels check every index themselves and report damage by a code: bounds are not checked for them.

Signed sums that overflow are undefined in compiled code (numba marks them so for LLVM, which then reasons from it):
whatever is computed from a file's values goes through wrapping_add and wrapping_sub.
"""

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]  # no type information is published
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from acidlib.orc.kernels.compiled import CompiledKernels

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compiles a function on its first call, unless it finds it compiled (see `compiled`)."""
    dispatcher = cast(Any, numba.njit(nogil=True)(function))
    dispatcher._cache = CompiledKernels(function)  # numba has no other way to name one
    return cast(_Function, dispatcher)


def _leading_zeros(_context: Any, _value: Any) -> Any:
    def generate(_codegen: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


leading_zeros = cast(Callable[[int], int], intrinsic(_leading_zeros))


def _load_word(_context: Any, data: Any, _at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        word = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
        return builder.bswap(word) if sys.byteorder == "little" else word

    return types.uint64(data, types.int64), generate


load_word = cast(Callable[[Bytes, int], np.uint64], intrinsic(_load_word))
"""The eight bytes from an index on as one big-endian number. The caller keeps the index inside the array."""


def _store_word(_context: Any, _data: Any, _at: Any, _word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())
        word = builder.bswap(arguments[2]) if sys.byteorder == "little" else arguments[2]
        builder.store(word, place, align=1)
        return context.get_dummy_value()

    return types.none(types.Array(types.uint8, 1, "C"), types.int64, types.uint64), generate


store_word = cast(Callable[[Bytes, int, np.uint64], None], intrinsic(_store_word))
"""Writes a number as eight big-endian bytes from an index on. The caller keeps the index inside the array."""


def _swapped(_context: Any, _word: Any) -> Any:
    def generate(_codegen: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


swapped = cast(Callable[[np.uint64], np.uint64], intrinsic(_swapped))
"""The number whose bytes stand the other way round."""


def _copy_bytes(_context: Any, _target: Any, _at: Any, _source: Any, _start: Any, _size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = context.make_array(signature.args[0])(context, builder, arguments[0])
        source = context.make_array(signature.args[2])(context, builder, arguments[2])
        to, origin = builder.gep(target.data, [arguments[1]]), builder.gep(source.data, [arguments[3]])
        cgutils.raw_memcpy(builder, to, origin, arguments[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    octets = types.Array(types.uint8, 1, "C")
    return types.none(octets, types.int64, octets, types.int64, types.int64), generate


copy_bytes = cast(Callable[[Bytes, int, Bytes, int, int], None], intrinsic(_copy_bytes))
"""Copies bytes from a place in one array to a place in another. The caller keeps both inside."""


@kernel
def bit_length(value: int) -> int:
    """Bits that the 64-bit pattern of a value needs: 0 for 0, 64 for anything negative."""
    return 64 - leading_zeros(value)


@kernel
def byte_at(buf: Bytes, pos: int) -> int:
    """A byte as a signed 64-bit number: kernels never mix it with unsigned ones, which numba would make floats."""
    return int(np.int64(buf[pos]))


@kernel
def wrapping_add(a: int, b: int) -> int:
    """The sum modulo 2^64, as Java's long."""
    return int(np.int64(np.uint64(a) + np.uint64(b)))


@kernel
def wrapping_sub(a: int, b: int) -> int:
    """The difference modulo 2^64, as Java's long."""
    return int(np.int64(np.uint64(a) - np.uint64(b)))


@kernel
def magnitude(value: int) -> int:
    """The absolute value; that of the least number is its own pattern."""
    sign = value >> 63
    return wrapping_sub(value ^ sign, sign)


def kernel_bytes(buf: object) -> Bytes:
    """A writable contiguous uint8 view of any buffer: the one type kernels are compiled for. Copies read-only input."""
    array = buf if isinstance(buf, np.ndarray) else np.frombuffer(cast(bytes, buf), dtype=np.uint8)
    return kernel_array(array, np.dtype(np.uint8))


def kernel_longs(values: npt.NDArray[Any]) -> Longs:
    """The values as a writable contiguous int64 array, without a copy where they are one already."""
    return cast(Longs, kernel_array(values, np.dtype(np.int64)))


def kernel_flags(values: npt.NDArray[Any]) -> Flags:
    """The values as a writable contiguous bool array, without a copy where they are one already."""
    return cast(Flags, kernel_array(values, np.dtype(np.bool_)))


def kernel_array(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The values as a writable contiguous array of a type, without a copy where they are one already."""
    array = np.ascontiguousarray(values, dtype=dtype)
    return array if array.flags.writeable else array.copy()
