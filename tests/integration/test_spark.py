"""Units as Spark tasks: one session for all tests, and a real run of spark-submit.sh."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from judges import merge

from acidlib.errors import AcidError
from acidlib.execute.spark import SparkRunner
from acidlib.execute.task import Task
from acidlib.runs import plan as units
from integration import spark_tasks
from integration.harness import (
    ROOT,
    Jobs,
    added,
    fixture,
    left_at_publication,
    names,
    spark_context,
    submit,
    tree,
    visible,
)
from integration.test_hanging import others_are_done_where_a_task_hangs

pytestmark = pytest.mark.spark
NAMED = ("--all-committed", "--location")


@pytest.fixture(scope="module")
def runner() -> Iterator[SparkRunner]:
    """A Spark context in which a task may fail three times."""
    with spark_context({"spark.master": "local[2,4]"}) as found:
        yield found


@pytest.fixture
def crud(tmp_path: Path) -> Path:
    return fixture("hive3/a_crud", tmp_path / "db.db" / "crud")


def test_the_whole_cycle(spark_jobs: Jobs, tmp_path: Path) -> None:
    part = fixture("hive3/b_part", tmp_path / "w" / "db.db" / "part")
    rows = {path.name: merge.read(path) for path in part.iterdir()}
    damaged = part / "dt=2024-01-02" / "delta_0000001_0000001_0000" / "bucket_00000"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:400])
    spark_jobs.good("initiator", "--warehouse", tmp_path / "w", "--all-committed",
                    "--set", "hive.compactor.delta.num.threshold=1")  # fmt: skip
    ran = spark_jobs("major_compact", "--verify")
    assert ran.status == 3
    assert sorted(ran.states) == ["failed", "ready for cleaning", "ready for cleaning"]
    assert all(entry["verification"]["rows"] for entry in ran.compactions if entry["state"] != "failed")
    damaged.write_bytes(whole)
    spark_jobs.good("minor_compact", *NAMED, part, "--partition", "dt=*-02", "--minor-as-major-bytes", "0")
    spark_jobs.good("cleaner", "--retention", "0s")
    assert {path.name: merge.read(path, strict=True) for path in part.iterdir()} == rows
    assert visible(part / "dt=2024-01-02") == ["delete_delta_0000001_0000006", "delta_0000001_0000006"]


def test_a_task_whose_process_dies_is_tried_again(
    spark_jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = merge.read(crud)
    monkeypatch.setattr(units, "run_unit_task", spark_tasks.killed_once)
    attempts = left_at_publication(monkeypatch)
    (entry,) = spark_jobs.good("major_compact", *NAMED, crud).compactions
    assert (crud / "_killed_once").exists()
    assert len(attempts) == 1, "what the dead attempt wrote was there, and was left"
    assert entry["rows_out"] == len(rows)
    assert merge.read(crud, strict=True) == rows
    assert names(crud / "base_0000004") == ["_metadata_acid", "_orc_acid_version", "bucket_00000"]
    assert not [name for name in names(crud) if name.startswith(("_tmp", "_acidlib"))]


def test_second_attempts_are_not_published(spark_jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = merge.read(crud)
    monkeypatch.setattr(units, "run_unit_task", spark_tasks.done_twice)
    attempts = left_at_publication(monkeypatch)
    spark_jobs.good("minor_compact", *NAMED, crud, "--minor-as-major-bytes", "0")
    assert len(attempts) == 4
    for name in ("delta_0000001_0000004", "delete_delta_0000001_0000004"):
        assert names(crud / name) == ["_orc_acid_version", "bucket_00000"]
    assert merge.read(crud, strict=True) == rows


def test_when_spark_gives_up_the_table_is_untouched(
    spark_jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(crud)
    monkeypatch.setattr(units, "run_unit_task", spark_tasks.always_killed)
    ran = spark_jobs("major_compact", *NAMED, crud)
    assert (ran.status, ran.states) == (1, ["failed"])
    assert "Spark gave it up" in ran.compactions[0]["reason"]
    assert "\n" not in ran.compactions[0]["reason"]
    assert added(before, tree(crud)) == set()


def test_what_spark_gives_up_takes_nothing_else_with_it(
    spark_jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = fixture("hive3/b_part", tmp_path / "w" / "db.db" / "part")
    rows = {path.name: merge.read(path) for path in part.iterdir()}
    monkeypatch.setattr(units, "run_unit_task", spark_tasks.some_killed)
    ran = spark_jobs("major_compact", *NAMED, part)
    assert ran.status == 3
    bad = "dt=2024-01-02"
    states = {entry["partition"]: entry["state"] for entry in ran.compactions}
    assert states == {name: "failed" if name == bad else "ready for cleaning" for name in rows}
    (reason,) = (entry["reason"] for entry in ran.compactions if entry["state"] == "failed")
    assert re.match(rf"Cannot finish {part}/{bad}/base_\d+/bucket_00000 \(rewrite\): Spark gave it up: ", reason)
    assert {path.name: merge.read(path, strict=True) for path in part.iterdir()} == rows
    assert list(part.glob("*/_*")) == []


def test_where_a_task_hangs_the_others_are_done(
    spark_jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    table = fixture("hive3/b_part", tmp_path / "wh" / "db.db" / "b_part")
    others_are_done_where_a_task_hangs(spark_jobs, table, monkeypatch)


def test_where_nothing_goes_any_more_it_ends(runner: SparkRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acidlib.execute.spark._MAX_GIVEN_UP", 1)
    one, two, three = (Task(partial(spark_tasks.fatal, number), 0) for number in (1, 2, 3))
    done = runner.run_batches([[one, two], [three]], group="test")
    assert [[isinstance(it, AcidError) for it in batch] for batch in done] == [[True] * 2, [True]]


def test_the_job_is_called_by_what_it_compacts(spark_jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "run_unit_task", spark_tasks.described)
    spark_jobs.good("major_compact", *NAMED, crud)
    description, group, pool = (crud / "_described").read_text().splitlines()
    assert description.endswith("-compactor-db.crud: rewrite")
    assert group.startswith(description)
    assert pool == "acidlib-small"


def test_results_come_back_in_order_and_errors_as_values(runner: SparkRunner) -> None:
    tasks = [Task(partial(spark_tasks.broken, item), 0) for item in range(40)]
    found = runner.run_batches([tasks[start : start + 3] for start in range(0, 40, 3)], group="test")
    assert [len(batch) for batch in found] == [3] * 13 + [1]
    done = [one for batch in found for one in batch]
    values = [one for one in done if not isinstance(one, AcidError)]
    assert [value.split()[0] for value in values] == [str(i * 2) for i in range(40) if i not in (3, 4)]
    assert len(set(values)) == 38
    assert str(done[3]) == "Cannot do 3: the test says so"
    assert "unexpected IndexError" in str(done[4])
    assert runner.run_batches([], group="nothing") == []


def test_workers_are_forked_with_all_loaded(runner: SparkRunner) -> None:
    """And what was loaded before the fork no garbage collection looks at."""
    ((done,),) = runner.run_batches([[Task(spark_tasks.what_was_loaded, 0)]], group="test")
    assert done == (True, True)


@pytest.mark.slow
def test_spark_submit(jobs: Jobs, tmp_path: Path) -> None:
    """One document on standard output, the exit status, the default place of the queue."""
    part = fixture("hive4/part_table", tmp_path / "db.db" / "part")
    places = sorted(part.glob("*/*"))
    rows = [merge.read(place, generation=4) for place in places]
    damaged = places[1] / "delta_0000001_0000001_0000" / "bucket_00000_0"
    damaged.write_bytes(b"ORC")
    home = tmp_path / "home"
    process = submit(ROOT / "jobs" / "major_compact.py", *NAMED, part, "--output", "json", home=home)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    document = json.loads(out)
    assert document["application_id"].startswith("local-")
    assert document["tracking_url"] is None or document["tracking_url"].startswith("http://")
    states = {entry["partition"]: entry["state"] for entry in document["compactions"]}
    assert states == {
        "p=1/q=x": "ready for cleaning", "p=2/q=y y": "failed", "p=3/q=z": "ready for cleaning",
    }  # fmt: skip
    assert "Traceback" not in err
    assert "Exception" not in err
    for place, before in zip(places, rows, strict=True):
        if place != places[1]:
            assert merge.read(place, generation=4, strict=True) == before
    shown = Jobs(queue_url=f"sqlite:///{home / 'queue.db'}").shown()
    assert sorted(row["state"] for row in shown.values()) == ["failed", "ready for cleaning", "ready for cleaning"]
