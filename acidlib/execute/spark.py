"""The runners on Spark. Besides this file only `spark_daemon` imports pyspark."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import Any, Self

from pyspark import SparkConf, SparkContext, TaskContext

from acidlib.config.files import CHECKOUT
from acidlib.errors import RefusedError, RetryError, UsageError
from acidlib.execute.answers import value_or_raise
from acidlib.execute.driver_jvm import OF_THIS_PROCESS
from acidlib.execute.executors import LOOKS, Executor, describe_executor, difference_of
from acidlib.execute.spark_options import (
    ARCHIVE_PROPERTIES,
    SHELL,
    SUBMIT_ARGS,
    YARN_QUEUE,
    SparkOptions,
    spark_home,
    stated_spark_options,
    variables_without_a_name,
    without_secrets,
)
from acidlib.execute.task import Application, Task
from acidlib.execute.tasks import load_tasks
from acidlib.planning.units import SMALL_BYTES

_CORES_UNKNOWN = 2
"""The cores that are assumed before the first job."""
_SLOTS_SECONDS = 1.0
"""Spark is asked again for its cores after so long: with dynamic allocation executors come and go."""
_MAX_MESSAGE_CHARACTERS = 300
_MAX_GIVEN_UP = 24
_PACKAGES = re.compile(r"^:?\s*(?:\w+\.)+(?=\w+: )")
"""The package before the name of a Java exception."""
_GATEWAY, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""Set for the driver by spark-submit."""
_BEGINNING = threading.Lock()
_PROXIES = tuple(
    f"spark.{name}.AmIpFilter.param.PROXY_URI_BASES"
    for name in ("org.apache.spark.deploy.yarn", "org.apache.hadoop.yarn.server.webproxy.amfilter")
)
"""Set on YARN: the URL of the application's pages, by Spark 4 and by Spark 3."""
_PATH = "spark.executorEnv.PYTHONPATH"
_PYTHON = "PYSPARK_PYTHON"
_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")
_BEFORE_SPARK, _GIVE_BACK_SECONDS = 1000, 600
"""The priority of a JVM's shutdown hooks above that of its context (40), and how long they wait for the run."""


class SparkEndedError(RetryError):
    """Spark's JVM or its context has ended, which is no fault of the tasks."""


