"""The compilation of kernels, the cache of compiled kernels, and functions that kernels share.

A kernel is a function over contiguous arrays that numba compiles once for one set of types, without the interpreter
lock. Numba checks no bounds in kernels: those that decode check every index themselves and report damage by a code,
all others get columns that the reader has checked.

Signed sums that overflow are undefined in compiled code (numba marks them so for LLVM, which optimizes on it). Sums of
a file's values are therefore computed by wrapping_add and wrapping_sub.

A file holds a kernel, compiled for one set of types. Its name is a digest of all that the code depends on: the sources
of the kernels, the compiler, the interpreter and the processor. So no file is ever out of date, no path and no time of
modification matters, and two processes that compile the same kernel write the same file.

A file is looked up beside the kernels, where an installation compiles them (`acidlib.rewrite.warm`), then in `acidlib`
of `NUMBA_CACHE_DIR`, then in `acidlib` of `XDG_CACHE_HOME` or `~/.cache`. It is written to the first of these that is
writable; without any, compiled kernels last as long as the process. Outside of the installation directory and file are
used only if this user or root owns them, no other user can write them, and neither is a link.

Numba's own cache skips a directory that this user cannot write, has another directory for each path of an installation
below `NUMBA_CACHE_DIR`, and misses changes of a kernel that is called from another module.
"""

import hashlib
import importlib.util
import os
import pickle
import pkgutil
import stat
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite  # type: ignore[import-untyped]  # no type information is published
import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.extending import intrinsic

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_intrinsic = cast(Callable[[Callable[..., Any]], Any], intrinsic)
_BESIDE = Path(__file__).parent / "__pycache__"
_DIGEST = hashlib.sha256().digest_size
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def kernel(function: _Function) -> _Function:
    """Compile a function on its first call, unless its compiled form is in the cache."""
    dispatcher = cast(Any, numba.njit(nogil=True)(function))
    dispatcher._cache = CompiledKernels(function)  # numba has no public way to set a cache
    return cast(_Function, dispatcher)


def entry(function: _Function) -> _Function:
    """Compile a kernel that is called from Python alone, with arrays of any layout.

    Kernels are compiled for contiguous and writable arrays; others are copied first.
    """
    compiled = kernel(function)

    @wraps(compiled)
    def call(*arguments: Any) -> Any:
        plain = (plain_array(value) if isinstance(value, np.ndarray) else value for value in arguments)
        return compiled(*plain)

    return cast(_Function, call)


