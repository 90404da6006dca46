"""Running units as Spark tasks. Only `spark_daemon` imports pyspark, too."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import Any, Self

from pyspark import SparkConf, SparkContext, TaskContext

from acidlib.config.files import CHECKOUT
from acidlib.errors import RefusedError, RetryError
from acidlib.planning.units import SMALL_BYTES
from acidlib.service.services import Application, Task, attempt
from acidlib.service.spark_driver import (
    ARCHIVE_PROPERTIES,
    OF_THIS_PROCESS,
    SHELL,
    SUBMIT_ARGS,
    YARN_QUEUE,
    SparkOptions,
    spark_home,
    stated_to_spark,
)
from acidlib.service.tasks import nothing

_CORES_UNKNOWN = 2
"""Before the first job: so many, and Spark is started with them."""
_SLOTS_SECONDS = 1.0
"""For so long Spark is not asked again: with dynamic allocation executors come and go."""
_LONGEST_MESSAGE = 300
_MOST_GIVEN_UP = 24
_PACKAGES = re.compile(r"^:?\s*(?:\w+\.)+(?=\w+: )")
"""What stands before the name of an exception of Java's."""
_GATEWAY, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""Set for the driver by spark-submit."""
_BEGINNING = threading.Lock()
_PROXIES = tuple(
    f"spark.{name}.AmIpFilter.param.PROXY_URI_BASES"
    for name in ("org.apache.spark.deploy.yarn", "org.apache.hadoop.yarn.server.webproxy.amfilter")
)
"""Set on YARN: where it shows the application, by Spark 4 and by Spark 3."""
_PATH = "spark.executorEnv.PYTHONPATH"
_BEFORE_SPARK, _GIVE_BACK_SECONDS = 1000, 600
"""The priority of what a JVM does before it stops its context (40), and for how long it waits for the run then."""


class SparkEndedError(RetryError):
    """Spark's JVM or its context is there no more, which is no fault of what it was to do."""


