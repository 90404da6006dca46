"""The trials of the promises of a file system with renames: each is broken once, and the probe says which."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import pytest
from mounts import NO_FLAG, WAYS, refuse_flag

from acidlib.errors import AcidError, ConflictError, CorruptError, RetryError
from acidlib.location import local_location
from acidlib.model.results import PromiseState, TriedPromise
from acidlib.stores.filesystem import Entry, raising_acid_errors
from acidlib.stores.probe import require_promises, try_promises
from acidlib.stores.promises import race
from acidlib.stores.renaming import trials
from acidlib.stores.renaming.local import THIS_MACHINE, LocalFileSystem
from acidlib.stores.renaming.store import RenameStore


def tried(fs: LocalFileSystem, place: Path) -> list[TriedPromise]:
    notes: list[str] = []
    found = list(try_promises(RenameStore(fs), local_location(str(place)), unique="u", note=notes.append))
    assert (list(place.iterdir()), notes) == ([], []), "nothing stays"
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_local_disk_keeps_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A mount that does not know the flag of renames does, too."""
    if way == NO_FLAG:
        refuse_flag(monkeypatch)
    promises = tried(LocalFileSystem(THIS_MACHINE), tmp_path)
    assert len({promise.name for promise in promises}) == len(promises) > 10
    not_held = [promise.name for promise in promises if promise.state is not PromiseState.HOLDS]
    assert not_held == ["synced bytes last"], "only a loss of power shows that"


class ReplacingEmpty(LocalFileSystem):
    """As rename(2) does without a flag."""

    def rename_noreplace(self, source: str, target: str, **more: Any) -> None:
        with suppress(OSError):
            Path(target).rmdir()
        super().rename_noreplace(source, target, **more)


class Nesting(LocalFileSystem):
    """As Hadoop's FileSystem.rename moves into a directory that exists."""

    def rename_noreplace(self, source: str, target: str, **more: Any) -> None:
        into = Path(target)
        super().rename_noreplace(source, str(into / Path(source).name if into.is_dir() else into), **more)


class Late(LocalFileSystem):
    """Looks first, and renames later, onto whatever is there then."""

    def rename_noreplace(self, source: str, target: str, **more: Any) -> None:
        if Path(target).exists():
            raise ConflictError("it already exists")
        time.sleep(0.01)
        with suppress(OSError):
            Path(source).rename(target)


class Copying(LocalFileSystem):
    """Renames file by file, as a store of objects does."""

    def rename_noreplace(self, source: str, target: str, **more: Any) -> None:
        if not Path(source).is_dir():
            super().rename_noreplace(source, target, **more)
            return
        self.make_directory(target)
        with raising_acid_errors("rename", source, missing=ConflictError):
            for path in list(Path(source).iterdir()):
                path.rename(Path(target) / path.name)
                time.sleep(0.0005)
            Path(source).rmdir()


class Unseen(LocalFileSystem):
    """Nobody sees the directory that is renamed."""

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        if path.endswith(("/here", "/there")) and current_thread() is not main_thread():
            raise missing("it went while it was listed")
        return super().list_directory(path, missing=missing)


class Agreeing(LocalFileSystem):
    """Says yes to a rename that finds no source."""

    def rename_noreplace(self, source: str, target: str, **more: Any) -> None:
        if Path(source).exists():
            super().rename_noreplace(source, target, **more)


class Overwriting(LocalFileSystem):
    """Creates a file again."""

    def create(self, path: str, data: bytes, *, durable: bool = True) -> None:
        del durable
        with raising_acid_errors("write", path):
            Path(path).write_bytes(data)


class Reviving(LocalFileSystem):
    """Makes the directory of a file, as HDFS does if it is asked to."""

    def create(self, path: str, data: bytes, *, durable: bool = True) -> None:
        with suppress(OSError):
            Path(path).parent.mkdir()
        super().create(path, data, durable=durable)


class Sweeping(LocalFileSystem):
    """Removes a directory with what is in it."""

    def remove_empty_directory(self, path: str) -> bool:
        was_there = Path(path).is_dir()
        shutil.rmtree(path, ignore_errors=True)
        return was_there


