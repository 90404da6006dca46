"""The environment is made once, whoever asks for it first."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# in place of Python, pip and java: makes a directory for `venv`, and notes what it is called with
FAKE = """#!/bin/sh
echo "$@" >> "{calls}"
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi
"""


class Checkout:
    """A project's folder without an environment."""

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self._calls = root / "calls"
        self._bin = root / "bin"
        (self.root / "conf").mkdir(parents=True)
        shutil.copy(ROOT / "conf/make-env.sh", self.root / "conf")
        (self.root / "pyproject.toml").touch()
        for name in ("acidlib/orc/kernels/jit.py", "acidlib/orc/columns.py", "acidlib/rows/row_ids.py"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).touch()
        self._bin.mkdir()
        for name in ("python3", "java"):
            (self._bin / name).write_text(FAKE.format(calls=self._calls))
            (self._bin / name).chmod(0o755)

    def make(self, *extra: str) -> list[str]:
        """What is called to make the environment; beside it bytecode is made, some time."""
        self._calls.write_text("")
        environment = {"PATH": f"{self._bin}:{os.environ['PATH']}"}
        subprocess.run([self.root / "conf/make-env.sh", *extra], env=environment, check=True, capture_output=True)
        lines = self._calls.read_text().splitlines()
        return [" ".join(line.split()[1:3]) for line in lines if line.startswith("-m") and "compileall" not in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


WHOLE = ["venv {root}/.venv", "pip install", "acidlib.rewrite.warm"]


def test_it_is_made_once(checkout: Checkout) -> None:
    assert checkout.make() == [word.format(root=checkout.root) for word in WHOLE]
    assert checkout.make() == []


def test_what_tests_need_has_what_jobs_need(checkout: Checkout) -> None:
    assert checkout.make("test") == [word.format(root=checkout.root) for word in WHOLE]
    assert checkout.make() == []
    assert checkout.make("test") == []


def test_kernels_may_be_compiled_by_another_call(checkout: Checkout) -> None:
    assert checkout.make("test", "--no-kernels") == [word.format(root=checkout.root) for word in WHOLE[:2]]
    assert checkout.make("test", "--no-kernels") == []
    assert checkout.make("test") == WHOLE[2:]
    assert checkout.make("test") == []


def test_jobs_do_not_bring_what_tests_need(checkout: Checkout) -> None:
    checkout.make()
    assert "pip install" in checkout.make("test")


@pytest.mark.parametrize("kernels", ["orc/kernels/jit.py", "orc/columns.py", "rows/row_ids.py"])
def test_changed_kernels_are_compiled_ahead(checkout: Checkout, kernels: str) -> None:
    checkout.make()
    old = [checkout.root / "acidlib/orc/kernels/__pycache__" / name for name in ("jit.f-1.py311.nbi", "jit.f-1a.nbc")]
    old[0].parent.mkdir()
    for path in old:
        path.touch()
    warm = (checkout.root / ".venv/.warm").stat().st_mtime
    os.utime(checkout.root / "acidlib" / kernels, (warm + 1, warm + 1))
    assert checkout.make() == ["acidlib.rewrite.warm"]
    assert not any(path.exists() for path in old)
