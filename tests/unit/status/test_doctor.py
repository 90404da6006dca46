"""`acidlib doctor`: what it finds and says, and what becomes of what cannot be looked at."""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from integration.harness import AROUND, IN_PROCESS

import acidlib
from acidlib.acid.names import Generation
from acidlib.api.caller import Caller
from acidlib.cli import jobs
from acidlib.errors import RetryError
from acidlib.execute import executors
from acidlib.execute.executors import describe_executor
from acidlib.status import doctor
from acidlib.status.doctor import (
    State,
    clock_check,
    compactor_check,
    executors_check,
    java_check,
    spark_check,
)
from acidlib.stores.renaming.local import LocalFileSystem

AT = 1_700_000_000.0
SPARK = importlib.metadata.version("pyspark")


OK, NOTE, WRONG = State.OK, State.NOTE, State.WRONG


def hms(started_ms: int | None, ended: list[int]) -> Any:
    return SimpleNamespace(
        calls=Generation.HIVE4,
        open_txn=lambda kind, agent: 7,
        open_txns_info=lambda: [SimpleNamespace(id=6, started_ms=1), SimpleNamespace(id=7, started_ms=started_ms)],
        commit_txn=lambda txn_id, kind: ended.append(txn_id),
    )


@pytest.mark.parametrize(
    ("moment", "state", "words"),
    [
        (0.5, OK, "within 5 s of the metastore's"),
        (-4.9, OK, "within 5 s of the metastore's"),
        (-6.0, WRONG, "6 s ahead of the metastore's"),
        (7201.0, WRONG, "7,200 s behind the metastore's"),
    ],
)
def test_the_metastores_time_is_that_of_a_transaction(moment: float, state: State, words: str) -> None:
    ended: list[int] = []
    clock = iter((AT, AT + 1))
    check = clock_check(hms(int((AT + moment) * 1000), ended), lambda: next(clock))
    assert (check.state, check.found, bool(check.advice)) == (state, words, state is WRONG)
    assert ended == [7]


def test_a_metastore_that_does_not_say_when() -> None:
    ended: list[int] = []
    with pytest.raises(RetryError, match="does not say when a transaction was opened"):
        clock_check(hms(None, ended), lambda: AT)
    assert ended == [7]


@pytest.mark.parametrize(
    ("said", "state", "words"),
    [
        ('openjdk version "17.0.9" 2026-01-01', OK, "version 17 ({0})"),
        ('openjdk version "25" 2026-01-01', OK, "version 25 ({0})"),
        ('openjdk version "1.8.0_402" 2026-01-01', WRONG, "{0} is version 8"),
        ("a shell", WRONG, "{0} does not tell its version"),
        (None, WRONG, "{0} cannot be run"),
    ],
)
def test_java_is_looked_for_where_spark_looks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str | None, state: State, words: str
) -> None:
    java = tmp_path / "bin" / "java"
    if said is not None:
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
        java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check = java_check()
    assert (check.state, check.found, bool(check.advice)) == (state, words.format(java), state is WRONG)


