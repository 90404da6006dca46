"""Name nodes that are starting, that lose an answer, or do not say what became of something for the trash."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hdfs_native import TrashNotEnabledError

from acidlib.errors import AcidError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.stores import repeating
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
    monkeypatch.setattr(repeating, "time", SimpleNamespace(sleep=slept.append))
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
    assert sum(slept) < 2 * 25


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

    monkeypatch.setattr(repeating, "time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(HdfsFileSystem, "_client", SimpleNamespace(get_file_info=info, rename=rename))
    HdfsFileSystem("ns", {}).rename_noreplace("hdfs://ns/a", "hdfs://ns/b")
    assert answers == []


LOST = OSError("RPC listener disconnected")
GONE = FileNotFoundError("/t")


def answering(monkeypatch: pytest.MonkeyPatch, moved: object, there: object) -> HdfsFileSystem:
    """A file system whose client answers so when it is told to move something, and asked for it afterwards."""

    def answer(what: object) -> object:
        if isinstance(what, Exception):
            raise what
        return what

    client = SimpleNamespace(trash=lambda _: answer(moved), get_file_info=lambda _: answer(there))
    monkeypatch.setattr(HdfsFileSystem, "_client", client)
    return HdfsFileSystem("ns", {})


@pytest.mark.parametrize(
    ("moved", "there", "kind", "why"),
    [
        (
            LOST,
            GONE,
            UnknownOutcomeError,
            "Cannot tell the outcome of moving hdfs://ns/t to the trash: it is gone, and",
        ),
        (
            GONE,
            GONE,
            UnknownOutcomeError,
            "Cannot tell the outcome of moving hdfs://ns/t to the trash: it is gone, and",
        ),
        (LOST, "it", RetryError, "Cannot move hdfs://ns/t to the trash: the name node, or a data node, cannot"),
        (OSError("Connection refused (os error 111)"), GONE, RetryError, "cannot be reached"),
        (LOST, LOST, RetryError, "cannot be reached"),
        (TrashNotEnabledError(), "it", RetryError, "the name node keeps none any more"),
        (None, "it", RefusedError, "Cannot move hdfs://ns/t to the trash: it is there"),
    ],
)
def test_nothing_is_called_moved_that_may_not_be(
    monkeypatch: pytest.MonkeyPatch, moved: object, there: object, kind: type[AcidError], why: str
) -> None:
    with pytest.raises(kind, match=why):
        answering(monkeypatch, moved, there).move_to_trash("hdfs://ns/t")


def test_whether_there_is_a_trash(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answering(monkeypatch, GONE, GONE).keeps_trash("hdfs://ns/t")
    assert not answering(monkeypatch, TrashNotEnabledError(), GONE).keeps_trash("hdfs://ns/t")
    with pytest.raises(RetryError, match="cannot be reached"):
        answering(monkeypatch, LOST, GONE).keeps_trash("hdfs://ns/t")
