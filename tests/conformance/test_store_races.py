"""Local disks and mounts, in the races that every store has to stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from located import at
from mounts import FLAG, NO_FLAG, refuse_flag
from rename_stores import RenameStoreUnderTest
from store_races import (
    LAYOUTS,
    SIXTH,
    StoreRaces,
    StoreUnderTest,
    claims_in_turn,
    holder_and_taker,
    tried,
    try_all_steps,
)

from acidlib.errors import ConflictError
from acidlib.stores.filesystem import RenameFileSystem
from acidlib.stores.renaming import claims
from acidlib.stores.renaming import store as publishing
from acidlib.stores.renaming.local import LocalDataFiles, LocalFileSystem
from acidlib.stores.renaming.store import RenameStage, RenameStore
from acidlib.stores.store import CLAIM, REVOKED
from acidlib.stores.stores import Stores


@pytest.fixture(params=[FLAG, NO_FLAG, "mount"])
def under(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoreUnderTest:
    place = tmp_path
    if request.param == NO_FLAG:
        refuse_flag(monkeypatch)
    if request.param == "mount":
        place = request.getfixturevalue("mount")
    return RenameStoreUnderTest(Stores(), at(place), apart=1 if request.param == FLAG else SIXTH)


class TestLocalStores(StoreRaces):
    """With and without a rename that never replaces, and on a mount of FUSE."""


# --- the suite finds what is wrong ------------------------------------------------------------------------------------


def claim_by_contents(patch: pytest.MonkeyPatch) -> None:
    """A claim is compared first, and then whatever is there is overwritten."""
    rename = LocalFileSystem.rename_noreplace

    def overwriting(self: LocalFileSystem, source: str, target: str, **more: Any) -> None:
        within = Path(source).parent
        if within.name == CLAIM and within.exists() and not Path(source).exists():
            source = next((str(path) for path in within.iterdir() if path.is_dir()), source)
        rename(self, source, target, **more)

    patch.setattr(LocalFileSystem, "rename_noreplace", overwriting)


def no_numbers(patch: pytest.MonkeyPatch) -> None:
    """A renewal leaves the name that a taker has seen."""
    rename = claims.try_to_rename
    patch.setattr(claims, "_ticket_path", lambda directory, number, token: f"{directory}/0.{token}")
    patch.setattr(
        claims, "try_to_rename", lambda fs, a, b, **more: fs.exists(a) if a == b else rename(fs, a, b, **more)
    )


def claim_by_making(patch: pytest.MonkeyPatch) -> None:
    """A claim is a directory that is made, where making one that is there is no error."""

    def moved(self: LocalFileSystem, source: str, target: str, **more: Any) -> None:
        if Path(target).name == CLAIM:
            Path(target).mkdir(exist_ok=True)
            for path in Path(source).iterdir():
                path.rename(Path(target) / path.name)
        else:
            rename(self, source, target, **more)

    rename = LocalFileSystem.rename_noreplace
    patch.setattr(LocalFileSystem, "rename_noreplace", moved)


def no_revocation(patch: pytest.MonkeyPatch) -> None:
    """What others have staged is left to them."""
    patch.setattr(RenameStore, "revoke_others", lambda self, location: None)


def no_look_after_a_revocation(patch: pytest.MonkeyPatch) -> None:
    """An error of its rename is believed."""

    def believing(fs: RenameFileSystem, path: str) -> str:
        if not path.endswith(REVOKED):
            fs.rename_noreplace(path, path + REVOKED, missing=ConflictError)
        return path.removesuffix(REVOKED) + REVOKED

    patch.setattr(publishing, "revoke", believing)


def no_look_after_a_publication(patch: pytest.MonkeyPatch) -> None:
    """An error of its rename is believed."""
    patch.setattr(RenameStage, "_is_published", lambda *arguments: None)


def parents_are_made(patch: pytest.MonkeyPatch) -> None:
    """A task makes the directories above its file."""
    create = LocalDataFiles.create

    def made(self: LocalDataFiles, path: str) -> Any:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return create(self, path)

    patch.setattr(LocalDataFiles, "create", made)


def no_record(patch: pytest.MonkeyPatch) -> None:
    """Nobody can finish what takes two renames."""
    patch.setattr(publishing, "write_record", lambda fs, path, record: None)


def every_step(how: str, layout: str, **more: Any) -> Callable[[StoreUnderTest], object]:
    return lambda under: try_all_steps(under, layout, how, **more)


ONE, TWO = LAYOUTS
TRIALS: dict[str, Callable[[StoreUnderTest], object]] = {
    "killed": every_step("killed", TWO),
    "asleep": every_step("asleep", ONE),
    "asleep, two": every_step("asleep", TWO),
    "asleep, cleaned": every_step("asleep", ONE, cleans=True),
    "answers lost": every_step("asleep", TWO, seed=1),
    "undisturbed, answers lost": lambda under: [tried(under, LAYOUTS[ONE], "killed", 999, seed=n) for n in range(9)],
    "outlived": every_step("outlived by a task", TWO),
    "taker asleep": lambda under: [holder_and_taker(under, at) for at in range(20)],
    "in turn": lambda under: claims_in_turn(under, processes=6, claims=20),
}
# and what it says of it
MUTANTS: list[tuple[Callable[[pytest.MonkeyPatch], None], str, str]] = [
    (claim_by_contents, "asleep", "our claim on it is lost"),
    (claim_by_contents, "taker asleep", "owner and taker"),
    (no_numbers, "taker asleep", "an owner that has renewed was taken over"),
    (claim_by_making, "in turn", "which no run leaves|two hold the place|File(NotFound|Exists)Error.*_acidlib_claim"),
    (no_revocation, "asleep, cleaned", "not seen by others"),
    (no_look_after_a_revocation, "answers lost", "the answer was lost"),
    (no_look_after_a_publication, "undisturbed, answers lost", "it ended by .*UnknownOutcomeError"),
    (parents_are_made, "outlived", "what was revoked has come back"),
    (no_record, "killed", "half a result is seen"),
]


@pytest.mark.parametrize(("mutant", "trial", "says"), MUTANTS)
def test_the_suite_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Callable[[pytest.MonkeyPatch], None], trial: str, says: str
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError, match=says):
        TRIALS[trial](RenameStoreUnderTest(Stores(), at(tmp_path)))
