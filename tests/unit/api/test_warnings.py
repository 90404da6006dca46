"""Warnings reach a program that wants no progress."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conformance.hive_tables import FIXTURES
from judges import merge

import acidlib

CALLS: list[Callable[..., Any]] = [acidlib.connect, acidlib.warehouse, acidlib.directory]


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of settings of this program."""
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    monkeypatch.setenv("ACIDLIB_CONF_DIR", str(tmp_path))
    return tmp_path / "acidlib.toml"


@pytest.mark.parametrize("call", CALLS)
def test_a_setting_without_effect_is_a_warning_at_the_line_of_the_program(
    call: Callable[..., Any], settings: Path
) -> None:
    settings.write_text('acidlib.retentoin = "1d"\n')
    with pytest.warns(
        UserWarning, match=r"^acidlib\.retentoin in acidlib\.toml is not known and has no effect$"
    ) as seen:
        call("none")
    assert [warning.filename for warning in seen] == [__file__]


def test_it_is_not_said_again_by_each_run(settings: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings.write_text('acidlib.retentoin = "1d"\n')
    place = merge.overlay(tmp_path / "w" / "t", FIXTURES / "hive3" / "a_crud" / "before")
    with pytest.warns(UserWarning, match="retentoin"):
        table = acidlib.directory(place, all_committed=True)
    steps: list[acidlib.Step] = []
    assert table.files(progress=steps.append).ok
    assert table.files(progress=False).ok
    assert [step.note for step in steps if step.note] == []
    assert caplog.messages == []


def test_a_run_without_progress_logs_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = merge.overlay(tmp_path / "w" / "t", FIXTURES / "hive3" / "j_stream" / "before")
    table = acidlib.directory(place, all_committed=True)
    table.plan("major", progress=False)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("acidlib", logging.WARNING)
    assert record.message.startswith("default.t: all_committed of acidlib.directory() may not be so")
