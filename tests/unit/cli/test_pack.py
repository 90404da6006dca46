"""What `acidlib pack` refuses, and that nothing half made has the name of an archive."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import venv_pack
from click.testing import CliRunner, Result

from acidlib.cli import pack


class Environment:
    """In place of venv-pack's: writes something, and may fail then."""

    failure: Exception | None = None

    def __init__(self, prefix: str) -> None:
        assert prefix == sys.prefix

    def exclude(self, pattern: str) -> Environment:
        assert "pyspark" in pattern
        return self

    def pack(self, output: str, **_: Any) -> None:
        Path(output).write_bytes(b"archive")
        if self.failure is not None:
            raise self.failure


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acidlib.rewrite.warm.main", lambda: None)
    monkeypatch.setattr(pack, "_linked_packages", list)
    monkeypatch.setattr(venv_pack, "Env", Environment)


def packed(path: Path, *words: str) -> Result:
    return CliRunner().invoke(pack.pack, [str(path), *words])


def test_it_tells_how_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    ran = packed(path)
    assert ran.exit_code == 0
    assert ran.stdout.startswith(f"{path}: 7 bytes.")
    assert path.stat().st_mode & 0o777 == 0o644
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_an_archive_that_is_there_stays_unless_it_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(b"before")
    assert "--force replaces it" in packed(path).stderr
    assert path.read_bytes() == b"before"
    assert packed(path, "--force").exit_code == 0
    assert path.read_bytes() == b"archive"


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (venv_pack.VenvPackException("it is no environment"), "it is no environment"),
        (OSError(28, "No space left on device"), "the operating system said: No space left on device"),
    ],
)
def test_nothing_half_made_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, words: str
) -> None:
    monkeypatch.setattr(Environment, "failure", failure)
    ran = packed(tmp_path / "a.tar.gz")
    assert ran.exit_code == 1
    assert words in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_would_be_missing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packed(tmp_path / "a.zip").exit_code == 2
    with monkeypatch.context() as patch:
        patch.setattr(pack, "_linked_packages", lambda: ["acidlib"])
        assert "acidlib is only linked into it" in packed(tmp_path / "a.tar.gz").stderr
    assert list(tmp_path.iterdir()) == []


def test_what_packs_is_missed_before_the_kernels_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr("acidlib.rewrite.warm.main", lambda: compiled.append("all"))
    monkeypatch.setitem(sys.modules, "venv_pack", None)
    ran = packed(tmp_path / "a.tar.gz")
    assert ran.exit_code == 1
    (line,) = ran.stderr.splitlines()
    assert "pip install 'acidlib[pack]'" in line
    assert compiled == []
    assert list(tmp_path.iterdir()) == []