class SparkRunner:
    """Runs each batch of tasks as one task of Spark, in a context of its own for one run of a job.

    The context is started when something has to run on it, so what cannot be done is refused before that. Retries and
    speculation are harmless: an attempt writes under a name of its own, and Spark hands over one result per task.

    Options and defaults of spark-submit win over `conf`. Raises `RefusedError` for a queue of YARN in `conf` that comes
    too late, as YARN has started this driver already.
    """

    def __init__(self, *, name: str, conf: dict[str, str]) -> None:
        stated = said_to_spark().stated
        queue = conf.get(YARN_QUEUE)
        if queue and driver_is_placed() and stated.get("spark.master") == "yarn" and YARN_QUEUE not in stated:
            raise RefusedError(other_queue(queue))
        self._name = name
        self._conf = {key: value for key, value in conf.items() if key not in stated}
        if CHECKOUT is not None and not any(key in stated or key in conf for key in (*ARCHIVE_PROPERTIES, _PATH)):
            # in an archive is a package of its own, and this one would stand before it
            self._conf[_PATH] = str(CHECKOUT)
        self.application = Application()
        self._context: SparkContext | None = None
        self._lock = threading.Lock()
        self._slots, self._slots_asked = _CORES_UNKNOWN, float("-inf")
        self._cancelled = 0
        self._groups: set[str] = set()

    @property
    def slots(self) -> int:
        """The cores of the executors that were there a moment ago."""
        context, now = self._context, time.monotonic()
        if context is not None and now - self._slots_asked > _SLOTS_SECONDS:
            self._slots_asked = now
            with suppress(Exception):  # where Spark has ended, the tasks that run tell it
                self._slots = max(1, context.defaultParallelism)
        return self._slots

    def start(self) -> None:
        """Have a context, and a Python worker with all that tasks need; see Runner."""
        self._one_job([[Task(work=nothing, length=0)]], "the start of a Python worker")

    def run(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        """Run all tasks; see Runner.

        What Spark gives up is done again in halves, until a task that it gives up is alone in its job. So one bucket
        that no worker survives takes no other with it. Where nothing goes any more, each of a few tries fails, and with
        them what is left.
        """
        cancelled = self._cancelled
        tries = _MOST_GIVEN_UP

        def halved(tasks: Sequence[Task], error: RetryError) -> list[Any]:
            nonlocal tries
            if len(tasks) == 1 or tries <= 0 or self._cancelled != cancelled:
                return [error] * len(tasks)
            middle = len(tasks) // 2
            found: list[Any] = []
            for half in (tasks[:middle], tasks[middle:]):
                try:
                    found += [done for (done,) in self._one_job([[task] for task in half], group)]
                except SparkEndedError:
                    raise
                except RetryError as another:
                    tries -= 1
                    found += halved(half, another)
            return found

        try:
            return self._one_job(batches, group)
        except SparkEndedError:
            raise
        except RetryError as error:
            done = iter(halved([task for batch in batches for task in batch], error))
            return [list(islice(done, len(batch))) for batch in batches]

    def cancel(self) -> None:
        """End all jobs that run now."""
        self._cancelled += 1
        for group in tuple(self._groups):
            if self._context is not None:
                with suppress(Exception):  # what runs no more needs no end
                    self._context.cancelJobGroup(group)

    def _one_job(self, batches: Sequence[Sequence[Task]], group: str) -> list[list[Any]]:
        """Run all batches as one job. RetryError when Spark gives it up."""
        if not batches:
            return []
        context = self._started()
        group_id = f"{group} {uuid.uuid4().hex[:8]}"
        self._groups.add(group_id)
        try:
            context.setJobGroup(group_id, group, interruptOnCancel=True)
            context.setLocalProperty("callSite.short", group)
            # jobs of one pool are done one after the other; the pools have their share each, so small files do not wait
            is_large = any(task.length >= SMALL_BYTES for batch in batches for task in batch)
            context.setLocalProperty("spark.scheduler.pool", "acidlib-large" if is_large else "acidlib-small")
            return context.parallelize(batches, len(batches)).mapPartitions(_attempts).collect()
        except Exception as error:
            if has_stopped(context):
                raise SparkEndedError(f"Cannot run {group}: Spark has ended; its own log says why") from error
            raise RetryError(f"Cannot finish {group}: Spark gave it up: {_first_line(error)}") from error
        finally:
            self._groups.discard(group_id)

    def _started(self) -> SparkContext:
        """Return the context, started by the first call; RetryError where it does not start."""
        with self._lock:
            if self._context is not None:
                return self._context
            _have_jvm()
            conf = SparkConf().setAppName(self._name).setAll(list(self._conf.items()))
            if conf.get("spark.master", "local").startswith("local"):
                # workers on this machine need this environment, and Spark would look for any python3
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
                conf.setIfMissing("spark.python.daemon.module", "acidlib.service.spark_daemon")
            before = signal.getsignal(signal.SIGINT)
            try:
                context = SparkContext.getOrCreate(conf)
            except Exception as error:
                raise RetryError(f"Cannot start Spark: it said: {_first_line(error)}") from error
            finally:
                if threading.current_thread() is threading.main_thread():
                    signal.signal(signal.SIGINT, before)  # in it a context cancels its jobs on an interrupt
            context.setLogLevel("ERROR")
            # when the JVM ends first, as by SIGTERM to all processes, it would print a traceback of its own thread
            context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # no option
            self.application = Application(id=context.applicationId, tracking_url=_tracking_url(context))
            self._context = context
            return context

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._context is None:
            return
        try:
            # YARN may have told its proxy a moment after the context was there
            self.application = replace(self.application, tracking_url=_tracking_url(self._context))
            self._context.stop()
        except Exception:
            if not has_stopped(self._context):
                raise


def _attempts(batches: Iterable[Sequence[Task]]) -> Iterator[list[Any]]:
    context = TaskContext.get()
    number = context.taskAttemptId() if context is not None else 0
    for batch in batches:
        yield [attempt(task.work, f"{number}-{uuid.uuid4().hex[:8]}") for task in batch]


def has_stopped(context: SparkContext) -> bool:
    """Return whether a context is at its end: nothing is run on it any more."""
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:
        return True  # its JVM does not answer


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.strip().startswith("at ")]
    named = [line for line in lines if "Error: " in line or "Exception: " in line]
    return _PACKAGES.sub("", (named or lines or [type(error).__name__])[-1])[:_LONGEST_MESSAGE]


def _tracking_url(context: SparkContext) -> str | None:
    """Return where the application can be looked at: by the proxy of YARN where there is one, else on the driver."""
    conf = context.getConf()
    return next((url for name in _PROXIES if (url := conf.get(name))), context.uiWebUrl)


def said_to_spark() -> SparkOptions:
    """Return what Spark was given: by spark-submit, which has it all, or as it is stated; starts no context."""
    if _GATEWAY not in os.environ:
        return stated_to_spark(os.environ)
    _have_jvm()
    return SparkOptions((), dict(SparkConf().getAll()))


