"""The queue on a metastore's own tables, which are imitated in SQLite, with the names and lengths of Hive 3.1."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hive_queue_behaviour import IMITATION, Hive, HiveQueueBehaviour, request

from acidlib.queue.sql import SqlQueue


@pytest.fixture
def hive(tmp_path: Path) -> Hive:
    found = Hive(f"sqlite:///{tmp_path}/metastore.db")
    found.run(*IMITATION)
    return found


@pytest.fixture
def queue(hive: Hive) -> Iterator[SqlQueue]:
    with SqlQueue(hive.url) as opened:
        yield opened


class TestOnAnImitation(HiveQueueBehaviour):
    """Everything that holds for the real tables too."""


def test_a_table_called_version_is_not_yet_a_metastore(tmp_path: Path) -> None:
    other = Hive(f"sqlite:///{tmp_path}/other.db")
    other.run("create table version (number integer)")
    with SqlQueue(other.url) as queue:
        assert queue.schema_version is None
        assert queue.enqueue(request(), now_ms=5).accepted
        assert queue.show()[0].enqueue_ms == 5
        assert queue.now_ms(5) == 5
        assert queue.unreadable() == ()