class ContextRunner:
    """Runs each batch of tasks as one task of Spark, in jobs of one context.

    Retries and speculation are harmless: an attempt writes under a name of its own, and Spark returns one result per
    task. A runner says which context it is, and what a job is called.
    """

    def __init__(self) -> None:
        self.application = Application()
        self._context: SparkContext | None = None
        self._slots, self._slots_asked = _CORES_UNKNOWN, float("-inf")
        self._cancelled = 0
        self._groups: set[str] = set()

    @property
    def slots(self) -> int:
        """The cores of the executors a moment ago."""
        context, now = self._context, time.monotonic()
        if context is not None and now - self._slots_asked > _SLOTS_SECONDS:
            self._slots_asked = now
            with suppress(Exception):  # if Spark has ended, running tasks report it
                self._slots = max(1, _cores(context))
        return self._slots

    def start(self) -> None:
        """Start a Python worker with all that tasks need; see Runner."""
        self._one_job([[Task(work=load_tasks, length=0)]], "the start of a Python worker")

    def run_batches(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        """Run all tasks; see Runner.

        A job that Spark gives up is run again in halves, until a task that it gives up is alone in its job. So one
        bucket that no worker survives ends no other. If Spark gives up everything, the remaining tasks fail after a few
        tries.
        """
        cancelled = self._cancelled
        tries = _MAX_GIVEN_UP

        def halved(tasks: Sequence[Task], error: RetryError) -> list[Any]:
            nonlocal tries
            if len(tasks) == 1 or tries <= 0 or self._cancelled != cancelled:
                return [error] * len(tasks)
            middle = len(tasks) // 2
            answers: list[Any] = []
            for half in (tasks[:middle], tasks[middle:]):
                if self._cancelled != cancelled:  # while the first half ran
                    answers += [error] * len(half)
                    continue
                try:
                    answers += [answer for (answer,) in self._one_job([[task] for task in half], group)]
                except SparkEndedError:
                    raise
                except RetryError as another:
                    tries -= 1
                    answers += halved(half, another)
            return answers

        try:
            return self._one_job(batches, group)
        except SparkEndedError:
            raise
        except RetryError as error:
            answers = iter(halved([task for batch in batches for task in batch], error))
            return [list(islice(answers, len(batch))) for batch in batches]

    def cancel(self) -> None:
        """End all running jobs."""
        self._cancelled += 1
        for group in tuple(self._groups):
            if self._context is not None:
                with suppress(Exception):  # the job may have ended meanwhile
                    self._context.cancelJobGroup(group)

    def _one_job(self, batches: Sequence[Sequence[Task]], group: str) -> list[list[Any]]:
        """Run all batches as one job; RetryError if Spark gives it up."""
        if not batches:
            return []
        context = self._started()
        group_id = f"{group} {uuid.uuid4().hex[:8]}"
        self._groups.add(group_id)
        try:
            with self._job_properties(context, batches):
                context.setJobGroup(group_id, group, interruptOnCancel=True)
                context.setLocalProperty("callSite.short", group)
                return context.parallelize(batches, len(batches)).mapPartitions(_attempts).collect()
        except Exception as error:
            if has_stopped(context):
                raise SparkEndedError(f"Cannot run {group}: Spark has ended; its own log says why") from error
            tasks = [task for batch in batches for task in batch]
            name = tasks[0].named_in(group) if len(tasks) == 1 else group
            raise RetryError(f"Cannot finish {name}: Spark gave it up: {first_line(error)}") from error
        finally:
            self._groups.discard(group_id)

    def _started(self) -> SparkContext:
        """Return the context, started by the first call; RetryError if it does not start."""
        raise NotImplementedError

    @contextmanager
    def _job_properties(self, context: SparkContext, batches: Sequence[Sequence[Task]]) -> Iterator[None]:
        """Have the calling thread's local properties of Spark, except the names, as a job of these batches needs."""
        raise NotImplementedError


class SparkRunner(ContextRunner):
    """Runs tasks in a context of this engine's own, for one run of a job.

    The context is started for the first task, so that refusals come without it. Runs at the same time in one process
    share it, and the last one stops it.

    Options and defaults of spark-submit win over `conf`. Raises `RefusedError` for a queue of YARN in `conf` that comes
    too late, as YARN has started this driver already.
    """

    def __init__(self, *, name: str, conf: dict[str, str]) -> None:
        super().__init__()
        stated = driver_spark_options().all_properties
        queue = conf.get(YARN_QUEUE)
        if queue and driver_is_placed() and stated.get("spark.master") == "yarn" and YARN_QUEUE not in stated:
            raise RefusedError(other_queue(queue))
        self._name = name
        self._conf = {key: value for key, value in conf.items() if key not in stated}
        if CHECKOUT is not None and not any(key in stated or key in conf for key in (*ARCHIVE_PROPERTIES, _PATH)):
            # an archive has its own copy of the package, which this path would hide
            self._conf[_PATH] = str(CHECKOUT)

    def _started(self) -> SparkContext:
        with _OWN.lock:
            if self._context is not None:
                return self._context
            if _OWN.users == 0 or _OWN.context is None or has_stopped(_OWN.context):
                other = SparkContext._active_spark_context
                if other is not None and other is not _OWN.context and not has_stopped(other):
                    raise RefusedError(
                        f"Cannot start Spark: this program has a session already, of the application {other.appName}; "
                        "hand it in as spark="
                    )
                if _OWN.context is not None:
                    with suppress(Exception):  # its JVM has ended with it
                        _OWN.context.stop()
                _OWN.context, _OWN.users = self._new_context(), 0
            context = _OWN.context
            _OWN.users += 1
            self.application = Application(id=context.applicationId, tracking_url=_tracking_url(context))
            self._context = context
            return context

    def _new_context(self) -> SparkContext:
        _have_jvm()
        conf = SparkConf().setAppName(self._name).setAll(list(self._conf.items()))
        python = os.environ.get(_PYTHON)
        if conf.get("spark.master", "local").startswith("local"):
            # workers on this machine need this environment, and Spark would look for any python3
            os.environ.setdefault(_PYTHON, sys.executable)
            conf.setIfMissing("spark.python.daemon.module", "acidlib.execute.spark_daemon")
        before = signal.getsignal(signal.SIGINT)
        try:
            context = SparkContext.getOrCreate(conf)
        except Exception as error:
            raise RetryError(f"Cannot start Spark: {first_line(error)}") from error
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, before)  # a context installs a handler that cancels its jobs
            if python is None:
                os.environ.pop(_PYTHON, None)  # other sessions of this program choose for themselves
        context.setLogLevel("ERROR")
        # if the JVM ends first, as by SIGTERM to all processes, its thread would print a traceback
        context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # no option
        return context

    @contextmanager
    def _job_properties(self, context: SparkContext, batches: Sequence[Sequence[Task]]) -> Iterator[None]:
        # jobs of a pool run one after the other; each pool has its share, so that small files do not wait
        is_large = any(task.length >= SMALL_BYTES for batch in batches for task in batch)
        context.setLocalProperty("spark.scheduler.pool", "acidlib-large" if is_large else "acidlib-small")
        yield

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        context, self._context = self._context, None
        if context is None:
            return
        with _OWN.lock:
            try:
                # YARN may have set its proxy after the context was started
                self.application = replace(self.application, tracking_url=_tracking_url(context))
                if context is _OWN.context:
                    _OWN.users -= 1
                    if _OWN.users:
                        return
                    _OWN.context = None
                context.stop()
            except Exception:
                if not has_stopped(context):
                    raise


