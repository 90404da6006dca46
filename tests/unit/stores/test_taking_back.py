"""Taking back what was published: all of it or nothing, whatever a rename answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.renaming.store import RenameStage, RenameStore
from acidlib.stores.s3.store import S3Store
from acidlib.stores.store import UNDONE
from unit.stores.staged import DELETES, DELTA, FS, INPUTS, fine

ASIDE = f"{UNDONE}7.1"
WHOLE = {DELTA, DELETES, *INPUTS}


class Failing(LocalFileSystem):
    """Whose n-th rename of a directory fails with an error: before it is done, or after."""

    def __init__(self, at: int, *, done: bool, error: BaseException, away: bool = False) -> None:
        self._at, self._done, self._error, self._stays_away = at, done, error, away
        self._seen, self._away = 0, False

    def rename_noreplace(self, source: str, target: str, **how: Any) -> None:
        self._reach()
        self._seen += 1
        fails = self._seen == self._at
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

    def _reach(self) -> None:
        if self._away:
            raise RetryError("Cannot look: because the name node cannot be reached")


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
@pytest.mark.parametrize("error", [RetryError("Cannot rename: because of an error"), KeyboardInterrupt()])
def test_what_was_moved_is_moved_back_when_a_rename_fails(place: Path, at: int, error: BaseException) -> None:
    with pytest.raises(type(error)):
        take_back(place, Failing(at, done=False, error=error))
    assert seen(place) == WHOLE


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_rename_whose_answer_is_lost_is_done(place: Path, at: int) -> None:
    take_back(place, Failing(at, done=True, error=RetryError("Cannot tell: because no answer came")))
    assert is_aside(place)
    assert RenameStore(FS).roll_forward(str(place)) == ()


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_when_nobody_can_look_the_next_run_puts_it_back(place: Path, at: int, done: bool) -> None:
    with pytest.raises(UnknownOutcomeError, match="puts back what was moved, unless all of it was"):
        take_back(place, Failing(at, done=done, error=RetryError("Cannot rename: because of an error"), away=True))
    outcomes = [item.outcome for item in RenameStore(FS).roll_forward(str(place))]
    if at == 3 and done:
        assert outcomes == []
        assert is_aside(place)
    else:
        assert outcomes == ["was published" if (at, done) == (1, False) else "finished"]
        assert seen(place) == WHOLE


def test_an_interrupt_puts_back_what_was_moved(place: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        take_back(place, Failing(1, done=True, error=KeyboardInterrupt()))
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


def test_a_bucket_takes_nothing_back() -> None:
    store: Any = S3Store(None)  # type: ignore[arg-type] # nothing is asked of it
    with pytest.raises(RefusedError, match="nothing can be renamed in a bucket"):
        store.require_taking_back("s3a://b/t")
