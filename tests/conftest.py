"""What tests of every kind may ask for."""

from __future__ import annotations

import ctypes
import gc
import os
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from large_pages import use_large_pages
from mounts import NO_FLAG, WAYS, fuse_mount, refuse_flag
from sqlalchemy import Engine, event
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from acidlib.orc import compression

os.environ.setdefault("ACIDLIB_LOG_FORMAT", "words")  # what tests compare has no times in it
pytest.register_assert_rewrite("queue_behaviour", "hive_queue_behaviour", "filesystem_behaviour")

HERE = "tests/integration/test_"
# files that use the same servers, of which a process starts one each (integration/conftest.py)
TOGETHER = {
    # waits more than it works: beside the others from the start
    "HDFS": (
        *("hdfs_races", "hdfs_bad_input", "hdfs_jobs", "hdfs", "hdfs_faults", "hdfs_kill_points", "hdfs_server"),
        *("hdfs_trash", "through_hadoop", "spark_cluster"),
    ),
    "HiveServer2": (
        *("day_in_the_life", "hive4_faults", "hive4_service", "columns_of_metastore", "hive4_insert_only"),
        *("hive4_type_changes", "servers", "hiveserver_stores"),
    ),
    "Hive 4's cases": ("hive4_tables",),
    "both metastores": (
        *("stores_of_metastore", "sleepers_live", "metastore_transport", "holds_live", "hive4_requests"),
        *("metastore_contract", "metastore_behaviour", "metastore_calls", "kerberos"),
    ),
    "Hive 3's metastore": ("hive3_service", "queue_databases", "trino_hive3"),
    "S3": ("s3_race", "s3_jobs", "s3_store", "s3_compaction", "s3_bad_input"),
    "Spark": ("spark", "quickstart"),
}
GROUPS = {f"{HERE}{name}.py": group for group, names in TOGETHER.items() for name in names}
LONG = (
    *("conformance/test_odd_sizes", "conformance/test_store_races", "conformance/test_columns_of_files"),
    *("conformance/test_conversions", "property/test_histories", "integration/test_columns_random"),
    *("conformance/test_types", "property/test_compaction_property", "integration/test_zombies"),
    *("conformance/test_java_written", "integration/test_installation", "conformance/test_parquet_joined"),
    *("unit/storage/test_claims", "conformance/test_output_files", "conformance/test_hive_pruning"),
    *("conformance/test_odd_files", "integration/test_kill_points", "integration/test_damaged_input"),
)
FIRST = [*GROUPS, *(f"tests/{name}.py" for name in LONG)]
"""What takes longest is begun first, so that no process is left alone with it at the end."""


class TogetherScheduling(LoadScopeScheduling):
    """Gives one process the files that use the same servers, and any other file as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return GROUPS.get(file, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of FIRST."""
    places = {file: place for place, file in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(FIRST)))


@pytest.fixture(scope="module", autouse=True)
def nothing_waits_for_the_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a process has written, all others see, also when it was killed: only the end of the machine could tell.

    That it is asked for where it must be, and that an error is told, tests find out by putting something in its place.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.nodeid.startswith("tests/unit/storage/"):  # they are about the true one
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
def no_queue_waits_for_the_disk() -> Iterator[None]:
    """The same for SQLite."""
    event.listen(Engine, "connect", _without_syncs)
    yield
    event.remove(Engine, "connect", _without_syncs)


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
