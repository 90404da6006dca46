"""A name node that answered before, and then takes questions and says nothing."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest

from acidlib.errors import RetryError
from acidlib.stores.filesystem import UnreachableServers
from acidlib.stores.renaming import hdfs_client as client
from acidlib.stores.renaming.hdfs import HdfsDataFiles, HdfsFileSystem
from acidlib.stores.renaming.hdfs_client import NameNode, NoAnswerError, in_time

TRIES = {"dfs.client.failover.max.attempts": "0"}


def test_one_that_is_given_up_leaves_its_thread_behind() -> None:
    """What is asked next has another."""
    free, asking = threading.Event(), []
    with pytest.raises(NoAnswerError, match=r"no answer within 0\.05 s"):
        in_time(0.05, lambda: (asking.append(threading.current_thread()), free.wait()))
    assert in_time(60, threading.current_thread) not in asking
    assert in_time(60, threading.current_thread) is in_time(60, threading.current_thread)
    with pytest.raises(ZeroDivisionError):
        in_time(60, lambda: 1 // 0)
    free.set()


def test_it_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And whoever asks later has a new connection."""
    free, asked = threading.Event(), []

    def hang(path: str) -> None:
        asked.append(path)
        free.wait()

    stuck = SimpleNamespace(get_file_info=hang)
    key = os.getpid(), NameNode.of("ns", TRIES)
    monkeypatch.setitem(client._CLIENTS, key, stuck)  # type: ignore[arg-type]
    monkeypatch.setattr(client, "_CONNECTION_SECONDS", 0.01)
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 0.02)
    told = (
        "the name node, or a data node, cannot be reached (hdfs://ns takes requests and gives no answer within 0.05 s)"
    )
    fs = HdfsFileSystem("ns", TRIES, UnreachableServers())
    for number in range(3):
        with pytest.raises(RetryError) as raised:
            fs.exists(f"hdfs://ns/t{number}")
        assert str(raised.value) == f"Cannot look at hdfs://ns/t{number}: because {told}"
    assert asked == ["/t0"]
    assert key not in client._CLIENTS
    monkeypatch.setitem(client._CLIENTS, key, stuck)  # type: ignore[arg-type]
    with pytest.raises(RetryError, match=r"Cannot read hdfs://ns/f: because .* no answer within"):
        HdfsDataFiles("ns", TRIES).open("hdfs://ns/f", 1)
    free.set()


def test_a_fork_asks_for_itself() -> None:
    in_time(60, threading.current_thread)
    child = os.fork()
    if child == 0:
        os._exit(0 if in_time(20, lambda: True) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
