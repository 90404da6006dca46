"""Where compiled kernels are kept: compiled once for an installation, and used by everybody who may read it.

A file holds one kernel, compiled for one set of types. Its name is a digest of all that the code depends on: the
sources of the kernels, the compiler, the interpreter and the processor. So nothing in it is ever out of date, no path
and no time of modification matters, and two processes that compile the same kernel write the same file.

It is looked for beside the kernels, where whoever made the installation has compiled them (`acidlib.rewrite.warm`),
then in the user's own directory: `acidlib` in `NUMBA_CACHE_DIR`, else in `XDG_CACHE_HOME` or `~/.cache`. It is written
to the first of them that can be written; where none can, what is compiled lasts as long as its process.

Numba's own cache passes over a directory that this user cannot write, has another one for each path of an installation
below `NUMBA_CACHE_DIR`, and knows no change of a kernel that is called from another module.
"""

import hashlib
import importlib.util
import os
import pickle
import pkgutil
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]  # no type information is published
import numba
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

_BESIDE = Path(__file__).parent / "__pycache__"
_DIGEST = hashlib.sha256().digest_size


class CompiledKernels(NullCache):
    """Loads and keeps the compiled forms of one function; what numba's dispatcher asks for as its cache."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property
    def cache_path(self) -> str:
        """Where the installation has its own."""
        return str(_BESIDE)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form for these types on this processor; None when it has to be compiled."""
        target_context.refresh()
        name = self._name(sig, target_context.codegen())
        for directory in _directories():
            payload = _read(directory / name)
            if payload is not None:
                parts = pickle.loads(payload)  # noqa: S301 - it is as much to be trusted as the code beside it
                return CompileResult._rebuild(target_context, *parts)  # type: ignore[no-untyped-call]
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps what has just been compiled, if it can be kept anywhere."""
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
    """A digest of the text of a module and of all modules of this package: a kernel calls what is in these."""
    shared = sorted(f"{__package__}.{found.name}" for found in pkgutil.iter_modules([str(Path(__file__).parent)]))
    digest = hashlib.sha256()
    for name in dict.fromkeys([*shared, module]):
        get_source = getattr(getattr(importlib.util.find_spec(name), "loader", None), "get_source", None)
        text: str | None = None if get_source is None else get_source(name)
        # without its text it is not known what was compiled: then it is good for this process only
        digest.update((uuid.uuid4().hex if text is None else text).encode() + b"\0")
    return digest.hexdigest()


def _directories() -> Iterator[Path]:
    yield _BESIDE
    named = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # this user has no home directory
        yield (Path(named) if named else Path.home() / ".cache") / "acidlib"


def _read(path: Path) -> bytes | None:
    try:
        whole = path.read_bytes()
    except OSError:
        return None  # it is not there, or not for this user
    payload = whole[_DIGEST:]
    return payload if hashlib.sha256(payload).digest() == whole[:_DIGEST] else None


def _write(directory: Path, name: str, whole: bytes) -> bool:
    temporary = directory / f"{name}.{uuid.uuid4().hex}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(whole)
        temporary.replace(directory / name)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        return False
    return True


@cache
def _report(processor: str, kept: Path | None) -> None:
    """Prints one line for people, once in a process."""
    where = f"kept in {kept}" if kept else "not kept, for no directory can be written; NUMBA_CACHE_DIR names one"
    print(
        f"acidlib: compiling kernels for this processor ({processor}), which takes a minute; {where}", file=sys.stderr
    )
