"""`acidlib doctor`: what it finds and says, and what becomes of what cannot be looked at."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
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
from acidlib.status.doctor import (
    Check,
    Executor,
    State,
    broken_promises,
    clock_check,
    compactor_check,
    executors_check,
    hives_compactor,
    java_check,
    look_at_java,
    look_at_spark,
    seconds_ahead,
    spark_check,
)
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.stores import Stores

AT = 1_700_000_000.0


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
    assert broken_promises(Stores(), local_location(str(tmp_path)), "1") == broken
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


OK, NOTE, WRONG = State.OK, State.NOTE, State.WRONG
DRIVER = Executor(host="one", python="3.11", package="0.1.0", compiled=True)
JAVA = 'openjdk version "{}" 2026-01-01\nOpenJDK Runtime Environment'


@pytest.mark.parametrize(
    ("check", "state", "words"),
    [
        (java_check("java", JAVA.format("17.0.9")), OK, "version 17 (java)"),
        (java_check("/j/bin/java", JAVA.format("25")), OK, "version 25 (/j/bin/java)"),
        (java_check("java", JAVA.format("1.8.0_402")), WRONG, "java is version 8"),
        (java_check("java", "a shell"), WRONG, "java does not tell its version"),
        (java_check("java", None), WRONG, "java cannot be run"),
        (spark_check("/s", ["spark-core_2.13-4.0.1.jar"], "4.0.1"), OK, "version 4.0.1 (/s)"),
        (
            spark_check("/s", ["spark-core_2.12-3.5.1.jar", "x.jar"], "4.0.1"),
            WRONG,
            "/s is version 3.5.1, and PySpark here is 4.0.1",
        ),
        (spark_check("/s", ["x.jar"], "4.0.1"), WRONG, "/s holds no Spark"),
        (compactor_check(""), OK, "off, as far as the metastore's settings say"),
        (compactor_check("initiator, 2 workers"), NOTE, "on: initiator, 2 workers"),
        (clock_check(4.9), OK, "within 5 s of the metastore's"),
        (clock_check(-7200.0), WRONG, "7,200 s behind the metastore's"),
        (clock_check(6.0), WRONG, "6 s ahead of the metastore's"),
    ],
)
def test_what_a_line_says(check: Check, state: State, words: str) -> None:
    assert (check.state, check.found) == (state, words)
    assert bool(check.advice) == (state in (NOTE, WRONG)), "what is not as it has to be says what to do"


@pytest.mark.parametrize(
    ("generation", "settings", "working"),
    [
        (Generation.HIVE4, ("true", "2", "true"), "initiator, 2 workers, cleaner"),
        (Generation.HIVE3, ("true", "2", "true"), "initiator, 2 workers"),
        (Generation.HIVE4, ("false", "-1", ""), ""),
        (Generation.HIVE4, ("", "0", "false"), ""),
    ],
)
def test_what_of_hives_own_compactor_is_on(generation: Generation, settings: tuple[str, ...], working: str) -> None:
    keys = (f"metastore.compactor.{name}" for name in ("initiator.on", "worker.threads", "cleaner.on"))
    values = dict(zip(keys, settings, strict=True))
    asked: Any = SimpleNamespace(generation=generation, config_value=lambda key, _: values[key])
    assert hives_compactor(asked) == working


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ({}, OK, "at yarn, looked at on one, two"),
        ({"compiled": False}, NOTE, "at yarn; the kernels are not compiled for the processor of two"),
        ({"python": "3.12"}, WRONG, "two has Python 3.12 and acidlib 0.1.0, the driver 3.11 and 0.1.0"),
        ({"package": "0.2.0"}, WRONG, "two has Python 3.11 and acidlib 0.2.0, the driver 3.11 and 0.1.0"),
    ],
)
def test_executors_are_compared_with_the_driver(change: dict[str, object], state: State, words: str) -> None:
    check = executors_check("yarn", DRIVER, [DRIVER, replace(DRIVER, host="two", **change)])  # type: ignore[arg-type]
    assert (check.state, check.found) == (state, words)
