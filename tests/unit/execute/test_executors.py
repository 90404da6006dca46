"""Executors and the driver need the same Python and the same version of this package."""

from __future__ import annotations

import platform
from dataclasses import replace

import pytest

import acidlib
from acidlib.execute.executors import describe_executor, difference_of

HERE = describe_executor("attempt")


def test_a_task_sees_its_own_machine() -> None:
    assert (HERE.python, HERE.package) == (platform.python_version().rpartition(".")[0], acidlib.__version__)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"compiled": not HERE.compiled}, None),
        ({"python": "2.7"}, "two has Python 2.7 and acidlib {1}, the driver {0} and {1}"),
        ({"package": "0.0.1"}, "two has Python {0} and acidlib 0.0.1, the driver {0} and {1}"),
    ],
)
def test_only_python_and_the_package_have_to_be_the_same(change: dict[str, object], words: str | None) -> None:
    executors = [replace(HERE, host="one"), replace(HERE, host="two", **change)]  # type: ignore[arg-type]
    expected = words and words.format(HERE.python, HERE.package)
    assert difference_of(executors, HERE) == expected
