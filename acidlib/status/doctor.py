"""What `acidlib doctor` looks at: each look finds facts, and `acidlib.status.checks` says what they mean.

Nothing stays behind: what is written to a place is removed, and the transaction that tells the metastore's time is
committed, with nothing in it. Only the queue is made, where it is missing.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from numba import types

import acidlib
from acidlib.errors import AcidError, ConflictError, RefusedError, RetryError
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import TxnType
from acidlib.model.location import S3, Location
from acidlib.model.names import Generation
from acidlib.orc.kernels.jit import bit_length
from acidlib.service.environment import Environment
from acidlib.service.open import connect, open_queue
from acidlib.service.services import Runner, Task
from acidlib.status.checks import (
    Check,
    Executor,
    HivesCompactor,
    clock_check,
    compactor_check,
    executors_check,
    failed,
    java_check,
    kernels_check,
    metastore_check,
    place_check,
    python_check,
    queue_check,
    spark_check,
    unchecked,
)
from acidlib.stores.stores import Stores

WAREHOUSE = "metastore.warehouse.dir"
_PROBE = "_acidlib_doctor"
_LOOKS = 4
"""Tasks that look at executors: with so many most of them are met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What the looks are made with.

    session  starts what runs tasks; RetryError where it does not start
    master   where executors are, in words
    clock    epoch seconds
    unique   a text that nobody else has
    """

    session: Callable[[], Runner]
    master: Callable[[], str]
    stores: Stores
    clock: Callable[[], float]
    unique: Callable[[], str]


def checks(environment: Environment, around: Around, places: Sequence[str]) -> Iterator[Check]:
    """All of them, in order, each as it is done. `places` are looked at besides the warehouse."""
    java, spark = look_at_java(), look_at_spark()
    yield from (java, python_check(sys.executable, platform.python_version(), str(Path(acidlib.__file__).parent)))
    yield spark
    yield kernels_check(compiled=has_compiled_kernels(), place=str(Path(acidlib.__file__).parent))
    if java.advice or spark.advice:
        yield unchecked("executors", "without Java and Spark there are none")
    else:
        yield _executors(around)
    generation: Generation | None = None
    found = list(places)
    if not environment.metastore:
        reason = "none is named: --metastore-uri or HIVE_CONF_DIR would"
        yield from (unchecked(name, reason) for name in ("metastore", "Hive's compactor", "clock"))
    else:
        try:
            with connect(environment) as hms:
                generation = hms.generation
                yield metastore_check(environment.metastore, 3 if generation is Generation.HIVE3 else 4)
                yield from _asked(hms, around)
                if warehouse := hms.config_value(WAREHOUSE, "").strip():
                    found.append(warehouse)
        except AcidError as error:
            yield failed("metastore", str(error), "have --metastore-uri or hive-site.xml name one that answers")
    for place in found:
        yield _place(around, place)
    if not found:
        yield unchecked("store", "no place is known: --location names one")
    yield _queue(environment, generation)


# --- this machine -----------------------------------------------------------------------------------------------------


def look_at_java() -> Check:
    """Java as the scripts of Spark find it."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else "java"
    try:
        ran = subprocess.run([program, "-version"], check=False, capture_output=True, text=True)  # noqa: S603 - as Spark does
    except OSError:
        return java_check(program, None)
    return java_check(program, ran.stderr + ran.stdout)


def look_at_spark() -> Check:
    """The Spark that jobs are started with."""
    client = importlib.metadata.distribution("pyspark")
    home = Path(os.environ.get("SPARK_HOME") or str(client.locate_file("pyspark")))
    jars = [path.name for path in (home / "jars").glob("spark-core_*.jar")]
    return spark_check(str(home), jars, client.version)


def has_compiled_kernels() -> bool:
    """Whether the kernels are there for this processor, as far as one tells; compiles nothing."""
    dispatcher = cast(Any, bit_length)
    return dispatcher._cache.load_overload((types.int64,), dispatcher.targetctx) is not None


# --- executors --------------------------------------------------------------------------------------------------------


def look_around(attempt: str) -> Executor:
    """What a task finds where it runs."""
    del attempt
    major, minor, _ = platform.python_version_tuple()
    return Executor(
        host=socket.gethostname(),
        python=f"{major}.{minor}",
        package=acidlib.__version__,
        compiled=has_compiled_kernels(),
    )


