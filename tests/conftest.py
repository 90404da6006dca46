"""What tests of every kind may ask for."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import signal
import sqlite3
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import JSONFileLoader
from hypothesis import HealthCheck, settings
from large_pages import use_large_pages
from long_runs import LONG as LONG_RUN
from mounts import NO_FLAG, WAYS, fuse_mount, refuse_flag
from scheduling import FIRST, TogetherScheduling, group_of
from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from xdist.remote import Producer

from acidlib.orc import compression
from acidlib.stores.buckets import stage

_WHOLE_RUN, _SLOWEST = 1000, 30
_SERVERS = (
    *("shared_hiveserver", "shared_hive3", "shared_hive4", "hasty_hive3", "hasty_hive4", "with_kerberos"),
    *("shared_realm", "hdfs", "ozone", "s3_server"),
)
"""Fixtures of integration/conftest.py that last as long as a test asks for them."""
os.environ.setdefault("ACIDLIB_LOG_FORMAT", "words")  # what tests compare has no times in it
stage.READERS_SECONDS = 0.0  # no reader of a test takes that long
# how long an example takes, or to make it, is the machine's
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
pytest.register_assert_rewrite("queue_behaviour", "hive_queue_behaviour", "filesystem_behaviour")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> TogetherScheduling:
    """With --numprocesses."""
    return TogetherScheduling(config, log)


def pytest_collection() -> None:
    """Collecting makes nothing but what stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was collected, the garbage collector need not look at again."""
    gc.freeze()
    gc.enable()
    use_large_pages()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The order of FIRST; in a usual run without half of the combinations marked `pairs`."""
    odd = [] if LONG_RUN else list(_odd(item for item in items if item.get_closest_marker("pairs")))
    if odd:
        config.hook.pytest_deselected(items=odd)
        left_out = set(odd)
        items[:] = [item for item in items if item not in left_out]
    places = {file: place for place, file in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(FIRST)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """After the last test of a group, what no test of the next one asks for ends: together they fill the memory."""
    yield
    if nextitem is None or (group := group_of(nextitem.nodeid)) == group_of(item.nodeid):
        return
    tests: list[Any] = [test for test in item.session.items if group_of(test.nodeid) == group]
    wanted = {name for test in tests for name in test.fixturenames}
    for name in set(_SERVERS) - wanted:
        for fixture in item.session._fixturemanager.getfixturedefs(name, item) or ():
            fixture.finish(item._request)  # type: ignore[attr-defined]  # of all that tests of servers are
    if "pyspark" in sys.modules and not any(test.get_closest_marker("spark") for test in tests):
        from servers.spark import end_jvm

        end_jvm()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Of a whole run, the files of tests that took longest: seconds of all processes together, and how many tests."""
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for report in (
        report for kind in ("passed", "failed", "error", "") for report in terminalreporter.stats.get(kind, ())
    ):
        if isinstance(report, pytest.TestReport):
            file = report.nodeid.partition("::")[0]
            seconds[file] += report.duration
            tests[file] += report.when == "call"
    if tests.total() >= _WHOLE_RUN:
        terminalreporter.section(f"{_SLOWEST} slowest files of {seconds.total():.0f} s")
        for file, spent in seconds.most_common(_SLOWEST):
            terminalreporter.write_line(f"{spent:7.1f} s {tests[file]:5} tests  {file}")


@pytest.fixture(scope="module", autouse=True)
def nothing_waits_for_the_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a process has written, all others see, also when it was killed: only the end of the machine could tell.

    That it is asked for where it must be, and that an error is told, tests find out by putting something in its place.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.nodeid.startswith("tests/unit/stores/"):  # they are about the true one
            patch.setattr(os, "fsync", _looked_at_only)
        yield


@pytest.fixture(scope="module", autouse=True)
def memory_is_given_back() -> Iterator[None]:
    """What pyarrow and the C library keep for later, each process that is forked from this one pays for again."""
    yield
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    use_large_pages()


@pytest.fixture(scope="session", autouse=True)
def no_signal_is_ignored() -> Iterator[None]:
    """Whoever starts the tests in the background has some ignored, and so would all processes that these start."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)}
    ignored = [number for number, handler in before.items() if handler is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session", autouse=True)
def no_queue_waits_for_the_disk() -> Iterator[None]:
    """The same for SQLite."""
    event.listen(Engine, "connect", _without_syncs)
    yield
    event.remove(Engine, "connect", _without_syncs)


@pytest.fixture(scope="session", autouse=True)
def statements_are_compiled_once() -> Iterator[None]:
    """Every job in this process opens its queue anew; what SQLAlchemy made of a statement is kept for all of them.

    It is kept for each dialect, of which those of the tests' own servers are all alike.
    """
    alike = (SQLiteDialect_pysqlite, PGDialect_psycopg)
    kept: dict[Any, Any] = {}

    def use_kept(connection: Connection) -> None:
        if isinstance(connection.dialect, alike):
            connection.execution_options(compiled_cache=kept)

    with pytest.MonkeyPatch.context() as patch:
        for dialect in alike:
            patch.setattr(dialect, "__eq__", lambda one, other: type(one) is type(other))
            patch.setattr(dialect, "__hash__", lambda one: hash(type(one)))
        event.listen(Engine, "engine_connect", use_kept)
        yield
        event.remove(Engine, "engine_connect", use_kept)


@pytest.fixture(scope="session", autouse=True)
def models_of_s3_are_read_once() -> Iterator[None]:
    """Every job in this process makes a client of its own, which reads a megabyte of JSON."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", functools.cache(JSONFileLoader.load_file))
        patch.setattr(JSONFileLoader, "__eq__", lambda one, other: type(one) is type(other))
        patch.setattr(JSONFileLoader, "__hash__", lambda one: hash(type(one)))
        yield


def _odd(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Of combinations every other one, by the places of their values among those of a parameter."""
    # not by `callspec.indices`: in pytest 9 these are the place of the combination
    known: dict[tuple[str, str], dict[int, int]] = {}
    for item in items:
        assert isinstance(item, pytest.Function)
        places = []
        for name, value in item.callspec.params.items():
            values = known.setdefault((item.nodeid.partition("[")[0], name), {})
            places.append(values.setdefault(id(value), len(values)))
        if sum(places) % 2 == 1:
            yield item


def _looked_at_only(descriptor: int) -> None:
    """In place of fsync: OSError where nothing is open."""
    os.fstat(descriptor)


def _without_syncs(connection: Any, _record: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        with suppress(sqlite3.Error):  # what is no database, the test shall find out
            connection.execute("pragma synchronous = off").close()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What file systems can do; a test that uses it is run for each."""
    if request.param == NO_FLAG:
        refuse_flag(monkeypatch)
    return str(request.param)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """A directory on a mount of FUSE, which knows no rename that never replaces."""
    with fuse_mount(tmp_path) as path:
        yield path


@pytest.fixture
def steady_deflate(monkeypatch: pytest.MonkeyPatch) -> None:
    """zlib in place of ISA-L: the bytes that ISA-L makes depend on memory that it does not initialise.

    They inflate to the same, but may be a few more or fewer.
    """

    class Steady:
        @staticmethod
        def compress(block: bytes, level: int, window: int) -> bytes:
            return zlib.compress(block, level, window)

    monkeypatch.setattr(compression, "isal_zlib", Steady)
