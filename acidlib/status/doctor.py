"""Checks of `acidlib doctor`: whether jobs can work here. Each gives one line, with advice where something is wrong.

Nothing stays behind: files that are written to a place are removed, and the transaction that shows the metastore's time
is committed empty. Only the queue is made, where it is missing.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import acidlib
from acidlib.acid.names import Calls, Generation, Reader
from acidlib.arguments import LOCATIONS, METASTORE_URI, QUEUE_URL
from acidlib.config.settings import HADOOP_SITES, HIVE_SITES
from acidlib.errors import AcidError, CorruptError, RefusedError, RetryError
from acidlib.execute.answers import value_or_raise
from acidlib.execute.executors import LOOKS, describe_executor, difference_of, has_compiled_kernels
from acidlib.execute.task import Runner, Task
from acidlib.location import Location
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import TxnType
from acidlib.model.results import Check, PromiseState
from acidlib.model.results import CheckState as State
from acidlib.runs.environment import Environment
from acidlib.runs.open import open_metastore, open_queue
from acidlib.stores.probe import try_promises
from acidlib.stores.probe_records import last_probe, unproven
from acidlib.stores.store import utc_time
from acidlib.stores.stores import Stores

WAREHOUSE = "metastore.warehouse.dir"
_OLDEST_JAVA = 17
_MAX_APART_SECONDS = 5.0
"""Difference of the clocks of two machines from which on it is reported."""
_JAVA = re.compile(r'version "(?:1\.)?(\d+)')
_CORE = re.compile(r"spark-core_[\d.]+-([\w.-]+)\.jar")
_WRITING = "a job needs room there and the right to write, as the user that starts it (docs/stores.md)"
_COMPILE = "`acidlib warm`, called by the owner of the installation, compiles them for all who use it"


def checks(
    environment: Environment,
    places: Sequence[str],
    *,
    session: Callable[[], Runner],
    master: Callable[[], str],
    stores: Stores,
    clock: Callable[[], float],
    unique: Callable[[], str],
) -> Iterator[Check]:
    """Yield all checks, in order, each as soon as it is made.

    places   checked besides the warehouse
    session  starts a runner of tasks; RetryError where it does not start
    master   returns where the executors are
    clock    returns epoch seconds
    unique   returns a new text at each call
    """
    home = str(Path(acidlib.__file__).parent)
    java, spark = java_check(), spark_check()
    yield java
    yield Check("Python", State.OK, f"version {platform.python_version()} ({sys.executable}), acidlib in {home}")
    yield spark
    yield settings_check(environment)
    if has_compiled_kernels():
        yield Check("kernels", State.OK, "compiled for this processor")
    else:
        slow = f"not compiled for this processor in {home}: each user waits a minute for them once"
        yield Check("kernels", State.NOTE, slow, _COMPILE)
    if java.advice or spark.advice:
        yield Check("executors", State.UNCHECKED, "without Java and Spark there are none")
    else:
        yield executors_check(session, master)
    calls: Calls | None = None
    locations = list(places)
    if not environment.metastore:
        reason = f"none is named: {METASTORE_URI} or the hive-site.xml of {environment.hive_source} would"
        yield from (Check(name, State.UNCHECKED, reason) for name in ("metastore", "Hive's compactor", "clock"))
    else:
        try:
            with open_metastore(environment) as hms:
                calls = hms.calls
                yield metastore_check(hms, environment.metastore_words)
                yield _or_unchecked("Hive's compactor", lambda: compactor_check(hms))
                yield _or_unchecked("clock", lambda: clock_check(hms, clock))
                if warehouse := hms.config_value(WAREHOUSE, "").strip():
                    locations.append(warehouse)
        except AcidError as error:
            advice = f"have {METASTORE_URI} or the hive-site.xml of {environment.hive_source} name one that answers"
            yield Check("metastore", State.WRONG, error.words, advice)
    for place in locations:
        yield from _place(stores, place, unique())
    if not locations:
        yield Check("store", State.UNCHECKED, f"no place is known: {LOCATIONS} names one")
    yield _queue(environment, calls)


def java_check() -> Check:
    """Check the Java that the scripts of Spark use."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else "java"
    advice = f"install a JDK {_OLDEST_JAVA} or newer, and put it on the PATH or name it in JAVA_HOME"
    try:
        ran = subprocess.run([program, "-version"], check=False, capture_output=True, text=True)  # noqa: S603 - as Spark does
    except OSError:
        return Check("Java", State.WRONG, f"{program} cannot be run", advice)
    match = _JAVA.search(ran.stderr + ran.stdout)
    if match is None:
        return Check("Java", State.WRONG, f"{program} does not tell its version", advice)
    if int(match[1]) < _OLDEST_JAVA:
        return Check("Java", State.WRONG, f"{program} is version {match[1]}", advice)
    return Check("Java", State.OK, f"version {match[1]} ({program})")