class _OwnContext:
    """The context that this process has started itself, and the number of runners that use it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.context: SparkContext | None = None
        self.users = 0


_OWN = _OwnContext()


class SessionRunner(ContextRunner):
    """Runs tasks on the executors of a session that the program has, which is as it was afterwards.

    Its configuration, log level and signal handler are left alone, and it goes on. Jobs take over the local properties
    of the thread that makes the runner, such as its scheduler pool, and each thread has its own again after a job.

    Raises RefusedError for a session of Spark Connect and for one that was stopped, UsageError for any other value.
    """

    def __init__(self, session: Any) -> None:
        super().__init__()
        context = self._context = context_of(session)
        self.application = Application(id=context.applicationId, tracking_url=_tracking_url(context))
        self._properties = context._jsc.sc().getLocalProperties().clone()  # as PySpark's InheritableThread does it

    def __enter__(self) -> Self:
        """Look at the executors; RefusedError if they do not have this package, or another version of it."""
        if self.application.id not in _LOOKED_AT:
            self._look_at_executors()
            _LOOKED_AT.add(self.application.id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the session as it is."""

    def _look_at_executors(self) -> None:
        try:
            answers = self._one_job(
                [[Task(describe_executor, 0)] for _ in range(LOOKS)], "acidlib: a look at the executors"
            )
        except SparkEndedError:
            raise
        except RetryError as error:
            if (missing := _MISSING_MODULE.search(error.words)) is None:
                raise
            raise RefusedError(
                f"Cannot use this session: Python on its executors has no module {missing[1]}; have PYSPARK_PYTHON "
                "name one with acidlib, or start the session with an archive of `acidlib pack` (spark.archives)"
            ) from error
        executors: list[Executor] = [value_or_raise(answer) for (answer,) in answers]
        if (difference := difference_of(executors, describe_executor(""))) is not None:
            raise RefusedError(f"Cannot use this session: {difference}; give both the same version of acidlib")

    def _started(self) -> SparkContext:
        assert self._context is not None
        return self._context

    @contextmanager
    def _job_properties(self, context: SparkContext, batches: Sequence[Sequence[Task]]) -> Iterator[None]:
        del batches
        spark = context._jsc.sc()
        before = spark.getLocalProperties()
        try:
            spark.setLocalProperties(self._properties.clone())
            yield
        finally:
            with suppress(Exception):  # Spark has ended
                spark.setLocalProperties(before)


_LOOKED_AT: set[str | None] = set()
"""The applications whose executors were looked at in this process."""


def context_of(session: Any) -> SparkContext:
    """Return the context of a SparkSession, or a SparkContext itself; see SessionRunner."""
    if any(of.__module__.startswith("pyspark.sql.connect.") for of in type(session).__mro__):
        raise RefusedError(
            "Cannot use this session: it is one of Spark Connect, whose programs cannot run tasks of their own; "
            "hand in a SparkSession of this driver, or none"
        )
    context = session if isinstance(session, SparkContext) else getattr(session, "sparkContext", None)
    if not isinstance(context, SparkContext):
        raise UsageError(f"Cannot use spark={session!r}: it is no SparkSession and no SparkContext")
    if has_stopped(context):
        raise RefusedError("Cannot use this session: it was stopped")
    return context


def session_options(session: Any) -> SparkOptions:
    """Return the configuration of a session, as options of Spark; raises as `context_of`."""
    return SparkOptions((), dict(context_of(session).getConf().getAll()))


def hadoop_in_session(session: Any) -> tuple[Any, Any]:
    """Return py4j's view of a session's JVM, and a copy of its configuration of Hadoop; raises as `context_of`."""
    context = context_of(session)
    jvm: Any = context._jvm
    return jvm, jvm.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())


def _cores(context: SparkContext) -> int:
    """Return how many tasks run at the same time; a stated default parallelism is no number of cores."""
    if context.getConf().contains("spark.default.parallelism"):
        spark = context._jsc.sc()
        return int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))
    return context.defaultParallelism


def _attempts(batches: Iterable[Sequence[Task]]) -> Iterator[list[Any]]:
    context = TaskContext.get()
    number = context.taskAttemptId() if context is not None else 0
    for batch in batches:
        yield [task.answer(f"{number}-{uuid.uuid4().hex[:8]}") for task in batch]


def has_stopped(context: SparkContext) -> bool:
    """Return whether a context has ended, so that nothing runs on it any more."""
    try:
        return bool(context._jsc.sc().isStopped())
    except Exception:
        return True  # the JVM does not answer


