"""Staging and publishing: whole or not at all, with a crash at every step; finished, discarded or taken back later.

All of it on file systems that can rename without replacing, and on those that cannot.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.stores.buckets.store import BucketStore
from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.store import RenameStage, RenameStore
from acidlib.stores.store import UNDONE, StagedFile, attempt_path
from unit.stores.places import DELETES, DELTA, FS, INPUTS, TAKEN, fine, recorded, stage, take, visible

pytestmark = pytest.mark.usefixtures("way")

UNREACHED = RetryError("Cannot look: the name node cannot be reached")


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
            DELETES, [StagedFile(path=one, name="bucket_00000", length=1) for one in (first, retry)]
        )
    RenameStage(FS, str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert (tmp_path / DELTA / "bucket_00000").read_bytes() == DELTA.encode()
    assert visible(tmp_path) == {DELTA}


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


class Failing(LocalFileSystem):
    """Whose n-th rename, or that to a name, fails with an error, before it is done or after.

    From then on nothing may be reached any more.
    """

    def __init__(self, *at: int | str, done: bool, error: BaseException = UNREACHED, away: bool = False) -> None:
        super().__init__()
        self._at, self._done, self._error, self._stays_away = at, done, error, away
        self._seen, self._away = 0, False

    def rename_noreplace(self, source: str, target: str, **how: Any) -> None:
        self._reach()
        self._seen += 1
        fails = self._seen in self._at or Path(target).name in self._at
        if self._done or not fails:
            super().rename_noreplace(source, target, **how)
        if fails:
            self._away = self._stays_away
            raise self._error

    def exists(self, path: str) -> bool:
        self._reach()
        return super().exists(path)

    def is_directory(self, path: str) -> bool:
        self._reach()
        return super().is_directory(path)

    def remove_tree(self, root: str, relative: str, **more: str) -> None:
        self._reach()
        super().remove_tree(root, relative, **more)

    def _reach(self) -> None:
        if self._away:
            raise UNREACHED


PAIR = f"publication of {DELTA}, {DELETES}"
RENAMES = [((DELTA,), DELTA), ((DELTA, DELETES), DELTA), ((DELTA, DELETES), DELETES)]


@pytest.mark.parametrize(("names", "lost"), RENAMES)
def test_a_rename_of_which_only_the_answer_is_lost_is_done(tmp_path: Path, names: tuple[str, ...], lost: str) -> None:
    staging, staged = stage(tmp_path, *names)
    RenameStage(Failing(lost, done=True), str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert visible(tmp_path) == set(names)


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(("names", "lost"), RENAMES)
def test_when_nobody_can_look_after_a_rename_its_outcome_is_unknown(
    tmp_path: Path, names: tuple[str, ...], lost: str, done: bool
) -> None:
    staging, staged = stage(tmp_path, *names)
    with pytest.raises(UnknownOutcomeError, match=r"whether .*published.* the next run on this partition"):
        RenameStage(Failing(lost, done=done, away=True), str(tmp_path), staging).publish(
            staged, inputs=INPUTS, last_check=fine
        )
    first = {DELTA} if lost == DELETES else set()
    assert visible(tmp_path) - {"_tmp_run"} == first | ({lost} if done else set())
    outcomes = list(RenameStore(FS).roll_forward(str(tmp_path)))
    if len(names) == 1:
        assert outcomes == []
    else:
        assert outcomes == [f"{PAIR} was published" if done and lost == DELETES else f"{PAIR} finished"]
        assert visible(tmp_path) == {DELTA, DELETES}


@pytest.mark.parametrize("back_too", [False, True])
def test_an_error_of_the_second_rename_undoes_the_first_or_leaves_it_to_the_next_run(
    tmp_path: Path, back_too: bool
) -> None:
    staging, staged = stage(tmp_path, DELTA, DELETES)
    failing = Failing(2, *([3] if back_too else []), done=False)
    with pytest.raises(UnknownOutcomeError if back_too else RetryError) as raised:
        RenameStage(failing, str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert ("the next run on this partition finishes it" in str(raised.value)) == back_too
    assert visible(tmp_path) - {"_tmp_run"} == ({DELTA} if back_too else set())
    assert list(RenameStore(FS).roll_forward(str(tmp_path))) == [f"{PAIR} finished"] * back_too


def test_a_first_rename_that_is_done_and_called_a_conflict_is_finished_by_the_next_run(tmp_path: Path) -> None:
    """A mount that has lost an answer asks again by itself, and is told that the source is gone."""
    staging, staged = stage(tmp_path, DELTA, DELETES)
    renames = RenameStage(Failing(DELTA, done=True, error=ConflictError("gone")), str(tmp_path), staging)
    with pytest.raises(ConflictError, match="gone"):
        renames.publish(staged, inputs=INPUTS, last_check=fine)
    assert renames.discard() is None
    assert list(RenameStore(FS).roll_forward(str(tmp_path))) == [f"{PAIR} finished"]
    assert visible(tmp_path) == {DELTA, DELETES}


def test_a_record_that_cannot_be_removed_may_be_finished_by_the_next_run(tmp_path: Path) -> None:
    staging, staged = stage(tmp_path, DELTA, DELETES)

    class Stuck(LocalFileSystem):
        def rename_noreplace(self, source: str, target: str, **how: Any) -> None:
            if target == f"{tmp_path}/{DELTA}":
                raise RetryError("Cannot rename")
            super().rename_noreplace(source, target, **how)

        def remove_tree(self, root: str, relative: str, **more: str) -> None:
            raise RetryError("Cannot remove")

    with pytest.raises(UnknownOutcomeError, match="the next run on this partition finishes it"):
        RenameStage(Stuck(), str(tmp_path), staging).publish(staged, inputs=INPUTS, last_check=fine)
    assert list(RenameStore(FS).roll_forward(str(tmp_path))) == [f"{PAIR} finished"]


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


GONE = f"its input {INPUTS[0]} is gone, so other directories hold those rows"
REMOVED = f"{DELTA} was removed after it was published, and all its inputs are still there"
WIDER = "delta_0000001_0000007"
BASE = "base_0000004"
TAKEN_UP = f"{BASE} covers it: another compactor has merged its visible half"


@pytest.mark.parametrize("visible_only", [False, True])
@pytest.mark.parametrize(
    ("renamed", "removed", "made", "outcome", "reason", "left"),
    [
        pytest.param((DELTA, DELETES), (), (), "was published", None, (DELTA, DELETES), id="whole: only tidied up"),
        pytest.param((), INPUTS[:1], (), "discarded", GONE, (), id="hidden, and its input is gone"),
        pytest.param(
            (), (), (DELTA,), "discarded", f"{DELTA} already exists", (DELTA,), id="hidden, and its name taken"
        ),
        pytest.param((), (), (WIDER,), "discarded", f"{WIDER} covers it", (WIDER,), id="hidden, and merged by others"),
        pytest.param((DELTA,), INPUTS[:1], (), "finished", None, (DELTA, DELETES), id="half, and its input is gone"),
        # others have compacted what was visible of it, and cleaned
        pytest.param((DELTA,), (DELTA,), (BASE,), "discarded", TAKEN_UP, (BASE,), id="half that a base covers"),
        pytest.param(
            (DELTA,), (DELTA,), (), "discarded", REMOVED, (), id="half that was removed, with all inputs there"
        ),
        pytest.param(
            (DELTA,), (*INPUTS[:1], DELTA), (BASE,), "discarded", TAKEN_UP, (BASE,), id="half that was cleaned with it"
        ),
        # the base may be that of a transaction which will be aborted
        *(
            pytest.param(
                (DELTA,), (), (name,), "finished", None, (DELTA, DELETES, name), id=f"half, and {name} beside it"
            )
            for name in ("delta_0000005_0000009", "delta_0000002_0000002_0000", "base_0000000", BASE)
        ),
    ],
)
def test_the_next_run_finishes_or_discards_a_publication(
    tmp_path: Path,
    renamed: tuple[str, ...],
    removed: tuple[str, ...],
    made: tuple[str, ...],
    outcome: str,
    reason: str | None,
    left: tuple[str, ...],
    visible_only: bool,
) -> None:
    recorded(tmp_path, renamed=renamed)
    for name in removed:
        shutil.rmtree(tmp_path / name)
    for name in made:
        (tmp_path / name).mkdir()
    if visible_only and not renamed:
        assert RenameStore(FS).roll_forward(str(tmp_path), visible_only=True) == ()
        return
    (line,) = RenameStore(FS).roll_forward(str(tmp_path), visible_only=visible_only)
    assert line == f"{PAIR} {outcome}{'' if reason is None else f': {reason}'}"
    assert visible(tmp_path) == set(left)
    assert RenameStore(FS).unfinished(str(tmp_path)) == ()


@pytest.mark.parametrize("fault", ["an input is gone", "a wider delta covers them"])
def test_a_half_that_was_removed_with_what_stood_for_it_tells_what_to_do(tmp_path: Path, fault: str) -> None:
    staging = Path(recorded(tmp_path, renamed=(DELTA,)) + ".revoked")
    (tmp_path / DELTA).rename(tmp_path / "_aside")
    if fault == "an input is gone":
        (tmp_path / INPUTS[1]).rmdir()
    else:
        (tmp_path / "delta_0000001_0000009").mkdir()
    for _ in range(2):
        with pytest.raises(CorruptError, match="its other half, was removed") as raised:
            RenameStore(FS).roll_forward(str(tmp_path))
    assert (f"Put {tmp_path / DELTA} back" in str(raised.value), f"removing {staging} " in str(raised.value)) == (
        True,
    ) * 2
    assert (staging / "publish.json").exists()
    shutil.rmtree(tmp_path / "delta_0000001_0000009", ignore_errors=True)
    (tmp_path / "_aside").rename(tmp_path / DELTA)
    assert list(RenameStore(FS).roll_forward(str(tmp_path))) == [f"{PAIR} finished"]


@pytest.mark.parametrize(
    "wider", ["delta_0000001_0000007", "delete_delta_0000001_0000007", "delta_0000001_0000009_v0000012"]
)
@pytest.mark.parametrize("visible_only", [False, True])
def test_a_half_that_somebody_has_merged_alone_is_not_finished(tmp_path: Path, wider: str, visible_only: bool) -> None:
    """Hive's compactor came between: its result lacks the events of the other half, and would hide them for ever."""
    staging = Path(recorded(tmp_path, renamed=(DELTA,)) + ".revoked")
    (tmp_path / wider).mkdir()
    for _ in range(2):
        with pytest.raises(CorruptError, match=f"{wider} was made of {DELTA} without {DELETES}") as raised:
            RenameStore(FS).roll_forward(str(tmp_path), visible_only=visible_only)
        assert visible(tmp_path) == {DELTA, wider, staging.name}
    assert str(staging) in str(raised.value)
    (tmp_path / wider).rmdir()
    (line,) = RenameStore(FS).roll_forward(str(tmp_path))
    assert (line, visible(tmp_path)) == (f"{PAIR} finished", {DELTA, DELETES})


