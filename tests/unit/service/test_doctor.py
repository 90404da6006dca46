"""The looks of `acidlib doctor`: at places, at clocks, and what becomes of what cannot be looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from integration.harness import AROUND, IN_PROCESS

from acidlib.cli import jobs
from acidlib.errors import ConflictError, RetryError
from acidlib.model.location import local_location
from acidlib.model.names import Generation
from acidlib.status import doctor
from acidlib.status.doctor import Around, broken_promises, look_at_java, look_at_spark, seconds_ahead
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.stores import Stores

AT = 1_700_000_000.0


def around(numbers: Iterator[int]) -> Around:
    return Around(
        session=lambda: AROUND.runner, master=lambda: "here", stores=Stores(), clock=lambda: AT,
        unique=lambda: str(next(numbers)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("method", "broken"),
    [
        (None, []),
        ("create", ["a file that exists was created again"]),
        ("rename_noreplace", ["a directory was renamed onto one that exists"]),
    ],
)
def test_promises_that_a_store_does_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str | None, broken: list[str]
) -> None:
    if method is not None:
        kept = getattr(LocalFileSystem, method)

        def pretended(self: LocalFileSystem, path: str, *rest: Any) -> None:
            with suppress(ConflictError):
                kept(self, path, *rest)

        monkeypatch.setattr(LocalFileSystem, method, pretended)
    assert broken_promises(around(iter(range(9))), local_location(str(tmp_path))) == broken
    assert list(tmp_path.iterdir()) == []


def hms(started_ms: int | None, ended: list[int]) -> Any:
    return SimpleNamespace(
        generation=Generation.HIVE4,
        open_txn=lambda kind, agent: 7,
        open_txns_info=lambda: [SimpleNamespace(id=6, started_ms=1), SimpleNamespace(id=7, started_ms=started_ms)],
        commit_txn=lambda txn_id, kind: ended.append(txn_id),
    )


@pytest.mark.parametrize(("moment", "ahead"), [(0.5, 0.0), (-3.0, 3.0), (61.0, -60.0)])
def test_the_metastores_time_is_that_of_a_transaction(moment: float, ahead: float) -> None:
    ended: list[int] = []
    clock = iter((AT, AT + 1))
    assert seconds_ahead(hms(int((AT + moment) * 1000), ended), lambda: next(clock)) == pytest.approx(ahead)
    assert ended == [7]


def test_a_metastore_that_does_not_say_when() -> None:
    ended: list[int] = []
    with pytest.raises(RetryError, match="does not say when a transaction was opened"):
        seconds_ahead(hms(None, ended), lambda: AT)
    assert ended == [7]


def test_java_and_spark_are_looked_for_where_spark_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert look_at_java().found == f"{tmp_path}/bin/java cannot be run"
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert look_at_spark().found == f"{tmp_path} holds no Spark"


def called(tmp_path: Path, *words: str) -> Result:
    queue = ("--queue-url", f"sqlite:///{tmp_path}/queue.db")
    return CliRunner().invoke(jobs.doctor, [*queue, "--metastore-uri", "none", *words], obj=IN_PROCESS)


def test_everything_is_looked_at_although_something_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "has_compiled_kernels", lambda: False)
    (tmp_path / "w").mkdir()
    words = ("--location", str(tmp_path / "w"), "--location", str(tmp_path / "none"), "--output", "json")
    ran = called(tmp_path, *words)
    found = [(check["name"], check["state"]) for check in json.loads(ran.stdout)["checks"]]
    assert ran.exit_code == 1
    assert found[2:] == [
        ("Spark", "ok"), ("kernels", "note"), ("executors", "note"), ("metastore", "unchecked"),
        ("Hive's compactor", "unchecked"), ("clock", "unchecked"), ("store", "ok"), ("store", "wrong"), ("queue", "ok"),
    ]  # fmt: skip
    assert called(tmp_path).exit_code == 0, "what cannot be looked at is not wrong"


def test_without_java_no_executors_are_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(AROUND, "session", lambda **_: pytest.fail("started"))
    ran = called(tmp_path)
    assert ran.exit_code == 1
    assert ("unchecked", "executors") in [tuple(line.split()[:2]) for line in ran.stdout.splitlines() if line]
