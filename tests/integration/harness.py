"""Runs of the jobs in this process, and pictures of what they left on disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from claim_directories import claims_at_time
from click.testing import CliRunner
from conformance.hive_tables import FIXTURES
from judges import merge
from pyspark import SparkContext
from runners import LocalRunner
from servers.java import SMALL

from acidlib.cli import jobs
from acidlib.execute.spark import SparkRunner, hadoop_in_jvm
from acidlib.execute.spark_options import SparkOptions
from acidlib.execute.task import Runner
from acidlib.metastore.options import KerberosLogin
from acidlib.queue.sql import SqlQueue
from acidlib.runs import plan
from acidlib.runs.machine import Machine
from acidlib.stores.renaming.store import RenameStage, RenameStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
TASKS_PATH = f"{ROOT}:{ROOT / 'tests'}"
"""Where Spark's workers find the engine and what tests run in place of its tasks."""
COMMANDS: dict[str, click.Command] = {
    "cancel": jobs.cancel,
    "cleaner": jobs.cleaner,
    "initiator": jobs.initiator,
    "major_compact": jobs.major_compact,
    "minor_compact": jobs.minor_compact,
    "show_compactions": jobs.show_compactions,
    "status": jobs.status,
    "show_place": jobs.show_place,
    "undo": jobs.undo,
}


class Surroundings:
    """What jobs in this process find around them; a test may change it for its length."""

    def __init__(self) -> None:
        self.runner: Runner = LocalRunner(lambda: uuid.uuid4().hex)
        self.clock: Callable[[], float] = time.time
        self.hadoop: Mapping[str, str] = {}
        self.placed = False
        self.login = KerberosLogin()
        self.jvm: Callable[[], tuple[Any, Any]] = hadoop_in_jvm
        self.pause: Callable[[float], None] = time.sleep

    def said(self) -> SparkOptions:
        """In place of what is said to Spark."""
        found = {f"spark.hadoop.{name}": text for name, text in self.hadoop.items()}
        login = {"principal": self.login.principal, "keytab": self.login.keytab}
        return SparkOptions((), found | {f"spark.kerberos.{name}": text for name, text in login.items() if text})

    @contextmanager
    def session(self, *, name: str, conf: dict[str, str]) -> Iterator[Runner]:
        """In place of a Spark session."""
        yield self.runner


AROUND = Surroundings()
IN_PROCESS = Machine(
    session=AROUND.session,
    spark_options=AROUND.said,
    is_placed=lambda: AROUND.placed,
    jvm=lambda: AROUND.jvm(),
    clock=lambda: AROUND.clock(),
    pause=lambda seconds: AROUND.pause(seconds),
)
"""The machine of jobs in this process."""


def use_runner(monkeypatch: Any, runner: Runner) -> None:
    """Let jobs in this process run on a Spark context that is there already."""
    monkeypatch.setattr(AROUND, "runner", runner)


SMALL_CONF = {
    "spark.driver.extraJavaOptions": " ".join(SMALL),
    "spark.executorEnv.PYTHONPATH": TASKS_PATH,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of a small Spark whose tasks find the modules of the tests."""


@contextmanager
def spark_context(conf: Mapping[str, str]) -> Iterator[SparkRunner]:
    """A Spark context whose tasks find the modules of the tests."""
    fixed = {**SMALL_CONF, "spark.python.daemon.module": "acidlib.execute.spark_daemon"}
    with _around_spark(), SparkRunner(name="acidlib-tests", conf={**fixed, **conf}) as found:
        yield found


@contextmanager
def session_of_a_program(conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session as a program has it, with these settings besides SMALL_CONF."""
    from pyspark.sql import SparkSession  # not by all tests of jobs

    with _around_spark():
        builder = SparkSession.builder.master("local[2]")
        for name, text in {**SMALL_CONF, **conf}.items():
            builder = builder.config(name, text)
        handler = signal.getsignal(signal.SIGINT)
        made = builder.getOrCreate()
        made.sparkContext.setLogLevel("OFF")
        try:
            yield made
        finally:
            made.stop()
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _around_spark() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", TASKS_PATH)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_LAUNCHER_OPTS", " ".join(SMALL))
        set_in_jvm({})
        yield