def first_line(error: Exception) -> str:
    """Return the line of Spark's message that names the error, without the package of its class; else the first one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.strip().startswith("at ")]
    named = [line for line in lines if "Error: " in line or "Exception: " in line]
    line = (named[-1:] or lines or [type(error).__name__])[0]  # below the first line of an analysis stands its plan
    return _PACKAGES.sub("", line)[:_MAX_MESSAGE_CHARACTERS]


def _tracking_url(context: SparkContext) -> str | None:
    """Return the URL of the application's pages: through the proxy of YARN if there is one, else on the driver."""
    conf = context.getConf()
    return next((url for name in _PROXIES if (url := conf.get(name))), context.uiWebUrl)


def driver_spark_options() -> SparkOptions:
    """Return the options of Spark: those of spark-submit, which has them all, or the stated ones; start no context."""
    if _GATEWAY not in os.environ:
        return stated_spark_options(os.environ)
    _have_jvm()
    return SparkOptions((), dict(SparkConf().getAll()))


def driver_is_placed() -> bool:
    """Return whether Spark chose the machine of the driver (`--deploy-mode cluster`); start no context."""
    return _GATEWAY in os.environ and driver_spark_options().driver_is_placed


def _have_jvm() -> None:
    """Connect to Spark's JVM: the one of spark-submit if that runs this process, else start one."""
    with _BEGINNING:
        if SparkContext._gateway is not None:
            return
        if _GATEWAY in os.environ:
            SparkContext._ensure_initialized()
            with suppress(Exception):  # a JVM that takes no hook ends as it would without; the run notices that
                _end_after_this_process(SparkContext._jvm)
            return
        program = str(spark_home(os.environ) / "bin" / "spark-submit")
        atexit.register(_end_own_jvm)
        words, files = without_secrets(shlex.split(os.environ.get(SUBMIT_ARGS) or SHELL), os.environ)
        try:
            environment = os.environ | variables_without_a_name(os.environ)
            port, secret = OF_THIS_PROCESS.start([program, *words], environment, files)
        finally:
            for file in files:
                os.close(file)
        os.environ |= {_GATEWAY: str(port), _SECRET: secret}  # so PySpark starts none
        try:
            SparkContext._ensure_initialized()
        finally:
            del os.environ[_GATEWAY], os.environ[_SECRET]


def _end_own_jvm() -> None:
    """End the JVM that this process has started; what py4j then misses is no error.

    A thread of py4j tells the JVM of each value that is needed no more. It logs a traceback, by the logger that all
    modules have above them, where the JVM ends before it answers.
    """
    logging.getLogger().addFilter(_is_not_of_py4j)
    OF_THIS_PROCESS.end()


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _end_after_this_process(jvm: Any) -> None:
    """Have the JVM that started this process pass a signal on to it, and wait for its end, before it ends itself.

    The hooks are methods of Java values, as a callback into Python would open a port to all users. Both do nothing if
    this process has ended by itself. `jvm` is py4j's view of the JVM.
    """
    invoke = jvm.java.lang.invoke
    runnable, nothing = jvm.java.lang.Class.forName("java.lang.Runnable"), jvm.java.lang.Void.TYPE

    def calling(value: Any, type_name: str, method: str, returned: str | None) -> Any:
        of, gives = jvm.java.lang.Class.forName(type_name), jvm.java.lang.Boolean.TYPE
        if returned is not None:
            gives = jvm.java.lang.Class.forName(returned)
        handle = invoke.MethodHandles.publicLookup().findVirtual(of, method, invoke.MethodType.methodType(gives))
        return handle.bindTo(value)

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
    """Return py4j's view of the driver's JVM, and the configuration of Hadoop in it; start the JVM, but no context.

    Raises `RetryError` if it cannot be started.
    """
    try:
        _have_jvm()
        jvm: Any = SparkContext._jvm
        configuration = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(SparkConf()._jconf)
        login, users = driver_spark_options().login, jvm.org.apache.hadoop.security.UserGroupInformation
        if login.principal and login.keytab and users.isSecurityEnabled() and not users.isLoginKeytabBased():
            users.loginUserFromKeytab(login.principal, login.keytab)  # as spark-submit does it
    except Exception as error:
        raise RetryError(f"Cannot ask Hadoop: Spark's JVM could not be started: {first_line(error)}") from error
    return jvm, configuration


def other_queue(name: str) -> str:
    """Return the message about a driver that YARN has started in another queue than the settings name."""
    return (
        f"Cannot use the queue {name} of YARN (hive.compactor.job.queue): spark-submit has started this driver "
        "in another one (--deploy-mode cluster); start it with the command acidlib or ./spark-submit.sh, or give "
        f"spark-submit --queue {name}"
    )