def spark_check() -> Check:
    """Check by the names of its jars that the Spark that jobs are started with has PySpark's version."""
    distribution = importlib.metadata.distribution("pyspark")
    client = distribution.version
    home = Path(os.environ.get("SPARK_HOME") or str(distribution.locate_file("pyspark")))
    jars = [_CORE.fullmatch(path.name) for path in (home / "jars").glob("spark-core_*.jar")]
    versions = sorted({match[1] for match in jars if match})
    if versions == [client]:
        return Check("Spark", State.OK, f"version {client} ({home})")
    if not versions:
        advice = "unset SPARK_HOME, or have it name the folder of a Spark"
        return Check("Spark", State.WRONG, f"{home} holds no Spark", advice)
    fact = f"{home} is version {' and '.join(versions)}, and PySpark here is {client}"
    advice = f"install pyspark=={versions[0]} in this environment, or have SPARK_HOME name a Spark {client}"
    return Check("Spark", State.WRONG, fact, advice)


def settings_check(environment: Environment) -> Check:
    """Say which site files of Hive and Hadoop are read, and which variables name their folders."""
    found = []
    for folder, source, files in (
        (environment.conf_dir, environment.hive_source, HIVE_SITES),
        (environment.hadoop_dir, environment.hadoop_source, HADOOP_SITES),
    ):
        there = [name for name in files if folder is not None and (folder / name).exists()]
        found.append(f"{' and '.join(there) or 'no site file'} of {source}")
    return Check("settings", State.OK, "; ".join(found))


def executors_check(session: Callable[[], Runner], master: Callable[[], str]) -> Check:
    """Compare the machines of tasks with the driver."""
    try:
        tasks = [[Task(describe_executor, 0)] for _ in range(LOOKS)]
        executors = [value_or_raise(answer) for (answer,) in session().run_batches(tasks, group="acidlib doctor")]
    except AcidError as error:
        advice = "--executor-memory, --archives and the like stand before `doctor`; docs/clusters.md has what they need"
        return Check("executors", State.WRONG, error.words, advice)
    driver = describe_executor("")
    if (difference := difference_of(executors, driver)) is not None:
        advice = "give them the environment of the driver: an archive of `acidlib pack`, or the same installation"
        return Check("executors", State.WRONG, difference, advice)
    if slow := sorted({executor.host for executor in executors if not executor.compiled}):
        text = f"at {master()}; the kernels are not compiled for the processor of {', '.join(slow)}"
        return Check("executors", State.NOTE, text, f"{_COMPILE}, on such a machine")
    hosts = ", ".join(sorted({executor.host for executor in executors}))
    return Check("executors", State.OK, f"at {master()}, looked at on {hosts}")


