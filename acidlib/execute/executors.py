"""The environment of Spark's executors: their Python, package and machine, compared with the driver's."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from numba import types

import acidlib
from acidlib.orc.kernels.jit import bit_length

LOOKS = 4
"""Tasks that look at executors: so many meet most of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """The machine of a task: versions of Python (major.minor) and of this package, and whether kernels are compiled."""

    host: str
    python: str
    package: str
    compiled: bool


def describe_executor(attempt: str) -> Executor:
    """Describe the machine of a task."""
    del attempt
    return Executor(
        host=socket.gethostname(),
        python=".".join(platform.python_version_tuple()[:2]),
        package=acidlib.__version__,
        compiled=has_compiled_kernels(),
    )


def has_compiled_kernels() -> bool:
    """Return whether one kernel, and so all, is compiled for this processor; compile nothing."""
    dispatcher = cast(Any, bit_length)
    return dispatcher._cache.load_overload((types.int64,), dispatcher.targetctx) is not None


def difference_of(executors: Iterable[Executor], driver: Executor) -> str | None:
    """Return how an executor's Python or package differs from the driver's; None if none does."""
    for executor in executors:
        if (executor.python, executor.package) != (driver.python, driver.package):
            return (
                f"{executor.host} has Python {executor.python} and acidlib {executor.package}, the driver "
                f"{driver.python} and {driver.package}"
            )
    return None