def _executors(around: Around) -> Check:
    try:
        tasks = [[Task(look_around, 0)] for _ in range(_LOOKS)]
        found = [done.get() for (done,) in around.session().run(tasks, group="acidlib doctor")]
    except AcidError as error:
        advice = "--executor-memory, --archives and the like stand before `doctor`; docs/clusters.md has what they need"
        return failed("executors", str(error), advice)
    return executors_check(around.master(), look_around(""), found)


# --- the metastore ----------------------------------------------------------------------------------------------------


def _asked(hms: Hms, around: Around) -> Iterator[Check]:
    try:
        yield compactor_check(hives_compactor(hms))
    except AcidError as error:
        yield unchecked("Hive's compactor", str(error))
    try:
        yield clock_check(seconds_ahead(hms, around.clock))
    except AcidError as error:
        yield unchecked("clock", str(error))


def hives_compactor(hms: Hms) -> HivesCompactor:
    """What the metastore's settings say of Hive's own compactor."""

    def value(key: str) -> str:
        return hms.config_value(f"metastore.compactor.{key}", "").strip().lower()

    workers = value("worker.threads")
    has_cleaner = hms.generation is not Generation.HIVE3
    return HivesCompactor(
        initiator=value("initiator.on") == "true",
        workers=int(workers) if workers.lstrip("-").isdecimal() else 0,
        cleaner=has_cleaner and value("cleaner.on") == "true",
    )


def seconds_ahead(hms: Hms, clock: Callable[[], float]) -> float:
    """How far this clock is ahead of the metastore's: it notes when a transaction is opened.

    RetryError where that is not to be seen.
    """
    kind = TxnType.DEFAULT if hms.generation is Generation.HIVE3 else TxnType.READ_ONLY
    before = clock()
    txn_id = hms.open_txn(kind, "acidlib doctor")
    try:
        after = clock()
        started = next((txn.started_ms for txn in hms.open_txns_info() if txn.id == txn_id), None)
    finally:
        hms.commit_txn(txn_id, kind)
    if started is None:
        raise RetryError("Cannot tell the metastore's time: because it does not say when a transaction was opened")
    at = started / 1000
    return before - at if at < before else min(0.0, after - at)


# --- places -----------------------------------------------------------------------------------------------------------


def _place(around: Around, place: str) -> Check:
    try:
        location = around.stores.locate(place)
        return place_check(str(location), broken_promises(around, location))
    except RefusedError as error:
        return place_check(place, [str(error)])
    except AcidError as error:
        return failed("store", str(error), "a job needs to write there, as the user that starts it (docs/stores.md)")


def broken_promises(around: Around, location: Location) -> list[str]:
    """What the store does not do that publication relies on; AcidError where nothing can be written at all.

    A bucket that does not raises `RefusedError`, as it does for a job.
    """
    name = f"{_PROBE}.{around.unique()}"
    if location.kind == S3:
        around.stores.require_conditions(location, unique=name)
        return []
    try:
        return _broken_by_renames(around, location, location.child(name))
    finally:
        with suppress(ConflictError):  # it is not there
            around.stores.fs(location).remove_tree(str(location), name)


def _broken_by_renames(around: Around, location: Location, probe: Location) -> list[str]:
    fs = around.stores.renaming_files(location)
    broken = []
    one, other, file = (str(probe.child(name)) for name in ("one", "other", "file"))
    fs.make_directory(str(probe))
    fs.create(file, b"once")
    if _is_done(lambda: fs.create(file, b"twice")):
        broken.append("a file that exists was created again")
    fs.make_directory(one)
    fs.make_directory(other)
    fs.create(f"{other}/file", b"")
    if _is_done(lambda: fs.rename_noreplace(one, other)):
        broken.append("a directory was renamed onto one that exists")
    fs.rename_noreplace(other, str(probe.child("third")))
    if fs.exists(other) or not fs.exists(str(probe.child("third/file"))):
        broken.append("a directory was renamed, and is not there as a whole")
    return broken


def _is_done(work: Callable[[], object]) -> bool:
    """Whether something succeeds that must not."""
    try:
        work()
    except ConflictError:
        return False
    return True


# --- the queue --------------------------------------------------------------------------------------------------------


def _queue(environment: Environment, generation: Generation | None) -> Check:
    if generation is Generation.HIVE4:
        return queue_check("", "the metastore's own")
    kind, _, place = environment.queue_url.partition("://")
    try:
        with open_queue(environment) as queue:
            queue.show()
    except AcidError as error:
        return failed("queue", str(error), "have --queue-url or ACIDLIB_QUEUE_URL name a database that can be used")
    return queue_check(place.removeprefix("/") if kind == "sqlite" else "", kind.partition("+")[0])
