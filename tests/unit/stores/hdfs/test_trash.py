"""What is told when a name node does not say what became of something that was to go to the trash."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hdfs_native import TrashNotEnabledError

from acidlib.errors import AcidError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.stores.renaming.hdfs import HdfsFileSystem

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
        (LOST, GONE, UnknownOutcomeError, "Cannot tell what became of hdfs://ns/t: because it is gone, and"),
        (GONE, GONE, UnknownOutcomeError, "Cannot tell what became of hdfs://ns/t: because it is gone, and"),
        (LOST, "it", RetryError, "Cannot move hdfs://ns/t to the trash: because the name node, or a data node, cannot"),
        (OSError("Connection refused (os error 111)"), GONE, RetryError, "cannot be reached"),
        (LOST, LOST, RetryError, "cannot be reached"),
        (TrashNotEnabledError(), "it", RetryError, "because the name node keeps none any more"),
        (None, "it", RefusedError, "Cannot move hdfs://ns/t to the trash: because it is there"),
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
