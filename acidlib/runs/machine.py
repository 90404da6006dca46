"""The machine that a run works on, the identity of the run, and the services that are opened for it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from acidlib.config.keys import OZONE_HTTPFS
from acidlib.config.settings import Layer
from acidlib.execute.services import WORKER_PREFIX, Services
from acidlib.execute.spark_options import SparkOptions
from acidlib.execute.task import Application, Runner
from acidlib.memory import TASK_MEMORY, Memory
from acidlib.metastore.kerberos import keep_logged_in
from acidlib.model.results import RunHead, StatedSetting
from acidlib.model.text_codecs import CODECS
from acidlib.processes import signed
from acidlib.report.progress import WARNING, Progress
from acidlib.runs.environment import Environment
from acidlib.stores.hadoop import DelegationTokens, Hadoop, HandedTokens, asks_for_kerberos
from acidlib.stores.stores import PROPERTIES, Stores
from acidlib.version import __version__


def _of_spark(name: str) -> Callable[..., Any]:
    """Return a function that calls the one of this name in `execute.spark`, which is loaded when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        from acidlib.execute import spark

        return getattr(spark, name)(*args, **kwargs)

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine that a run works on.

    session        opens the session that runs tasks: by `name`, and `conf`, the settings of Spark
    spark_options  the options that the caller gave to Spark
    is_placed      whether Spark chose this machine for the driver
    jvm            py4j's view of the JVM of Spark, and the configuration of Hadoop in it
    clock          epoch seconds
    pause          waits for so many seconds
    """

    session: Callable[..., AbstractContextManager[Runner]] = field(default=_of_spark("SparkRunner"))
    spark_options: Callable[[], SparkOptions] = field(default=_of_spark("driver_spark_options"))
    is_placed: Callable[[], bool] = field(default=_of_spark("driver_is_placed"))
    jvm: Callable[[], tuple[Any, Any]] = field(default=_of_spark("hadoop_in_jvm"))
    clock: Callable[[], float] = time.time
    pause: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a job: the job's name, the unique id of the run, and when it began (epoch seconds)."""

    job: str
    id: str
    began: float

    @classmethod
    def of(cls, job: str, machine: Machine) -> Run:
        """Return a run that begins now."""
        return cls(job=job, id=uuid.uuid4().hex[:16], began=machine.clock())

    def worker_id(self, host: str) -> str:
        """Return the id that the JSON document and the log lines show, with which that of the queue begins."""
        return f"{WORKER_PREFIX}{host}-{self.id}"

    def head(self, environment: Environment, machine: Machine, application: Application | None = None) -> RunHead:
        """Return the beginning of the JSON document of the run, which ends now.

        application  of the run's tasks; None for a run that has no tasks, and takes no request
        """
        spark = application or Application()
        return RunHead(
            job=self.job,
            version=__version__,
            run_id=None if application is None else self.worker_id(environment.host),
            start_ms=int(self.began * 1000),
            end_ms=int(machine.clock() * 1000),
            application_id=spark.id,
            tracking_url=spark.tracking_url,
            settings=tuple(
                StatedSetting(name=name, value=setting.text, source=setting.layer.label)
                for name, setting in environment.settings.values.items()
                if setting.layer is not Layer.BUILT_IN
            ),
        )


def stores_of(environment: Environment, machine: Machine, *, is_check: bool = False) -> Stores:
    """Return the stores of tables, with Hadoop's configuration and Spark's, which wins.

    is_check  only paths are looked at: no connection is opened, and no user is logged in
    """
    # no others are sent to tasks
    properties = {**environment.settings.hadoop, **machine.spark_options().hadoop}
    configuration = {name: text for name, text in properties.items() if name.startswith((*PROPERTIES, CODECS))}
    configuration[OZONE_HTTPFS] = environment.settings.text(OZONE_HTTPFS)
    if is_check:
        return Stores(configuration=configuration)
    memory = Memory(environment.settings.integer(TASK_MEMORY))
    tokens = HandedTokens()
    if asks_for_kerberos(configuration):
        keep_logged_in(environment.login)
        tokens = HandedTokens(DelegationTokens(machine.jvm, machine.clock))
    return Stores(
        configuration=configuration,
        hadoop=Hadoop(machine.jvm),
        secrets=environment.secrets,
        tokens=tokens,
        memory=memory,
    )


@contextmanager
def open_services(
    environment: Environment, machine: Machine, run: Run, progress: Progress, *, about: str
) -> Iterator[Services]:
    """Open all that a service needs for one run, such as Spark.

    about  the name of what is compacted, for Spark's pages; empty for other jobs
    """
    host = environment.host
    for warning in environment.settings.warnings:
        progress.note(warning, level=WARNING)
    conf = {
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",  # between the pools of small files and of large ones
    }
    yarn_queue = environment.settings.text("hive.compactor.job.queue")
    if yarn_queue:
        conf["spark.yarn.queue"] = yarn_queue
    with machine.session(name=f"{host}-compactor-{about}" if about else f"{host}-{run.job}", conf=conf) as runner:
        yield Services(
            stores=stores_of(environment, machine),
            runner=runner,
            settings=environment.settings,
            host=host,
            worker_id=signed(run.worker_id(host)),
            clock=machine.clock,
            pause=machine.pause,
            unique=lambda: uuid.uuid4().hex[:16],
            progress=progress,
        )