def set_in_jvm(conf: Mapping[str, str]) -> None:
    """Settings of Spark that its JVM has from its start, where another test has started it: these, and spark-submit's.

    A JVM outlives its contexts, and gives each the settings that the first one was started with.
    """
    if SparkContext._jvm is None:
        return
    system = SparkContext._jvm.java.lang.System
    for name in system.getProperties().stringPropertyNames():
        if name.startswith("spark."):
            system.clearProperty(name)
    of_submit = {"spark.app.name": "pyspark-shell", "spark.master": "local[*]"}
    for name, text in {**of_submit, **conf}.items():
        system.setProperty(name, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a job ended."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """What the document says when the job could not be done: nothing but that."""
        document = self.document
        assert set(document) == {"job", "version", "run_id", "error"}, document
        assert set(document["error"]) == {"kind", "message"}
        return document["error"]

    @property
    def begun(self) -> bool:
        """Whether there are results; else there is an error."""
        return "error" not in self.document

    @property
    def told(self) -> str:
        """Why: the reason of the first compaction, or the error that kept the job from beginning."""
        return self.compactions[0]["reason"] if self.begun else self.error["message"]

    @property
    def compactions(self) -> list[dict[str, Any]]:
        return self.document["compactions"]

    @property
    def states(self) -> list[str]:
        return [entry["state"] for entry in self.compactions]


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Runs jobs in this process against one queue, with JSON output unless `text`."""

    queue_url: str

    def __call__(
        self,
        job: str,
        *arguments: str | Path,
        text: bool = False,
        queue_url: str | None = None,
        traceback: bool = False,
    ) -> Ran:
        line = ["--queue-url", queue_url or self.queue_url, *map(str, arguments)]
        done = CliRunner().invoke(COMMANDS[job], line if text else ["--output", "json", *line], obj=IN_PROCESS)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert traceback or "Traceback" not in done.output
        assert "\x02" not in done.output, "an argument is said in the words of the door"
        return Ran(status=done.exit_code, out=done.stdout, err=done.stderr)

    def good(self, job: str, *arguments: str | Path) -> Ran:
        ran = self(job, *arguments)
        assert ran.status == 0, ran
        return ran

    def queue(self) -> SqlQueue:
        return SqlQueue(self.queue_url)

    def shown(self) -> dict[int, dict[str, Any]]:
        """The rows of SHOW COMPACTIONS by id."""
        return {row["id"]: row for row in self.good("show_compactions").compactions}


def probed(uri: str) -> dict[str, str]:
    """The states of the promises of a store below a URI, by their names, once `acidlib probe` has tried them."""
    done = CliRunner().invoke(jobs.probe, ["--output", "json", uri], obj=IN_PROCESS)
    assert done.exit_code in (0, 1), done.output
    return {promise["name"]: promise["state"] for promise in json.loads(done.stdout)["promises"]}


def fixture(name: str, target: Path, *layers: str) -> Path:
    """A copy of a table that Hive wrote (`hive3/a_crud`), with the named results of Hive's own laid over it."""
    return merge.overlay(target, *(FIXTURES / name / layer for layer in ("before", *layers)))


def tree(root: Path, *, times: bool = True, without: Callable[[str], bool] = lambda _: False) -> dict[str, tuple]:
    """Everything below a directory: kind, contents, and unless told otherwise the modification times."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        status = path.lstat()
        name = path.relative_to(root).as_posix()
        if without(name):
            continue
        if stat.S_ISREG(status.st_mode):
            what = hashlib.sha256(path.read_bytes()).hexdigest() if os.access(path, os.R_OK) else "unreadable"
        else:
            what = str(path.readlink()) if path.is_symlink() else "directory"
        found[name] = (what, status.st_mode, status.st_mtime_ns if times else 0)
    return found


def within(place: Path) -> dict[str, tuple]:
    """The same without the place itself, whose own time changes when somebody tries to claim it."""
    return tree(place, without=lambda name: name == ".")


def added(before: dict[str, tuple], after: dict[str, tuple]) -> set[str]:
    """What is new at the top; everything that was there must be as it was, but for the times of directories."""
    for name, facts in before.items():
        assert after[name][:2] == facts[:2], name
        assert after[name][2] == facts[2] or facts[0] == "directory", name
    return {name.split("/")[0] for name in after.keys() - before.keys()}


def names(location: Path) -> list[str]:
    """All entries of a directory, hidden ones included."""
    return sorted(path.name for path in location.iterdir())


def visible(location: Path) -> list[str]:
    """The entries that readers see."""
    return [name for name in names(location) if name[0] not in "_."]


SMALL_SPARK = dict.fromkeys(("SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"), " ".join(SMALL))
"""Variables for the JVMs of spark-submit."""


def submit(*words: str | Path, home: Path, **more: str) -> subprocess.Popen[str]:
    """Spark's own command line, in a session of its own; with more variables of its environment."""
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_GATEWAY_PORT"}
    environment |= {"ACIDLIB_HOME": str(home), "PYTHONPATH": str(ROOT / "tests")} | SMALL_SPARK | more
    return subprocess.Popen(
        [str(ROOT / "spark-submit.sh"), *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True,
    )  # fmt: skip


def copy_once_more(source: Path, target: Path) -> Path:
    """A copy with modification times."""
    shutil.copytree(source, target, symlinks=True)
    return target


def at_time(monkeypatch: Any, seconds: float) -> None:
    """Let jobs, and the file system as far as claims can tell, believe that it is so many seconds later than it is."""
    claims_at_time(monkeypatch, seconds)
    monkeypatch.setattr(AROUND, "clock", lambda: time.time() + seconds)


def once_before(patch: pytest.MonkeyPatch, step: str, action: Callable[[], object]) -> None:
    """Let something happen right before a step of the next run."""
    module = {"file_task": plan, "stage": RenameStore}.get(step, RenameStage)
    real, left = getattr(module, step), [action]

    def wrapped(*arguments: Any, **more: Any) -> Any:
        if left:
            left.pop()()
        return real(*arguments, **more)

    patch.setattr(module, step, wrapped)


def left_at_publication(monkeypatch: Any) -> dict[str, bytes]:
    """The attempts that lie in staging, beside the accepted ones, whenever a run publishes."""
    found: dict[str, bytes] = {}
    publish = RenameStage.publish

    def looked(stage, directories, **more):
        found.update({path.name: path.read_bytes() for path in Path(stage.path, "_attempts").iterdir()})
        return publish(stage, directories, **more)

    monkeypatch.setattr(RenameStage, "publish", looked)
    return found


def results_alike(entry: dict[str, Any]) -> dict[str, Any]:
    """A result without what a plan and its execution may not share."""
    files = [{key: value for key, value in file.items() if key != "bytes"} for file in entry["files"]]
    left_out = ("id", "state", "start_ms", "end_ms", "seconds", "rewrite_seconds", "bytes_out")
    return {key: value for key, value in entry.items() if key not in left_out} | {"files": files}