@pytest.mark.parametrize(
    ("fault", "kind"), [("staged", CorruptError), ("published", CorruptError), ("target", ConflictError)]
)
def test_a_half_that_is_not_what_was_recorded_is_not_finished(
    tmp_path: Path, fault: str, kind: type[AcidError]
) -> None:
    staging = recorded(tmp_path, renamed=(DELTA,))
    if fault == "staged":
        (Path(staging) / DELETES / "bucket_00000").write_bytes(b"torn")
    elif fault == "published":
        (tmp_path / DELTA / "bucket_00000").write_bytes(b"torn")
    else:
        (tmp_path / DELETES).mkdir()
    before = visible(tmp_path) - {"_tmp_run"}
    with pytest.raises(kind):
        RenameStore(FS).roll_forward(str(tmp_path))
    assert visible(tmp_path) - {"_tmp_run.revoked"} == before
    assert Path(f"{staging}.revoked", "publish.json").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 1}',
        '{"version": 2, "directories": [{"name": "base_1", "files": {}}], "inputs": []}',
        '{"version": 1, "directories": [], "inputs": []}',
        '{"version": 1, "directories": [{"name": "base_1", "files": []}], "inputs": []}',
        '{"version": 1, "directories": [{"name": "base_1", "files": {"a": "1"}}], "inputs": []}',
        '{"version": 1, "directories": [{"name": "a/b", "files": {}}], "inputs": []}',
    ],
)
def test_a_damaged_record_is_an_error(tmp_path: Path, text: str) -> None:
    staging = RenameStore(FS).stage(str(tmp_path), unique="x", owner="o", now=1.0).path
    Path(staging, "publish.json").write_text(text)
    with pytest.raises(CorruptError, match=r"publish\.json"):
        RenameStore(FS).roll_forward(str(tmp_path))


