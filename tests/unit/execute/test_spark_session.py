"""What a session of Spark begins with."""

from __future__ import annotations

import logging
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j import java_gateway
from pyspark import SparkConf, SparkContext

from acidlib.errors import RefusedError, RetryError
from acidlib.execute import spark
from acidlib.execute.executors import describe_executor
from acidlib.execute.spark import (
    SessionRunner,
    SparkEndedError,
    SparkRunner,
    context_of,
    driver_spark_options,
    other_queue,
)
from acidlib.execute.spark_options import SUBMIT_ARGS, SparkOptions
from acidlib.execute.task import Task

PATH = "spark.executorEnv.PYTHONPATH"


@pytest.mark.parametrize(
    ("stated", "checkout", "path"),
    [
        ({}, Path("/src"), "/src"),
        ({}, None, None),
        ({PATH: "/other"}, Path("/src"), "/other"),
        ({"spark.archives": "a.tar.gz#environment"}, Path("/src"), None),
        ({"spark.yarn.dist.archives": "a.tar.gz#environment"}, Path("/src"), None),
    ],
)
def test_executors_find_a_checkout_but_never_before_an_archive(
    monkeypatch: pytest.MonkeyPatch, stated: dict[str, str], checkout: Path | None, path: str | None
) -> None:
    monkeypatch.setattr(spark, "CHECKOUT", checkout)
    assert SparkRunner(name="n", conf=stated)._conf.get(PATH) == path
    words = [word for name, value in stated.items() for word in ("--conf", f"{name}={value}")]
    monkeypatch.setenv(SUBMIT_ARGS, shlex.join([*words, "pyspark-shell"]))
    assert SparkRunner(name="n", conf={})._conf.get(PATH) == (None if PATH in stated else path)


@pytest.mark.parametrize("answer", [True, ConnectionRefusedError()])
def test_a_job_that_a_lost_spark_gives_up_is_no_failure_of_its_tasks(answer: bool | Exception) -> None:
    """Its context has stopped, or its JVM does not answer: it is not tried again in halves."""
    jobs: list[object] = []

    def asked() -> bool:
        if isinstance(answer, Exception):
            raise answer
        return answer

    class Lost:
        _jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=asked))

        def __getattr__(self, name: str) -> Any:
            jobs.append(name)
            raise OSError("[Errno 2] No such file or directory: '/tmp/spark-1'")

    runner = SparkRunner(name="n", conf={})
    runner._context = Lost()  # type: ignore[assignment]
    with pytest.raises(SparkEndedError, match="Cannot run two tasks: Spark has ended"):
        runner.run_batches([[Task(str, 0), Task(str, 0)]], group="two tasks")
    assert len(jobs) == 1
    assert runner.slots > 0


def test_after_a_cancel_no_half_is_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = SparkRunner(name="n", conf={})
    sizes: list[int] = []

    def one_job(batches: list[list[Task]], group: str) -> list[list[Any]]:
        sizes.append(sum(len(batch) for batch in batches))
        if len(sizes) == 1:
            raise RetryError(f"Cannot finish {group}: Spark gave it up")
        runner.cancel()  # while the first half runs
        return [["done"] for _ in batches]

    monkeypatch.setattr(runner, "_one_job", one_job)
    ((*answers,),) = runner.run_batches([[Task(str, 0)] * 4], group="four tasks")
    assert sizes == [4, 2]
    assert answers[:2] == ["done", "done"]
    assert [type(answer) for answer in answers[2:]] == [RetryError, RetryError]


def test_what_is_said_to_spark_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SUBMIT_ARGS, "--queue of-options --conf spark.hadoop.a=b --conf spark.a=stated pyspark-shell")
    session = SparkRunner(name="n", conf={"spark.yarn.queue": "of-settings", "spark.a": "ours", "spark.b": "ours"})
    session._conf.pop(PATH, None)
    assert session._conf == {"spark.b": "ours"}
    assert driver_spark_options().hadoop == {"a": "b"}


@pytest.mark.parametrize(
    ("placed", "submitted", "refused"),
    [
        (True, {"spark.master": "yarn"}, True),
        (True, {"spark.master": "yarn", "spark.yarn.queue": "other"}, False),
        (True, {"spark.master": "k8s://one"}, False),
        (False, {"spark.master": "yarn"}, False),
    ],
)
def test_a_queue_that_comes_too_late_is_refused(
    monkeypatch: pytest.MonkeyPatch, placed: bool, submitted: dict[str, str], refused: bool
) -> None:
    monkeypatch.setattr(spark, "driver_spark_options", lambda: SparkOptions((), submitted))
    monkeypatch.setattr(spark, "driver_is_placed", lambda: placed)
    if refused:
        with pytest.raises(RefusedError) as error:
            SparkRunner(name="n", conf={"spark.yarn.queue": "nightly"})
        assert str(error.value) == other_queue("nightly")
    else:
        SparkRunner(name="n", conf={"spark.yarn.queue": "nightly"})