@pytest.mark.parametrize(
    ("jars", "state", "words"),
    [
        ([f"spark-core_2.13-{SPARK}.jar"], OK, f"version {SPARK} ({{0}})"),
        (["spark-core_2.12-3.1.1.jar", "x.jar"], WRONG, f"{{0}} is version 3.1.1, and PySpark here is {SPARK}"),
        (["x.jar"], WRONG, "{0} holds no Spark"),
    ],
)
def test_spark_is_that_of_spark_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jars: list[str], state: State, words: str
) -> None:
    (tmp_path / "jars").mkdir()
    for name in jars:
        (tmp_path / "jars" / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    check = spark_check()
    assert (check.state, check.found, bool(check.advice)) == (state, words.format(tmp_path), state is WRONG)


def called(tmp_path: Path, *words: str) -> Result:
    queue = ("--queue-url", f"sqlite:///{tmp_path}/queue.db")
    return CliRunner().invoke(jobs.doctor, [*queue, "--metastore-uri", "none", *words], obj=IN_PROCESS)


def test_everything_is_looked_at_although_something_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (doctor, executors):
        monkeypatch.setattr(module, "has_compiled_kernels", lambda: False)
    (tmp_path / "w").mkdir()
    words = ("--location", str(tmp_path / "w"), "--location", str(tmp_path / "none"), "--output", "json")
    ran = called(tmp_path, *words)
    found = [(check["name"], check["state"]) for check in json.loads(ran.stdout)["checks"]]
    assert ran.exit_code == 1
    assert found[2:] == [
        ("Spark", "ok"), ("settings", "ok"), ("kernels", "note"), ("executors", "note"), ("metastore", "unchecked"),
        ("Hive's compactor", "unchecked"), ("clock", "unchecked"), ("store", "ok"), ("probe", "note"),
        ("store", "wrong"), ("queue", "ok"),
    ]  # fmt: skip
    assert called(tmp_path).exit_code == 0, "what cannot be looked at is not wrong"


@pytest.mark.parametrize("is_full", [True, False], ids=["a full disk", "a broken promise"])
def test_a_promise_that_could_not_be_tried_is_not_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    def create(self: LocalFileSystem, path: str, data: bytes, **_: object) -> None:
        if is_full:
            raise RetryError(f"Cannot write {path}: no space is left")
        Path(path).write_bytes(data)

    monkeypatch.setattr(LocalFileSystem, "create", create)
    ran = called(tmp_path, "--location", str(tmp_path), "--output", "json")
    (store,) = (check for check in json.loads(ran.stdout)["checks"] if check["name"] == "store")
    assert (ran.exit_code, store["state"]) == (1, "wrong")
    assert ("no space is left" in store["found"], "created again" in store["found"]) == (is_full, not is_full)
    assert store["advice"].startswith("a job needs room there" if is_full else "tables there cannot be compacted")


def test_a_lake_of_directories_tries_its_own_place(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    lake = acidlib.warehouse(tmp_path, queue=f"sqlite:///{tmp_path}/queue.db", caller=Caller(IN_PROCESS))
    for given, places in (((), (tmp_path,)), (str(other), (tmp_path, other))):
        stores = [
            check.found.partition(":")[0] for check in lake.doctor(locations=given).checks if check.name == "store"
        ]
        assert stores == [str(place) for place in places]


def test_what_was_configured_by_a_variable_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a lake and by a doctor in the same words."""
    uris = "<property><name>hive.metastore.uris</name><value>thrift://127.0.0.1:1</value></property>"
    (tmp_path / "hive-site.xml").write_text(f"<configuration>{uris}</configuration>")
    (tmp_path / "core-site.xml").write_text("<configuration/>")
    for variable in ("HIVE_CONF_DIR", "HADOOP_CONF_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    source = f"HIVE_CONF_DIR ({tmp_path})"
    assert repr(acidlib.connect()) == f"<Lake: thrift://127.0.0.1:1 of {source}>"
    assert repr(acidlib.connect("thrift://127.0.0.1:1")) == "<Lake: thrift://127.0.0.1:1>"
    words = ("--queue-url", f"sqlite:///{tmp_path}/queue.db", "--output", "json")
    ran = CliRunner().invoke(jobs.doctor, words, obj=IN_PROCESS)
    made = {check["name"]: check for check in json.loads(ran.stdout)["checks"]}
    assert made["settings"]["found"] == f"hive-site.xml of {source}; core-site.xml of HADOOP_CONF_DIR ({tmp_path})"
    assert f"hive-site.xml of {source} name one" in made["metastore"]["advice"]
    monkeypatch.delenv("HIVE_CONF_DIR")
    with pytest.raises(acidlib.UsageError, match=r"of HIVE_CONF_DIR, or read directories"):
        acidlib.connect().table("a.b")


def test_without_java_no_executors_are_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(AROUND, "session", lambda **_: pytest.fail("started"))
    ran = called(tmp_path)
    assert ran.exit_code == 1
    assert ("unchecked", "executors") in [tuple(line.split()[:2]) for line in ran.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("generation", "settings", "words"),
    [
        (Generation.HIVE4, ("true", "2", "true"), "on: initiator, 2 workers, cleaner"),
        (Generation.HIVE3, ("true", "2", "true"), "on: initiator, 2 workers"),
        (Generation.HIVE4, ("false", "-1", ""), "off, as far as the metastore's settings say"),
        (Generation.HIVE4, ("", "0", "false"), "off, as far as the metastore's settings say"),
    ],
)
def test_hives_own_compactor_is_worth_a_note(generation: Generation, settings: tuple[str, ...], words: str) -> None:
    keys = (f"metastore.compactor.{name}" for name in ("initiator.on", "worker.threads", "cleaner.on"))
    values = dict(zip(keys, settings, strict=True))
    asked: Any = SimpleNamespace(calls=generation, config_value=lambda key, _: values[key])
    check = compactor_check(asked)
    is_on = words.startswith("on")
    assert (check.state, check.found, bool(check.advice)) == (NOTE if is_on else OK, words, is_on)


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ({}, OK, "at yarn, looked at on one, two"),
        ({"compiled": False}, NOTE, "at yarn; the kernels are not compiled for the processor of two"),
        ({"python": "2.7"}, WRONG, "two has Python 2.7 and acidlib {1}, the driver {0} and {1}"),
        ({"package": "0.0.1"}, WRONG, "two has Python {0} and acidlib 0.0.1, the driver {0} and {1}"),
    ],
)
def test_executors_are_compared_with_the_driver(change: dict[str, object], state: State, words: str) -> None:
    driver = replace(describe_executor(""), compiled=True)
    found = [replace(driver, host="one"), replace(driver, host="two", **change)]  # type: ignore[arg-type]
    runner: Any = SimpleNamespace(run_batches=lambda tasks, group: [[one] for one in found])
    check = executors_check(lambda: runner, lambda: "yarn")
    assert (check.state, check.found) == (state, words.format(driver.python, driver.package))
    assert bool(check.advice) == (state is not OK)
