"""A name node that is starting says that it is to be asked again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from acidlib.errors import RetryError
from acidlib.stores.renaming import hdfs as filesystem
from acidlib.stores.renaming.hdfs import HdfsFileSystem

STARTING = RuntimeError('RPCError("org.apache.hadoop.ipc.RetriableException", "NameNode still not started\\n\\tat x")')


@pytest.mark.parametrize("refusals", [0, 3, 100])
def test_it_is_asked_again_for_a_while(monkeypatch: pytest.MonkeyPatch, refusals: int) -> None:
    asked, slept = [], []

    def answered(path: str, *_: object) -> object:
        asked.append(path)
        if len(asked) <= refusals:
            raise STARTING
        return SimpleNamespace(isdir=True, path=path, owner="etl")

    # the clock of this module alone: threads of other tests that still end sleep by the same one
    monkeypatch.setattr(filesystem, "time", SimpleNamespace(sleep=slept.append))
    monkeypatch.setattr(HdfsFileSystem, "_client", SimpleNamespace(get_file_info=answered, delete=answered))
    fs = HdfsFileSystem("ns", {})
    if refusals < 100:
        assert fs.owner("hdfs://ns/t") == "etl"
        assert fs.remove_empty_directory("hdfs://ns/t")
        assert len(asked) == refusals + 2
        return
    for call in (fs.owner, fs.remove_empty_directory):
        with pytest.raises(RetryError, match=r"the name node is not ready \(NameNode still not started\)"):
            call("hdfs://ns/t")
    assert sum(slept) < 20


def test_a_change_waits_before_it_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [OSError("RPC listener disconnected"), STARTING, FileNotFoundError("/a")]
    there = {"/a": SimpleNamespace(isdir=True, length=0, modification_time=1, owner="etl")}

    def rename(source: str, target: str) -> None:
        if source in there:
            there[target] = there.pop(source)
        raise answers.pop(0)

    def info(path: str) -> object:
        if path not in there:
            raise FileNotFoundError(path)
        return there[path]

    monkeypatch.setattr(filesystem, "time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(HdfsFileSystem, "_client", SimpleNamespace(get_file_info=info, rename=rename))
    HdfsFileSystem("ns", {}).rename_noreplace("hdfs://ns/a", "hdfs://ns/b")
    assert answers == []
