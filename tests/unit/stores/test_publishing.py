"""Staging and publishing: whole or not at all, with a crash at every step.

All of it on file systems that can rename without replacing, and on those that cannot.
"""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mounts import FLAG

from acidlib.errors import ConflictError, CorruptError, RetryError, UnknownOutcomeError
from acidlib.stores.listing import list_location
from acidlib.stores.renaming import local
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.store import RenameStage, RenameStore, read_record
from acidlib.stores.store import Attempt, Published, attempt_path
from unit.stores.staged import DELETES, DELTA, FS, INPUTS, fine, stage, visible

pytestmark = pytest.mark.usefixtures("way")


def test_a_base_carries_the_marks_of_a_compacted_one(tmp_path: Path) -> None:
    staging, staged = stage(tmp_path, "base_0000004")
    result = RenameStage(FS, str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert result == Published(directories=("base_0000004",), kind="one rename")
    base = tmp_path / "base_0000004"
    assert (base / "_orc_acid_version").read_bytes() == b"2"
    assert json.loads((base / "_metadata_acid").read_text()) == {"thisFileVersion": "0", "dataFormat": "compacted"}
    assert (base / "bucket_00000").read_bytes() == b"base_0000004"
    assert visible(tmp_path) == {"base_0000004"}
    assert list_location(FS, str(tmp_path)).compacted_bases == {"base_0000004"}


@pytest.mark.parametrize("name", ["base_0000004_v0000012", DELTA, DELETES])
def test_other_directories_carry_no_metadata(tmp_path: Path, name: str) -> None:
    staging, staged = stage(tmp_path, name)
    RenameStage(FS, str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert {path.name for path in (tmp_path / name).iterdir()} == {"_orc_acid_version", "bucket_00000"}


def test_attempts_never_meet_and_one_counts(tmp_path: Path) -> None:
    staging, staged = stage(tmp_path, DELTA)
    first, retry = (attempt_path(staging, DELETES, "bucket_00000", attempt) for attempt in ("3.0", "3.1"))
    Path(first).write_bytes(b"a first attempt")
    Path(retry).write_bytes(b"a second attempt, of another length")
    taken = f"{staging}/{DELETES}/bucket_00000 already exists"
    with pytest.raises(ConflictError, match=taken):
        RenameStage(FS, str(tmp_path), staging).accept(
            DELETES, [Attempt(written=one, name="bucket_00000", length=1) for one in (first, retry)]
        )
    RenameStage(FS, str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert (tmp_path / DELTA / "bucket_00000").read_bytes() == DELTA.encode()
    assert visible(tmp_path) == {DELTA}


def test_an_existing_target_is_a_conflict_even_if_empty(tmp_path: Path) -> None:
    staging, staged = stage(tmp_path, DELTA, DELETES)
    (tmp_path / DELETES).mkdir()
    with pytest.raises(ConflictError, match=f"{DELETES}: because it already exists"):
        RenameStage(FS, str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert visible(tmp_path) == {DELETES, "_tmp_run"}
    assert not any((tmp_path / DELETES).iterdir())


def take(path: Path, how: str) -> None:
    """Let something have a name."""
    if how == "file":
        path.write_bytes(b"theirs")
    elif how == "link":
        (path.parent / "_elsewhere").mkdir()
        path.symlink_to("_elsewhere")
    elif how == "dangling link":
        path.symlink_to("_nowhere")
    else:
        path.mkdir()
        if how == "full directory":
            (path / "bucket_00000").write_bytes(b"theirs")


def picture(root: Path) -> dict[str, bytes | str | None]:
    return {
        path.relative_to(root).as_posix(): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in root.rglob("*")
        if "_tmp_run" not in path.parts
    }


TAKEN = ["empty directory", "full directory", "file", "link", "dangling link"]


@pytest.mark.parametrize("how", TAKEN)
@pytest.mark.parametrize("when", ["before", "at the last moment"])
@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (("base_0000004",), "base_0000004"),
        ((DELTA,), DELTA),
        ((DELETES,), DELETES),
        ((DELTA, DELETES), DELTA),
        ((DELTA, DELETES), DELETES),
        (("base_0000004_v0000009",), "base_0000004_v0000009"),
        (("delta_0000001_0000004_v0000009", "delete_delta_0000001_0000004_v0000009"),
         "delete_delta_0000001_0000004_v0000009"),
    ],
)  # fmt: skip
def test_a_name_that_is_taken_is_a_conflict_whatever_has_it(
    tmp_path: Path, names: tuple[str, ...], taken: str, when: str, how: str
) -> None:
    staging, staged = stage(tmp_path, *names)
    pictures = []

    def appear() -> None:
        take(tmp_path / taken, how)
        pictures.append(picture(tmp_path))

    if when == "before":
        appear()
    check = fine if when == "before" else appear
    more = {} if "_v" in taken else {"inputs": INPUTS}
    show = "publish_hidden" if "_v" in taken else "publish"
    with pytest.raises(ConflictError, match=f"{taken}.* already exists"):
        getattr(RenameStage(FS, str(tmp_path), staging), show)(staged, last_check=check, **more)
    assert [picture(tmp_path)] == pictures
    assert RenameStore(FS).roll_forward(str(tmp_path)) == ()


@pytest.mark.parametrize("how", TAKEN)
def test_a_staging_name_that_is_taken_is_a_conflict(tmp_path: Path, how: str) -> None:
    take(tmp_path / "_tmp_x", how)
    before = picture(tmp_path)
    with pytest.raises(ConflictError, match="_tmp_x: because it already exists"):
        RenameStore(FS).stage(str(tmp_path), unique="x", owner="o", now=1.0)
    assert picture(tmp_path) == before


def test_the_last_check_stops_everything(tmp_path: Path) -> None:
    def lost() -> None:
        raise ConflictError("the claim is lost")

    staging, staged = stage(tmp_path, DELTA, DELETES)
    with pytest.raises(ConflictError, match="the claim is lost"):
        RenameStage(FS, str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=lost)
    assert visible(tmp_path) == {"_tmp_run"}
    assert RenameStore(FS).roll_forward(str(tmp_path)) == ()


@pytest.mark.parametrize("fault", ["length", "missing", "extra"])
def test_only_what_was_written_is_published(tmp_path: Path, fault: str) -> None:
    staging, staged = stage(tmp_path, "base_0000004")
    directory = Path(staging) / "base_0000004"
    if fault == "length":
        (directory / "bucket_00000").write_bytes(b"short")
    elif fault == "missing":
        (directory / "bucket_00000").unlink()
    else:
        (directory / "bucket_00001").touch()
    with pytest.raises(CorruptError, match="bucket_0000"):
        RenameStage(FS, str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert visible(tmp_path) == {"_tmp_run"}


def test_what_becomes_visible_is_on_disk_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging, staged = stage(tmp_path, DELTA)
    on_disk: dict[int, set[str]] = {}
    fsync = os.fsync

    def synced(handle: int) -> None:
        fsync(handle)
        path = Path(f"/proc/self/fd/{handle}").readlink()
        on_disk[path.stat().st_ino] = set(names_of(path))

    def names_of(path: Path) -> list[str]:
        return sorted(one.name for one in path.iterdir()) if path.is_dir() else []

    def last_check() -> None:
        directory = Path(staging) / DELTA
        for path in (Path(staging), directory, *directory.iterdir()):
            assert on_disk.get(path.stat().st_ino) == set(names_of(path)), path

    monkeypatch.setattr(os, "fsync", synced)
    RenameStage(FS, str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=last_check)
    assert DELTA in on_disk[tmp_path.stat().st_ino]


def test_two_directories_are_published_inserts_first(tmp_path: Path) -> None:
    staging, staged = stage(tmp_path, DELETES, DELTA)
    renamed: list[str] = []

    class Watched(LocalFileSystem):
        def rename_noreplace(self, source: str, target: str, **how: Any) -> None:
            if Path(target).parent == tmp_path:
                record = read_record(FS, staging)
                assert [item.name for item in record.directories] == [DELTA, DELETES]
                renamed.append(Path(target).name)
            super().rename_noreplace(source, target, **how)

    result = RenameStage(Watched(), str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert result == Published(directories=(DELTA, DELETES), kind="two renames")
    assert renamed == [DELTA, DELETES]
    assert visible(tmp_path) == {DELTA, DELETES}


class KilledError(BaseException):
    """Stands for SIGKILL: nothing in the library may catch it as a failure."""


def _before_each_rename(patched: pytest.MonkeyPatch, way: str, look: Callable[[str], None]) -> None:
    """Calls `look` with the new name before the operating system gives it; what that raises ends the call."""
    if way == FLAG:
        renameat2 = local._RENAMEAT2

        def answered(one: int, source: bytes, two: int, target: bytes, flags: int) -> int:
            try:
                look(os.fsdecode(target))
            except OSError as error:
                return error.errno or 0
            return renameat2(one, source, two, target, flags)

        patched.setattr(local, "_RENAMEAT2", answered)
        return
    for name in ("link", "rename"):
        real = getattr(os, name)

        def looked(source: str, target: str, *, real: Callable[..., None] = real, **more: Any) -> None:
            look(os.fspath(target))
            real(source, target, **more)

        patched.setattr(os, name, looked)


def _steps(location: Path, monkeypatch: pytest.MonkeyPatch, way: str, fail_at: int) -> int:
    """Publishes two directories, killed before the n-th rename of the operating system; returns the renames seen."""
    staging, staged = stage(location, DELETES, DELTA)
    seen = 0

    def count(_: str) -> None:
        nonlocal seen
        seen += 1
        if seen == fail_at:
            raise KilledError

    with monkeypatch.context() as patched:
        _before_each_rename(patched, way, count)
        with contextlib.suppress(KilledError):
            RenameStage(FS, str(location), staging).publish(staged, inputs=INPUTS, last_check=fine)
    return seen


def test_killed_at_any_rename_it_is_whole_after_rolling_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (tmp_path / "whole").mkdir()
    steps = _steps(tmp_path / "whole", monkeypatch, way, 0)
    assert steps == 5  # two markers, the record, two directories
    outcomes = []
    for step in range(1, steps + 1):
        location = tmp_path / str(step)
        location.mkdir()
        assert _steps(location, monkeypatch, way, step) == step
        seen = visible(location) - {"_tmp_run"}
        assert seen == ({DELTA} if step == 5 else set())
        done = RenameStore(FS).roll_forward(str(location))
        outcomes.append([item.outcome for item in done])
        assert visible(location) - {"_tmp_run"} == ({DELTA, DELETES} if done else set())
        assert RenameStore(FS).roll_forward(str(location)) == ()
    assert outcomes == [[], [], [], ["finished"], ["finished"]]


@pytest.mark.parametrize("back_too", [False, True])
def test_a_passing_error_takes_the_first_back_or_leaves_it_to_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back_too: bool, way: str
) -> None:
    staging, staged = stage(tmp_path, DELTA, DELETES)
    wrong = [tmp_path / DELETES, *([Path(staging) / DELTA] if back_too else [])]

    def fail(target: str) -> None:
        if Path(target) in wrong:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        _before_each_rename(patched, way, fail)
        if not back_too:
            with pytest.raises(RetryError, match="Input/output"):
                RenameStage(FS, str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
            assert visible(tmp_path) - {"_tmp_run"} == set()
            assert RenameStore(FS).roll_forward(str(tmp_path)) == ()
            return
        with pytest.raises(UnknownOutcomeError, match="the next run on this partition finishes it"):
            RenameStage(FS, str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
        with pytest.raises(RetryError, match="Input/output"):
            RenameStore(FS).roll_forward(str(tmp_path))
    (done,) = RenameStore(FS).roll_forward(str(tmp_path))
    assert (done.outcome, done.directories, done.leftover) == ("finished", (DELTA, DELETES), None)
    assert visible(tmp_path) == {DELTA, DELETES}


class Lost(LocalFileSystem):
    """Nothing can be reached any more from the rename to a name on, which is done or not."""

    def __init__(self, name: str, *, done: bool) -> None:
        self._name, self._done, self._away = name, done, False

    def rename_noreplace(self, source: str, target: str, **how: Any) -> None:
        if Path(target).name == self._name and not self._away:
            if self._done:
                super().rename_noreplace(source, target, **how)
            self._away = True
        self._reach()
        super().rename_noreplace(source, target, **how)

    def exists(self, path: str) -> bool:
        self._reach()
        return super().exists(path)

    def is_directory(self, path: str) -> bool:
        self._reach()
        return super().is_directory(path)

    def remove_tree(self, root: str, relative: str) -> None:
        self._reach()
        super().remove_tree(root, relative)

    def _reach(self) -> None:
        if self._away:
            raise RetryError("Cannot look: because the name node cannot be reached")


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(("names", "lost"), [((DELTA,), DELTA), ((DELTA, DELETES), DELTA), ((DELTA, DELETES), DELETES)])
def test_when_nobody_can_look_after_a_rename_its_outcome_is_unknown(
    tmp_path: Path, names: tuple[str, ...], lost: str, done: bool
) -> None:
    staging, staged = stage(tmp_path, *names)
    with pytest.raises(UnknownOutcomeError, match=r"whether .*published.* the next run on this partition"):
        RenameStage(Lost(lost, done=done), str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    first = {DELTA} if lost == DELETES else set()
    assert visible(tmp_path) - {"_tmp_run"} == first | ({lost} if done else set())
    outcomes = [item.outcome for item in RenameStore(FS).roll_forward(str(tmp_path))]
    if len(names) == 1:
        assert outcomes == []
    else:
        assert outcomes == ["was published" if done and lost == DELETES else "finished"]
        assert visible(tmp_path) == {DELTA, DELETES}


def test_a_record_that_cannot_be_removed_may_be_finished_by_the_next_run(tmp_path: Path) -> None:
    staging, staged = stage(tmp_path, DELTA, DELETES)

    class Stuck(LocalFileSystem):
        def rename_noreplace(self, source: str, target: str, **how: Any) -> None:
            if target == f"{tmp_path}/{DELTA}":
                raise RetryError("Cannot rename")
            super().rename_noreplace(source, target, **how)

        def remove_tree(self, root: str, relative: str) -> None:
            raise RetryError("Cannot remove")

    with pytest.raises(UnknownOutcomeError, match="the next run on this partition finishes it"):
        RenameStage(Stuck(), str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert [item.outcome for item in RenameStore(FS).roll_forward(str(tmp_path))] == ["finished"]


def test_a_target_taken_between_the_renames_takes_the_first_back(tmp_path: Path) -> None:
    staging, staged = stage(tmp_path, DELTA, DELETES)

    class Rival(LocalFileSystem):
        def rename_noreplace(self, source: str, target: str, **how: Any) -> None:
            if target == f"{tmp_path}/{DELETES}":
                Path(target).mkdir()
            super().rename_noreplace(source, target, **how)

    with pytest.raises(ConflictError, match="already exists"):
        RenameStage(Rival(), str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert visible(tmp_path) == {DELETES, "_tmp_run"}
    assert RenameStore(FS).roll_forward(str(tmp_path)) == ()


def test_a_half_does_not_stay_when_its_other_half_was_removed(tmp_path: Path) -> None:
    staging, staged = stage(tmp_path, DELTA, DELETES)

    class Remover(LocalFileSystem):
        def rename_noreplace(self, source: str, target: str, **how: Any) -> None:
            super().rename_noreplace(source, target, **how)
            if target == f"{tmp_path}/{DELTA}":
                shutil.rmtree(staging)

    with pytest.raises(ConflictError):
        RenameStage(Remover(), str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert visible(tmp_path) == {"_tmp_run.revoked"}


def test_a_half_is_not_taken_from_a_publication_that_another_run_has_finished_meanwhile(tmp_path: Path) -> None:
    """The paused run found its staging gone and the second half not there yet; then all of it was done."""
    staging, staged = stage(tmp_path, DELTA, DELETES)
    aside = tmp_path / "_aside"

    class Late(LocalFileSystem):
        def rename_noreplace(self, source: str, target: str, **how: Any) -> None:
            if target == f"{tmp_path}/{DELETES}":
                Path(staging).rename(aside)
            if target == f"{staging}.revoked":
                (aside / DELETES).rename(tmp_path / DELETES)
                shutil.rmtree(aside)
            super().rename_noreplace(source, target, **how)

    with pytest.raises(ConflictError):
        RenameStage(Late(), str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert visible(tmp_path) == {DELTA, DELETES}