class Remembering(LocalFileSystem):
    """Lists what it listed before."""

    def __init__(self, *rest: Any) -> None:
        super().__init__(*rest)
        self.listed: dict[str, tuple[Entry, ...]] = {}

    def list_directory(self, path: str, *, missing: type[AcidError] = CorruptError) -> tuple[Entry, ...]:
        if path not in self.listed:
            self.listed[path] = super().list_directory(path, missing=missing)
        return self.listed[path]


class Timeless(LocalFileSystem):
    """Directories keep the time at which they were made, as in a store of objects."""

    def entry(self, path: str, *, missing: type[AcidError] = CorruptError) -> Entry:
        return super().entry(path, missing=missing)._replace(modified=1.0)


class Claiming(LocalFileSystem):
    """A claim that is gone is renewed."""

    def rename_noreplace(self, source: str, target: str, **more: Any) -> None:
        if "_acidlib_claim/1." in source and not Path(source).exists() and not Path(target).exists():
            self.make_directory(target)
            return
        super().rename_noreplace(source, target, **more)


@pytest.mark.parametrize(
    ("kind", "promises"),
    [
        (ReplacingEmpty, ["renames replace nothing"]),
        (Nesting, ["renames replace nothing", "one rename to a name"]),
        (Late, ["one rename to a name", "one rename of a directory"]),
        (Copying, ["directories are renamed whole"]),
        (Unseen, ["directories are renamed whole"]),
        (Agreeing, ["one rename of a directory", "repeated renames do no harm"]),
        (Overwriting, ["creations replace nothing", "one creator of a name"]),
        (Reviving, ["creations replace nothing"]),
        (Sweeping, ["only empty directories go"]),
        (Remembering, ["changes are listed at once"]),
        (Timeless, ["changes move a directory's time"]),
        (Claiming, ["one claim of a place"]),
    ],
)
def test_a_broken_promise_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, promises: list[str]
) -> None:
    monkeypatch.setattr(trials, "_CLOCK_STEPS", (0.02,))  # no time of seconds is waited for
    states = {promise.name: promise for promise in tried(kind(THIS_MACHINE), tmp_path)}
    assert {name: states[name].state for name in promises} == dict.fromkeys(promises, PromiseState.BROKEN)
    assert all(states[name].seen for name in promises)


class Failing(LocalFileSystem):
    """A server that is away for one kind of call."""

    def remove_empty_directory(self, path: str) -> bool:
        raise RetryError(f"Cannot remove {path}: no answer")


def test_a_trial_that_cannot_be_done_is_told_from_a_broken_promise(tmp_path: Path) -> None:
    failed = [promise for promise in tried(Failing(THIS_MACHINE), tmp_path) if promise.state is PromiseState.FAILED]
    assert ("only empty directories go", True) in [(promise.name, "no answer" in promise.seen) for promise in failed]


def test_the_folder_goes_also_after_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        assert list(tmp_path.iterdir()) != []
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalFileSystem, "rename_noreplace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tried(LocalFileSystem(THIS_MACHINE), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_racers_do_not_wait_for_those_that_an_interrupt_has_kept_from_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin, begun = ThreadPoolExecutor.submit, []

    def interrupted(self: ThreadPoolExecutor, *call: Any) -> Any:
        begun.append(call)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return begin(self, *call)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        race([lambda: None] * 6)


def test_a_folder_that_stays_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []

    def kept(*_: Any, **__: Any) -> None:
        raise RetryError("Cannot remove it: no right")

    monkeypatch.setattr(LocalFileSystem, "remove_tree", kept)
    store = RenameStore(LocalFileSystem(THIS_MACHINE))
    require_promises(store, local_location(str(tmp_path)), unique="u")
    list(try_promises(store, local_location(str(tmp_path)), unique="v", only_quick=True, note=notes.append))
    assert notes == [
        f"{tmp_path}/_acidlib_probe.v is left, and holds nothing that is needed: Cannot remove it: no right"
    ]