def driver_is_placed() -> bool:
    """Return whether Spark chose the machine of the driver (`--deploy-mode cluster`); starts no context."""
    return _GATEWAY in os.environ and said_to_spark().driver_is_placed


def _have_jvm() -> None:
    """Have Spark's JVM: that of spark-submit where it runs this, else one of our own."""
    with _BEGINNING:
        if SparkContext._gateway is not None:
            return
        if _GATEWAY in os.environ:
            SparkContext._ensure_initialized()
            with suppress(Exception):  # one that takes no hook ends as it would without: its run notices that
                _end_after_this_process(SparkContext._jvm)
            return
        program = str(spark_home(os.environ) / "bin" / "spark-submit")
        atexit.register(OF_THIS_PROCESS.end)
        port, secret = OF_THIS_PROCESS.start([program, *shlex.split(os.environ.get(SUBMIT_ARGS) or SHELL)], os.environ)
        os.environ |= {_GATEWAY: str(port), _SECRET: secret}  # so PySpark starts none
        try:
            SparkContext._ensure_initialized()
        finally:
            del os.environ[_GATEWAY], os.environ[_SECRET]


def _end_after_this_process(jvm: Any) -> None:
    """Have a JVM that has started this process hand a signal on to it, and wait for its end, before it ends itself.

    Of hooks of Java alone, for a callback would open a port to all users: a method of a value is what is run. Both do
    nothing where this process has ended by itself. `jvm` is py4j's view of it.
    """
    invoke = jvm.java.lang.invoke
    runnable, nothing = jvm.java.lang.Class.forName("java.lang.Runnable"), jvm.java.lang.Void.TYPE

    def calling(value: Any, type_name: str, method: str, returned: str | None) -> Any:
        of, gives = jvm.java.lang.Class.forName(type_name), jvm.java.lang.Boolean.TYPE
        if returned is not None:
            gives = jvm.java.lang.Class.forName(returned)
        found = invoke.MethodHandles.publicLookup().findVirtual(of, method, invoke.MethodType.methodType(gives))
        return found.bindTo(value)

    def hook(handle: Any) -> Any:
        ending = handle.asType(invoke.MethodType.methodType(nothing))
        return invoke.MethodHandleProxies.asInterfaceInstance(runnable, ending)

    process = jvm.java.lang.ProcessHandle.of(os.getpid()).get()
    future = "java.util.concurrent.CompletableFuture"
    ended = calling(process, "java.lang.ProcessHandle", "onExit", future).invokeWithArguments(jvm.java.util.ArrayList())
    hooks, seconds = jvm.org.apache.hadoop.util.ShutdownHookManager.get(), jvm.java.util.concurrent.TimeUnit.SECONDS
    first = hook(calling(process, "java.lang.ProcessHandle", "destroy", None))
    hooks.addShutdownHook(first, _BEFORE_SPARK + 1, _GIVE_BACK_SECONDS, seconds)
    then = hook(calling(ended, future, "join", "java.lang.Object"))
    hooks.addShutdownHook(then, _BEFORE_SPARK, _GIVE_BACK_SECONDS, seconds)


def hadoop_in_jvm() -> tuple[Any, Any]:
    """Return py4j's view of the driver's JVM, and the configuration of Hadoop in it; starts the JVM, but no context.

    Raises `RetryError` where there is none to be had.
    """
    try:
        _have_jvm()
        jvm: Any = SparkContext._jvm
        configuration = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(SparkConf()._jconf)
        login, users = said_to_spark().login, jvm.org.apache.hadoop.security.UserGroupInformation
        if login.principal and login.keytab and users.isSecurityEnabled() and not users.isLoginKeytabBased():
            users.loginUserFromKeytab(login.principal, login.keytab)  # as spark-submit does it
    except Exception as error:
        raise RetryError(f"Cannot ask Hadoop: Spark's JVM could not be started: {_first_line(error)}") from error
    return jvm, configuration


def other_queue(name: str) -> str:
    """Return why a driver does not go on that YARN has started in a queue that nothing here has chosen."""
    return (
        f"Cannot use the queue {name} of YARN (hive.compactor.job.queue): spark-submit has started this driver "
        "in another one (--deploy-mode cluster); start it with the command acidlib or ./spark-submit.sh, or give "
        f"spark-submit --queue {name}"
    )
