"""Claims on a partition: exclusive, renewed, taken over by one only. Time is a number the tests set.

All of it on file systems that can rename without replacing, and on those that cannot.
"""

import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest
from integration.children import forked
from mounts import NO_FLAG, refuse_flag_for_good

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.processes import process_identity
from acidlib.storage.claims import CLAIM_FILE, ClaimInfo, claim, is_claimed, read_claim
from acidlib.storage.filesystem import FileSystem
from acidlib.storage.litter import find_litter
from acidlib.storage.local import LocalFileSystem

FS: FileSystem = LocalFileSystem()

pytestmark = pytest.mark.usefixtures("way")


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    clock = Clock(1_700_000_000.0)
    location = str(tmp_path)
    with claim(FS, location, owner="worker-1 on a", token="t1", clock=clock) as held:
        assert json.loads((tmp_path / CLAIM_FILE).read_text()) == {
            "owner": "worker-1 on a",
            "token": "t1",
            "start": 1_700_000_000.0,
            "beat": 1_700_000_000.0,
            "process": process_identity(),
        }
        assert str(held.location) == location
        clock.now += 599
        assert is_claimed(FS, location, clock.now)
        with pytest.raises(ConflictError, match=r"because worker-1 on a has worked on it since 2023-11-14T22:13:20"):
            claim(FS, location, owner="worker-2", token="t2", clock=clock)
        held.assert_mine()
        assert read_claim(FS, location) == held.info
        assert held.info.beat == clock.now
    assert list(tmp_path.iterdir()) == []
    assert not is_claimed(FS, location, clock.now)


def test_a_stale_claim_is_taken_over_and_its_owner_notices(tmp_path: Path) -> None:
    clock = Clock(1000.0)
    location = str(tmp_path)
    first = claim(FS, location, owner="slept", token="t1", clock=clock, beat_seconds=3600)
    clock.now += 600
    with pytest.raises(ConflictError):
        claim(FS, location, owner="taker", token="t2", clock=clock)
    clock.now += 0.5
    second = claim(FS, location, owner="taker", token="t2", clock=clock)
    with pytest.raises(ConflictError, match="our claim on it is lost"):
        first.assert_mine()
    first.release()
    assert read_claim(FS, location) == second.info
    second.assert_mine()
    second.release()
    assert list(tmp_path.iterdir()) == []


def test_a_claim_that_was_removed_is_lost(tmp_path: Path) -> None:
    held = claim(FS, str(tmp_path), owner="a", token="t", clock=Clock(1.0))
    (tmp_path / CLAIM_FILE).unlink()
    with pytest.raises(ConflictError, match="lost"):
        held.assert_mine()
    held.release()
    held.release()
    with pytest.raises(ConflictError, match="lost"):
        held.assert_mine()


def test_the_claim_is_renewed_in_the_background(tmp_path: Path) -> None:
    clock = Clock(1.0)
    with claim(FS, str(tmp_path), owner="a", token="t", clock=clock, beat_seconds=0.01):
        clock.now = 500.0
        deadline = time.monotonic() + 5
        while (info := read_claim(FS, str(tmp_path))) is not None and info.beat != 500.0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert info is not None
        assert info.start == 1.0


def test_renewing_survives_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(1.0)
    with claim(FS, str(tmp_path), owner="a", token="t", clock=clock) as held:
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", _full)
            clock.now = 2.0
            with pytest.raises(RetryError, match="no space"):
                held.assert_mine()
        held.assert_mine()
        assert held.info.beat == 2.0
        assert [path.name for path in tmp_path.iterdir()] == [CLAIM_FILE]


def _full(handle: int, data: bytes) -> int:
    raise OSError(28, "No space left on device")


def test_a_damaged_claim_lives_as_long_as_it_is_fresh(tmp_path: Path) -> None:
    path = tmp_path / CLAIM_FILE
    path.write_text("{")
    os.utime(path, (5000, 5000))
    with pytest.raises(ConflictError, match="damaged"):
        claim(FS, str(tmp_path), owner="a", token="t", clock=Clock(5600.0))
    with claim(FS, str(tmp_path), owner="a", token="t", clock=Clock(5601.0)) as held:
        assert held.info.owner == "a"


def test_a_missing_location_cannot_be_claimed(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match="no such file or directory"):
        claim(FS, f"{tmp_path}/absent", owner="a", token="t", clock=Clock(1.0))