def plain_array(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values as a contiguous and writable array, without a copy if they already are."""
    array = np.ascontiguousarray(values)
    return array if array.flags.writeable else array.copy()


class CompiledKernels(NullCache):
    """The cache that numba's dispatcher has for the compiled forms of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled form for these types on this processor, or None when it has to be compiled."""
        target_context.refresh()
        name = self._name(sig, target_context.codegen())
        for directory in _directories():
            payload = _read(directory / name, is_installed=directory == _BESIDE)
            if payload is not None:
                parts = pickle.loads(payload)  # noqa: S301 - written by an owner whom this user trusts with code
                return CompileResult._rebuild(target_context, *parts)  # type: ignore[no-untyped-call]
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a newly compiled form to the first writable directory, if there is any."""
        if data.library.has_dynamic_globals or any(not loop.can_cache for loop in data.lifted):
            return
        payload: bytes = dumps(data._reduce())  # type: ignore[no-untyped-call]
        whole = hashlib.sha256(payload).digest() + payload
        name = self._name(sig, data.codegen)
        kept = next((directory for directory in _directories() if _write(directory, name, whole)), None)
        _report(data.codegen.magic_tuple()[1], kept)

    def _name(self, sig: Any, codegen: Any) -> str:
        module, function = self._function.__module__, self._function.__qualname__
        versions = numba.__version__, llvmlite.__version__, sys.implementation.cache_tag
        key = repr((_sources(module), function, sig, codegen.magic_tuple(), versions))
        return f"{module.rpartition('.')[2]}.{function}-{hashlib.sha256(key.encode()).hexdigest()[:32]}.nbc"


@cache
def _sources(module: str) -> str:
    """Return a digest of the text of a module and of all modules of this package, whose functions kernels call."""
    shared = sorted(f"{__package__}.{info.name}" for info in pkgutil.iter_modules([str(Path(__file__).parent)]))
    digest = hashlib.sha256()
    for name in dict.fromkeys([*shared, module]):
        get_source = getattr(getattr(importlib.util.find_spec(name), "loader", None), "get_source", None)
        text: str | None = None if get_source is None else get_source(name)
        # without the text a compiled form cannot be matched to it: it is good for this process only
        digest.update((uuid.uuid4().hex if text is None else text).encode() + b"\0")
    return digest.hexdigest()


def _directories() -> Iterator[Path]:
    yield _BESIDE
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(named) / "acidlib"
    with suppress(RuntimeError):  # this user has no home directory
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acidlib"


def _read(path: Path, *, is_installed: bool) -> bytes | None:
    """Return the content of a file, or None if it is missing, damaged, or not to be trusted.

    Loading it runs code. Files beside the kernels are as trustworthy as the installation. Files elsewhere have to be
    this user's or root's, and so their directory: a shared `NUMBA_CACHE_DIR` may hold anybody's files.
    """
    try:
        with _opened(path.parent, is_installed=is_installed) as folder:
            flags = os.O_RDONLY | os.O_NONBLOCK | (0 if is_installed else os.O_NOFOLLOW)
            with os.fdopen(os.open(path.name, flags, dir_fd=folder), "rb") as file:
                status = os.fstat(file.fileno())
                is_plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
                if not is_installed and not (is_plain and _is_ours(status)):
                    return None
                whole = file.read()
    except OSError:
        return None  # it is not there, or not for this user
    payload = whole[_DIGEST:]
    return payload if hashlib.sha256(payload).digest() == whole[:_DIGEST] else None


def _write(directory: Path, name: str, whole: bytes) -> bool:
    temporary = f"{name}.{uuid.uuid4().hex}"
    is_installed = directory == _BESIDE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _opened(directory, is_installed=is_installed, repair=True) as folder:
            try:
                new = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder)
                with os.fdopen(new, "wb") as file:
                    os.fchmod(new, 0o644)  # whatever the umask: _read refuses a file that others can write
                    file.write(whole)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                return False
    except OSError:
        return False
    return True


@contextmanager
def _opened(directory: Path, *, is_installed: bool, repair: bool = False) -> Iterator[int]:
    """Open a directory; PermissionError for one outside of the installation that others can write, or a link.

    repair  take the right to write in it from others, if it is this user's own
    """
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | (0 if is_installed else os.O_NOFOLLOW))
    try:
        status = os.fstat(folder)
        if repair and not is_installed and status.st_uid == os.geteuid() and status.st_mode & _BY_OTHERS:
            os.fchmod(folder, stat.S_IMODE(status.st_mode) & ~_BY_OTHERS)
            status = os.fstat(folder)
        if not is_installed and not _is_ours(status):
            raise PermissionError(directory)
        yield folder
    finally:
        os.close(folder)


def _is_ours(status: os.stat_result) -> bool:
    """Return whether this user or root owns a file or directory, and no other user can write it."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & _BY_OTHERS


@cache
def _report(processor: str, kept: Path | None) -> None:
    """Print a line for people, once for each directory."""
    where = f"kept in {kept}" if kept else "not kept, for no directory is writable; set NUMBA_CACHE_DIR to one that is"
    print(
        f"acidlib: compiling kernels for this processor ({processor}), which takes a minute; {where}", file=sys.stderr
    )


@_intrinsic
def leading_zeros(_context: Any, _value: Any) -> Any:
    """Return the number of leading zeros of a 64-bit pattern."""

    def generate(_codegen: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@_intrinsic
def load_word(_context: Any, data: Any, _at: Any) -> Any:
    """Return the eight bytes from an index on as a big-endian number. The caller keeps the index inside the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        word = builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()), align=1)
        return builder.bswap(word) if sys.byteorder == "little" else word

    return types.uint64(data, types.int64), generate


@_intrinsic
def store_word(_context: Any, _data: Any, _at: Any, _word: Any) -> Any:
    """Write a number as eight big-endian bytes from an index on. The caller keeps the index inside the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())
        word = builder.bswap(arguments[2]) if sys.byteorder == "little" else arguments[2]
        builder.store(word, address, align=1)
        return context.get_dummy_value()

    return types.none(types.Array(types.uint8, 1, "C"), types.int64, types.uint64), generate


@_intrinsic
def swapped(_context: Any, _word: Any) -> Any:
    """Return the number with its bytes in reverse order."""

    def generate(_codegen: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), generate


@_intrinsic
def copy_bytes(_context: Any, _target: Any, _at: Any, _source: Any, _start: Any, _size: Any) -> Any:
    """Copy bytes from an index of an array to an index of another. The caller keeps both ranges inside."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = context.make_array(signature.args[0])(context, builder, arguments[0])
        source = context.make_array(signature.args[2])(context, builder, arguments[2])
        to, origin = builder.gep(target.data, [arguments[1]]), builder.gep(source.data, [arguments[3]])
        cgutils.raw_memcpy(builder, to, origin, arguments[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    octets = types.Array(types.uint8, 1, "C")
    return types.none(octets, types.int64, octets, types.int64, types.int64), generate


@kernel
def bit_length(value: int) -> int:
    """Return the bits that the 64-bit pattern of a value needs: 0 for 0, 64 for anything negative."""
    bits: int = 64 - leading_zeros(value)
    return bits


@kernel
def byte_at(buf: Bytes, pos: int) -> int:
    """Return a byte as a signed 64-bit number: mixed with unsigned ones it would become a float in numba."""
    return int(np.int64(buf[pos]))


@kernel
def wrapping_add(a: int, b: int) -> int:
    """Return the sum modulo 2^64, as Java's long."""
    return int(np.int64(np.uint64(a) + np.uint64(b)))


@kernel
def wrapping_sub(a: int, b: int) -> int:
    """Return the difference modulo 2^64, as Java's long."""
    return int(np.int64(np.uint64(a) - np.uint64(b)))


@kernel
def magnitude(value: int) -> int:
    """Return the absolute value; that of the least number is its own pattern."""
    sign = value >> 63
    return wrapping_sub(value ^ sign, sign)