@pytest.mark.parametrize(
    ("stated", "url"),
    [
        ({}, "http://driver:4040"),
        ({"spark.org.apache.spark.deploy.yarn.AmIpFilter.param.PROXY_URI_BASES": "http://p/4"}, "http://p/4"),
        (
            {"spark.org.apache.hadoop.yarn.server.webproxy.amfilter.AmIpFilter.param.PROXY_URI_BASES": "http://p/3"},
            "http://p/3",
        ),
    ],
)
def test_an_application_is_shown_by_the_proxy_of_yarn(stated: dict[str, str], url: str) -> None:
    """The names are those that Spark 4.3.0 and Spark 3.5 set; the driver's own page is open as long as it runs."""
    conf = SparkConf(loadDefaults=False).setAll(list(stated.items()))
    context = SimpleNamespace(getConf=lambda: conf, uiWebUrl="http://driver:4040")
    assert spark._tracking_url(context) == url  # type: ignore[arg-type]


def test_what_spark_submit_was_given_counts_where_it_runs_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = {"spark.kerberos.principal": "a", "spark.kerberos.keytab": "/k", "spark.yarn.principal": "b"}
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(spark, "_have_jvm", lambda: None)
    monkeypatch.setattr(spark, "SparkConf", lambda: SparkConf(loadDefaults=False).setAll(list(stated.items())))
    found = driver_spark_options().login
    assert (found.principal, found.keytab) == ("a", "/k")


def test_a_session_of_spark_connect_is_refused() -> None:
    class Connected:
        __module__ = "pyspark.sql.connect.session"

    class Derived(Connected):
        """As a vendor's."""

    with pytest.raises(RefusedError, match="Cannot use this session: it is one of Spark Connect"):
        context_of(Derived())


def test_a_session_that_was_stopped_is_refused() -> None:
    stopped = object.__new__(SparkContext)
    stopped._jsc = None  # as SparkContext.stop() leaves it
    for session in (stopped, SimpleNamespace(sparkContext=stopped)):
        with pytest.raises(RefusedError, match="Cannot use this session: it was stopped"):
            context_of(session)


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (
            RetryError("Cannot finish it: Spark gave it up: ModuleNotFoundError: No module named 'acidlib.execute'"),
            RefusedError,
            "Cannot use this session: Python on its executors has no module acidlib.execute; have PYSPARK_PYTHON",
        ),
        (RetryError("Cannot finish it: Spark gave it up: no memory"), RetryError, "Cannot finish it"),
        (SparkEndedError("Cannot run it: Spark has ended"), SparkEndedError, "Spark has ended"),
        (
            replace(describe_executor(""), host="one", package="0.0.1"),
            RefusedError,
            "Cannot use this session: one has Python .* and acidlib 0.0.1, the driver .*; give both the same version",
        ),
    ],
)
def test_executors_without_the_package_are_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, error: Any, raised: type[Exception], words: str
) -> None:
    jobs: list[str] = []

    def one_job(batches: list[list[Task]], group: str) -> list[list[Any]]:
        jobs.append(group)
        if isinstance(error, Exception):
            raise error
        return [[error] for _ in batches]

    monkeypatch.setattr(spark, "_LOOKED_AT", set())
    monkeypatch.setattr(spark, "context_of", lambda session: session)
    runner = SessionRunner(_session())
    monkeypatch.setattr(runner, "_one_job", one_job)
    with pytest.raises(raised, match=words), runner:
        pytest.fail("it was entered")
    assert jobs == ["acidlib: a look at the executors"]


def test_executors_of_an_application_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "_LOOKED_AT", set())
    monkeypatch.setattr(spark, "context_of", lambda session: session)
    looks: list[int] = []
    for name in ("one", "one", "two"):
        runner = SessionRunner(_session(name))
        monkeypatch.setattr(runner, "_one_job", lambda batches, _: looks.append(1) or [[describe_executor("")]])
        with runner:
            assert runner.application.id == name
    assert looks == [1, 1]


def _session(name: str = "app") -> Any:
    properties = SimpleNamespace(clone=lambda: None)
    conf = SparkConf(loadDefaults=False)
    return SimpleNamespace(
        applicationId=name,
        uiWebUrl=None,
        getConf=lambda: conf,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(getLocalProperties=lambda: properties)),
    )


def test_what_py4j_misses_of_a_jvm_that_has_ended_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    cannot = logging.LogRecord(
        "root", logging.ERROR, java_gateway.__file__, 1, "Exception while sending command.", (), None
    )
    try:
        spark._end_own_jvm()
        logging.getLogger().handle(cannot)
        logging.error("of the program")
    finally:
        logging.getLogger().removeFilter(spark._is_not_of_py4j)
    assert caplog.messages == ["of the program"]