def test_nothing_is_claimed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(RefusedError, match="symbolic link"):
        claim(FS, f"{tmp_path}/link", owner="a", token="t", clock=Clock(1.0))
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("target", ["precious", "nowhere"])
def test_a_claim_that_is_a_link_is_not_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "precious").write_text("{}")
    os.utime(tmp_path / "precious", (1.0, 1.0))
    (tmp_path / "t" / CLAIM_FILE).symlink_to(tmp_path / target)
    with pytest.raises(AcidError, match="symbolic link"):
        claim(FS, f"{tmp_path}/t", owner="a", token="t", clock=Clock(1e9))
    assert (tmp_path / "precious").read_text() == "{}"
    assert not (tmp_path / "nowhere").exists()
    assert [path.name for path in (tmp_path / "t").iterdir()] == [CLAIM_FILE]


def test_leaving_by_an_error_releases(tmp_path: Path) -> None:
    with pytest.raises(KeyError), claim(FS, str(tmp_path), owner="a", token="t", clock=Clock(1.0)):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def _try_to_claim(location: str, token: str, go: float) -> str | None:
    while time.time() < go:
        pass
    try:
        claim(FS, location, owner=token, token=token, clock=lambda: 10_000.0)
    except ConflictError:
        return None
    return token


@pytest.mark.parametrize("stale", [True, False])
def test_of_many_takers_exactly_one_wins(tmp_path: Path, stale: bool, way: str) -> None:
    with multiprocessing.get_context("spawn").Pool(3, refuse_flag_for_good if way == NO_FLAG else None) as pool:
        for round_number in range(8):
            location = tmp_path / str(round_number)
            location.mkdir()
            if stale:
                dead = ClaimInfo(owner="dead", token="dead", start=1.0, beat=1.0)
                (location / CLAIM_FILE).write_bytes(dead.encode())
            go = time.time() + 0.02
            takers = [(str(location), f"{round_number}-{index}", go) for index in range(3)]
            winners = [token for token in pool.starmap(_try_to_claim, takers, chunksize=1) if token]
            assert len(winners) == 1
            held = read_claim(FS, str(location))
            assert held is not None
            assert held.token == winners[0]
            assert [path.name for path in location.iterdir()] == [CLAIM_FILE]


def test_a_sign_of_life_from_a_time_to_come_does_not_hold_a_place_until_then(tmp_path: Path) -> None:
    early, late = Clock(1000.0), Clock(1000.0 + 86_400)
    ahead = claim(FS, str(tmp_path), owner="worker-1", token="t1", clock=late)
    with claim(FS, str(tmp_path), owner="worker-2", token="t2", clock=early) as held:
        held.assert_mine()
        with pytest.raises(ConflictError):
            ahead.assert_mine()
    ahead.release()


def test_a_process_of_this_machine_that_has_ended_holds_nothing(tmp_path: Path) -> None:
    def claims_and_dies() -> None:
        claim(FS, str(tmp_path), owner="worker-1", token="t1", clock=lambda: 1000.0)
        os._exit(0)

    child = os.fork()
    if child == 0:
        claims_and_dies()
    os.waitpid(child, 0)
    info = read_claim(FS, str(tmp_path))
    assert info is not None
    assert info.owner == "worker-1"
    assert not is_claimed(FS, str(tmp_path), 1000.0)
    with claim(FS, str(tmp_path), owner="worker-2", token="t2", clock=lambda: 1000.0) as held:
        assert is_claimed(FS, str(tmp_path), 1000.0)
        held.assert_mine()


@pytest.mark.parametrize("way", [NO_FLAG], indirect=True)
def test_killed_while_the_claim_gets_its_name(tmp_path: Path) -> None:
    """Between link and unlink the file has two names; the one that is left over is litter."""

    def claims_and_dies() -> None:
        Path.unlink = lambda *_, **__: os._exit(7)  # type: ignore[method-assign]
        claim(FS, str(tmp_path), owner="worker-1", token="t1", clock=lambda: 1000.0)

    assert forked(claims_and_dies) == 7
    assert len(list(tmp_path.iterdir())) == 2
    with claim(FS, str(tmp_path), owner="worker-2", token="t2", clock=lambda: 1000.0) as held:
        held.assert_mine()
    for left in tmp_path.iterdir():
        os.utime(left, (1000.0, 1000.0))
    (litter,) = find_litter(FS, str(tmp_path), now=200_000.0)
    assert litter.name.startswith(f"{CLAIM_FILE}.")