def _or_unchecked(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except AcidError as error:
        return Check(name, State.UNCHECKED, error.words)


def metastore_check(hms: Hms, name: str) -> Check:
    """Check that a metastore that answers has the calls of a compactor, which some forks lack, and a known reader."""
    version = "3.1" if hms.calls is Generation.HIVE3 else "4"
    try:
        hms.require_compactor_calls()
        reader = hms.reader
    except RefusedError as error:
        return Check("metastore", State.WRONG, error.words, "see docs/metastores.md about forks")
    fork = f", as version {hms.version or 'unknown'} of a fork" if hms.may_be_fork else ""
    read = "" if reader is Reader(hms.calls) else f"; its tables are read as in Hive {reader}"
    return Check("metastore", State.OK, f"Hive {version} at {name}{fork}{read}")


def compactor_check(hms: Hms) -> Check:
    """Check which parts of Hive's own compactor are turned on in the metastore; Hive 3.1 has no switch of a cleaner."""

    def value(key: str) -> str:
        return hms.config_value(f"metastore.compactor.{key}", "").strip().lower()

    workers = value("worker.threads")
    has_cleaner = hms.calls is not Generation.HIVE3
    parts = (
        "initiator" if value("initiator.on") == "true" else "",
        f"{int(workers)} workers" if workers.isdecimal() and int(workers) else "",
        "cleaner" if has_cleaner and value("cleaner.on") == "true" else "",
    )
    working = ", ".join(part for part in parts if part)
    if not working:
        return Check("Hive's compactor", State.OK, "off, as far as the metastore's settings say")
    advice = "either turn all of it off, or share the work as docs/hive4.md and docs/hive3.md say"
    return Check("Hive's compactor", State.NOTE, f"on: {working}", advice)


def clock_check(hms: Hms, clock: Callable[[], float]) -> Check:
    """Compare this machine's clock with the metastore's, which records when a transaction is opened.

    RetryError where it does not show that time.
    """
    kind = TxnType.DEFAULT if hms.calls is Generation.HIVE3 else TxnType.READ_ONLY
    before = clock()
    txn_id = hms.open_txn(kind, "acidlib doctor")
    try:
        after = clock()
        started = next((txn.started_ms for txn in hms.open_txns_info() if txn.id == txn_id), None)
    finally:
        hms.commit_txn(txn_id, kind)
    if started is None:
        raise RetryError("Cannot tell the metastore's time: it does not say when a transaction was opened")
    at = started / 1000
    ahead = before - at if at < before else min(0.0, after - at)
    if abs(ahead) <= _MAX_APART_SECONDS:
        return Check("clock", State.OK, f"within {_MAX_APART_SECONDS:.0f} s of the metastore's")
    fact = f"{abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} the metastore's"
    advice = "set both by NTP: these clocks decide retentions, and which requests are too old"
    return Check("clock", State.WRONG, fact, advice)


def _place(stores: Stores, place: str, unique: str) -> Iterator[Check]:
    """Check the rights at a place and the promises of its store that a few requests show, and look for a probe."""
    broken: list[str] = []
    hindered: list[str] = []
    try:
        location = stores.locate(place)
        place = str(location)
        store = stores.store(location)
        for promise in try_promises(store, location, unique=unique, only_quick=True, note=hindered.append):
            if promise.state is PromiseState.BROKEN:
                broken.append(promise.seen)
            elif promise.state is not PromiseState.HOLDS:
                hindered.append(promise.seen)
    except AcidError as error:
        yield Check("store", State.WRONG, error.words, _WRITING)
        return
    if broken:
        advice = "tables there cannot be compacted safely: use a store that keeps its promises (docs/stores.md)"
        yield Check("store", State.WRONG, f"{place}: {'; '.join(broken)}", advice)
    elif hindered:  # which says nothing of the store
        yield Check("store", State.WRONG, f"{place}: {'; '.join(hindered)}", _WRITING)
    else:
        yield Check("store", State.OK, f"{place}: written, named and removed; what exists is never replaced")
    yield probe_check(stores, location)


def probe_check(stores: Stores, location: Location) -> Check:
    """Check whether a probe of a store has passed, at a location or above it."""
    advice = f"acidlib probe {location} tries in a minute all that its store has to promise"
    store = stores.store(location)
    try:
        record = last_probe(stores, location)
        if record is None:
            state = State.WRONG if store.demands_probe else State.NOTE
            demands = "; jobs publish there after one that has passed" if store.demands_probe else ""
            return Check("probe", state, f"{location}: none is recorded there or above{demands}", advice)
        lacking = unproven(store, record)
    except AcidError as error:
        # a user may lack the right to read above the tables
        state = State.WRONG if store.demands_probe or isinstance(error, CorruptError) else State.UNCHECKED
        return Check("probe", state, error.words, advice)
    when = f"{record.location}: probed at {utc_time(record.time_ms / 1000)}"
    if lacking:
        return Check("probe", State.WRONG, f"{when}, and not shown: {', '.join(lacking)}", advice)
    return Check("probe", State.OK, f"{when}, and all {record.totals.holds} promises hold")


def _queue(environment: Environment, calls: Calls | None) -> Check:
    if calls is Generation.HIVE4:
        return Check("queue", State.OK, "the metastore's own")
    kind, _, place = environment.queue_url.partition("://")
    try:
        with open_queue(environment) as queue:
            queue.show()
    except AcidError as error:
        advice = f"have {QUEUE_URL} or ACIDLIB_QUEUE_URL name a database that can be used"
        return Check("queue", State.WRONG, error.words, advice)
    database, path = kind.partition("+")[0], place.removeprefix("/") if kind == "sqlite" else ""
    file = Path(path)
    if path and file.is_file() and file.stat().st_mode & stat.S_IROTH:
        advice = f"chmod 600 {path}, unless others are to read it"
        return Check("queue", State.NOTE, f"{database} at {path}, which every user of this machine may read", advice)
    return Check("queue", State.OK, f"{database} at {path}" if path else database)