ASIDE = f"{UNDONE}7.1"
WHOLE = {DELTA, DELETES, *INPUTS}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A pair of results and what it was made of."""
    for name in WHOLE:
        (tmp_path / name).mkdir()
        (tmp_path / name / "bucket_00000").write_bytes(name.encode())
    return tmp_path


def take_back(place: Path, fs: RenameFileSystem = FS, check: Any = fine) -> None:
    stage = RenameStore(FS).stage(str(place), unique="run", owner="test", now=1.0)
    RenameStage(fs, str(place), stage.path).take_back((DELETES, DELTA), aside=ASIDE, inputs=INPUTS, last_check=check)


def seen(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def is_aside(place: Path) -> bool:
    held = place / ASIDE
    return seen(place) == {*INPUTS, ASIDE} and (held / DELTA / "bucket_00000").read_bytes() == DELTA.encode()


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("error", [RetryError("Cannot rename: an error"), KeyboardInterrupt()])
def test_what_was_moved_is_moved_back_when_a_rename_fails(place: Path, at: int, error: BaseException) -> None:
    with pytest.raises(type(error)):
        take_back(place, Failing(at, done=False, error=error))
    assert seen(place) == WHOLE


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_rename_whose_answer_is_lost_is_done(place: Path, at: int) -> None:
    take_back(place, Failing(at, done=True, error=RetryError("Cannot tell: no answer came")))
    assert is_aside(place)
    assert RenameStore(FS).roll_forward(str(place)) == ()


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_when_nobody_can_look_the_next_run_puts_it_back(place: Path, at: int, done: bool) -> None:
    with pytest.raises(UnknownOutcomeError, match="puts back those that were moved, unless all were"):
        take_back(place, Failing(at, done=done, error=RetryError("Cannot rename: an error"), away=True))
    outcomes = list(RenameStore(FS).roll_forward(str(place)))
    if at == 3 and done:
        assert outcomes == []
        assert is_aside(place)
    else:
        assert outcomes == [f"{PAIR} was published" if (at, done) == (1, False) else f"{PAIR} finished"]
        assert seen(place) == WHOLE


def test_nothing_changes_without_the_last_check_or_all_of_it(place: Path) -> None:
    def lost() -> None:
        raise ConflictError("the claim is lost")

    with pytest.raises(ConflictError, match="the claim is lost"):
        take_back(place, check=lost)
    assert seen(place) == WHOLE
    (place / DELTA / "inner").mkdir()
    with pytest.raises(CorruptError, match="inner in it is a directory"):
        take_back(place)
    assert seen(place) == WHOLE
    (place / DELTA / "inner").rmdir()
    (place / DELETES).rename(place / "_elsewhere")
    with pytest.raises(AcidError):
        take_back(place)
    assert seen(place) == (WHOLE - {DELETES}) | {"_elsewhere"}


@pytest.mark.parametrize("error", [ConflictError("the claim is lost"), KeyboardInterrupt()])
def test_the_first_error_is_told_when_the_name_node_goes_away_with_it(place: Path, error: BaseException) -> None:
    class Away(LocalFileSystem):
        def exists(self, path: str) -> bool:
            raise RetryError("Cannot look: the name node cannot be reached")

    def lost() -> None:
        raise error

    with pytest.raises(type(error)):
        take_back(place, Away(), check=lost)
    assert seen(place) == WHOLE | {"_tmp_run"}


def test_a_bucket_takes_nothing_back() -> None:
    store: Any = BucketStore(None)  # type: ignore[arg-type] # nothing is asked of it
    with pytest.raises(RefusedError, match="nothing can be renamed in a bucket"):
        store.require_taking_back("s3a://b/t")
