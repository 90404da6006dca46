"""Claims on a partition: exclusive, renewed, taken over by one only. The clock is that of the file system.

All of it on file systems that can rename without replacing, and on those that cannot.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claim_directories import CHANGES, age_claim, claims_at_time, holder_of, lay_claim
from integration.children import forked
from waits import until

from acidlib.errors import AcidError, ConflictError, CorruptError, HangingError, RefusedError, RetryError
from acidlib.processes import process_identity
from acidlib.stores.removing import find_litter
from acidlib.stores.renaming.claims import RenameClaim, claim, read_claim
from acidlib.stores.renaming.local import LocalFileSystem
from acidlib.stores.store import CLAIM, Claim
from acidlib.waiting import in_time
from unit.stores.places import FS

DAY = 86_400.0
STALE = 601.0

pytestmark = pytest.mark.usefixtures("way")


def is_claimed(fs: Any, location: str, now: float) -> bool:
    found = read_claim(fs, location)
    return found is not None and not found.is_stale(now)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def taken(location: Path, token: str) -> Claim:
    return claim(FS, str(location), owner=f"owner of {token}", token=token)


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    location, before = str(tmp_path), time.time() - 1
    with claim(FS, location, owner="worker-1 on a", token="t1") as held:
        assert names(tmp_path) == [CLAIM]
        assert names(tmp_path / CLAIM) == ["1.t1", "t1.json"]
        told = json.loads((tmp_path / CLAIM / "t1.json").read_text())
        assert before < told.pop("start") < time.time() + 1
        assert told == {"owner": "worker-1 on a", "token": "t1", "process": process_identity()}
        assert str(held.location) == location
        assert held.token == "t1"
        age_claim(tmp_path, STALE - 60)  # a machine may pause before it is looked at
        assert is_claimed(FS, location, time.time())
        with pytest.raises(ConflictError, match=r"worker-1 on a has worked on it since 20\d\d-\d\d-\d\dT"):
            claim(FS, location, owner="worker-2", token="t2")
        held.assert_mine()
        info = read_claim(FS, location)
        assert info is not None
        assert before < info.beat
        assert names(tmp_path / CLAIM) == ["2.t1", "t1.json"]
        assert names(tmp_path) == [CLAIM]
    assert names(tmp_path) == []
    assert not is_claimed(FS, location, time.time())


@pytest.mark.parametrize("looks", [True, False], ids=["it looks", "it releases at once"])
def test_a_stale_claim_is_taken_over_and_its_owner_leaves_its_successor_alone(tmp_path: Path, looks: bool) -> None:
    first = taken(tmp_path, "t1")
    age_claim(tmp_path, STALE - 60)
    with pytest.raises(ConflictError):
        taken(tmp_path, "t2")
    age_claim(tmp_path, 61)
    second = taken(tmp_path, "t2")
    assert names(tmp_path / CLAIM) == ["2.t2", "t2.json"]
    if looks:
        with pytest.raises(ConflictError, match="our claim on it is lost"):
            first.assert_mine()
    first.release()
    assert holder_of(tmp_path) == "owner of t2"
    second.assert_mine()
    assert names(tmp_path / CLAIM) == ["3.t2", "t2.json"]
    second.release()
    assert names(tmp_path) == []


@pytest.mark.parametrize("whole", [True, False], ids=["the directory", "the ticket"])
def test_a_claim_that_was_removed_is_lost(tmp_path: Path, whole: bool) -> None:
    held = taken(tmp_path, "t")
    (tmp_path / CLAIM / "1.t").rmdir()
    if whole:
        (tmp_path / CLAIM / "t.json").unlink()
        (tmp_path / CLAIM).rmdir()
    with pytest.raises(ConflictError, match="lost"):
        held.assert_mine()
    held.release()
    held.release()
    with pytest.raises(ConflictError, match="lost"):
        held.assert_mine()
    taken(tmp_path, "t2").release()


def test_the_claim_is_renewed_in_the_background(tmp_path: Path) -> None:
    class Quick(RenameClaim):
        beat_seconds = 0.01

    claim(FS, str(tmp_path), owner="a", token="t")
    with Quick(FS, str(tmp_path), "t", 1):
        until(lambda: names(tmp_path / CLAIM)[0] >= "3.t")


def test_renewing_survives_a_file_system_that_is_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: LocalFileSystem, source: str, target: str, **more: Any) -> None:
        raise RetryError("Cannot rename: it is away")

    with taken(tmp_path, "t") as held:
        with monkeypatch.context() as patched:
            patched.setattr(LocalFileSystem, "rename_noreplace", away)
            with pytest.raises(RetryError, match="away"):
                held.assert_mine()
        held.assert_mine()
        assert names(tmp_path / CLAIM) == ["2.t", "t.json"]


@pytest.mark.parametrize("content", [None, "{", "[]", '{"owner": "w"}', '{"owner": "w", "start": "x", "process": ""}'])
def test_an_owner_that_is_not_known_lives_as_long_as_its_claim_is_fresh(tmp_path: Path, content: str | None) -> None:
    path = lay_claim(tmp_path, age=500)
    if content is None:
        (path / "theirs.json").unlink()
    else:
        (path / "theirs.json").write_text(content)
    os.utime(path, (time.time() - 500,) * 2)
    with pytest.raises(ConflictError, match="its claim has no record" if content is None else "its claim is damaged"):
        taken(tmp_path, "t")
    age_claim(tmp_path, 101)
    taken(tmp_path, "t").release()
    assert names(tmp_path) == []


@pytest.mark.parametrize("other", ["8.another", "7", "something"])
def test_two_tickets_are_damage(tmp_path: Path, other: str) -> None:
    path = lay_claim(tmp_path, age=STALE)
    (path / other).mkdir()
    for work in (lambda: taken(tmp_path, "t"), lambda: read_claim(FS, str(tmp_path))):
        with pytest.raises(RefusedError, match=rf"it holds .*{other}.*Remove it if no run works there"):
            work()
    assert names(path) == sorted([other, "7.theirs", "theirs.json"])
    assert names(tmp_path) == [CLAIM]


def test_a_listing_that_misses_what_is_renamed_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_claim(tmp_path)
    real, seen = LocalFileSystem.list_directory, []

    def partly(self: LocalFileSystem, path: str, **more: Any) -> Any:
        seen.append(path)
        if len(seen) == 1:
            return ()
        if len(seen) == 2:
            raise ConflictError("Cannot list: 7.theirs vanished while it was listed")
        return real(self, path, **more)

    monkeypatch.setattr(LocalFileSystem, "list_directory", partly)
    assert is_claimed(FS, str(tmp_path), time.time())


def test_a_record_that_is_removed_while_it_is_looked_at_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release removes the ticket and then the record: what was listed before has no record after."""
    held, real = taken(tmp_path, "t"), LocalFileSystem.read

    def late(self: LocalFileSystem, path: str, **more: Any) -> bytes:
        held.release()
        return real(self, path, **more)

    monkeypatch.setattr(LocalFileSystem, "read", late)
    assert read_claim(FS, str(tmp_path)) is None


def test_a_record_that_cannot_be_read_is_called_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> bytes:
        raise RetryError("Cannot read it: the server is away")

    lay_claim(tmp_path)
    monkeypatch.setattr(LocalFileSystem, "read", away)
    holder = read_claim(FS, str(tmp_path))
    assert holder is not None
    assert holder.owner == "an unknown run (the record of its claim cannot be read: the server is away)"


# --- what is no place -------------------------------------------------------------------------------------------------


def test_a_missing_location_cannot_be_claimed(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match="no such file or directory"):
        taken(tmp_path / "absent", "t")


def test_nothing_is_claimed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(RefusedError, match="symbolic link"):
        taken(tmp_path / "link", "t")
    assert names(tmp_path / "outside") == []


@pytest.mark.parametrize("target", ["claim", "file", "nowhere"])
def test_a_claim_that_is_a_link_is_not_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "t").mkdir()
    lay_claim(tmp_path / "other", age=STALE).rename(tmp_path / "claim")
    (tmp_path / "file").write_text("{}")
    os.utime(tmp_path / "file", (1.0, 1.0))
    (tmp_path / "t" / CLAIM).symlink_to(tmp_path / target)
    with pytest.raises(AcidError, match="symbolic link"):
        taken(tmp_path / "t", "t")
    assert (tmp_path / "file").read_text() == "{}"
    assert names(tmp_path / "claim") == ["7.theirs", "theirs.json"]
    assert not (tmp_path / "nowhere").exists()
    assert names(tmp_path / "t") == [CLAIM]


def test_a_file_in_the_place_of_the_claim_is_refused_and_stays(tmp_path: Path) -> None:
    (tmp_path / CLAIM).write_text("{}")
    os.utime(tmp_path / CLAIM, (1.0, 1.0))
    for work in (lambda: taken(tmp_path, "t"), lambda: read_claim(FS, str(tmp_path))):
        with pytest.raises(RefusedError, match="it is a file, which no run leaves"):
            work()
    assert names(tmp_path) == [CLAIM]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("age", [0, STALE])
def test_a_claim_of_another_user_is_neither_obeyed_nor_taken_over(tmp_path: Path, age: float) -> None:
    path = lay_claim(tmp_path, age=age)
    os.chown(path, 12_345, -1)
    before = names(tmp_path), names(path)
    with pytest.raises(AcidError, match=r"belongs to another user|has worked on it"):
        taken(tmp_path, "t")
    assert (names(tmp_path), names(path)) == before


def test_a_claim_that_is_known_to_be_lost_is_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked of a store for it; it may have been lost because that is out of reach."""
    held = taken(tmp_path, "t")
    with monkeypatch.context() as patched:
        patched.setattr(RenameClaim, "renew", lambda _: False)
        with pytest.raises(ConflictError, match="lost"):
            held.assert_mine()
    before = names(tmp_path / CLAIM)
    held.release()
    assert names(tmp_path / CLAIM) == before


@pytest.mark.parametrize("step", ["assert_mine", "release"])
def test_a_step_that_waits_for_a_renewal_without_an_answer_hangs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """And a claim that is left is waited for by nobody."""
    answer, asked = threading.Event(), threading.Event()
    held = taken(tmp_path, "t1")

    def renew() -> bool:
        asked.set()
        return answer.wait(60)

    monkeypatch.setattr(held, "renew", renew)
    renewal = threading.Thread(target=held._beat)
    renewal.start()
    assert asked.wait(60)
    with pytest.raises(HangingError, match=rf"claim of {tmp_path}: there has been no answer for"):
        in_time(lambda step: getattr(held, step)(), 0.5, step)
    held.leave()
    held.release()
    assert CLAIM in names(tmp_path), "it goes stale"
    answer.set()
    renewal.join(60)


def test_leaving_by_an_error_releases(tmp_path: Path) -> None:
    with pytest.raises(KeyError), taken(tmp_path, "t"):
        raise KeyError
    assert names(tmp_path) == []


# --- clocks and processes ---------------------------------------------------------------------------------------------


def test_a_sign_of_life_from_a_time_to_come_does_not_hold_a_place_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        claims_at_time(patched, DAY)
        ahead = taken(tmp_path, "t1")
    with taken(tmp_path, "t2") as held:
        held.assert_mine()
        with pytest.raises(ConflictError):
            ahead.assert_mine()
    ahead.release()


def test_no_clock_of_a_machine_says_what_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is a day ahead where the file system runs."""
    claims_at_time(monkeypatch, DAY)
    first = taken(tmp_path, "t1")
    with pytest.raises(ConflictError):
        taken(tmp_path, "t2")
    claims_at_time(monkeypatch, DAY + STALE)
    first.assert_mine()
    with pytest.raises(ConflictError):
        taken(tmp_path, "t2")
    claims_at_time(monkeypatch, DAY + 2 * STALE)
    taken(tmp_path, "t2").release()


def test_a_process_of_this_machine_that_has_ended_holds_nothing(tmp_path: Path) -> None:
    assert forked(lambda: (taken(tmp_path, "t1"), os._exit(0))) == 0
    info = read_claim(FS, str(tmp_path))
    assert info is not None
    assert info.owner == "owner of t1"
    assert not is_claimed(FS, str(tmp_path), time.time())
    with taken(tmp_path, "t2") as held:
        assert is_claimed(FS, str(tmp_path), time.time())
        held.assert_mine()


# --- races of processes -----------------------------------------------------------------------------------------------


def steps(patch: Any, act: Callable[[int, str, Callable[[], Any]], Any]) -> list[str]:
    """Have `act` carry out each step that changes the file system: it is told its number and its name."""
    done: list[str] = []
    for name in CHANGES:
        real = getattr(LocalFileSystem, name)

        def step(self: Any, *arguments: Any, real: Any = real, name: str = name, **more: Any) -> Any:
            done.append(name)
            return act(len(done) - 1, name, lambda: real(self, *arguments, **more))

        patch.setattr(LocalFileSystem, name, step)
    return done


def claims(place: Path) -> None:
    taken(place, "t1")


def takes_over(place: Path) -> None:
    taken(place, "t1")


def releases(place: Path) -> None:
    held = taken(place, "t1")
    held.assert_mine()
    held.release()


WORKS = [claims, takes_over, releases]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("work", WORKS)
def test_killed_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Path], None], after: bool
) -> None:
    """The next run has the place; what is left when it goes is litter that is found."""
    for at in range(100):
        place = tmp_path / str(at)
        place.mkdir()
        if work is takes_over:
            lay_claim(place, age=STALE)

        def die(number: int, name: str, step: Callable[[], Any], at: int = at) -> Any:
            if number == at and not after:
                os._exit(7)
            result = step()
            if number == at:
                os._exit(7)
            return result

        def killed(place: Path = place, die: Any = die) -> None:
            steps(monkeypatch, die)
            work(place)

        ended = forked(killed)
        assert ended in (0, 7)
        if ended == 0:
            break
        if (place / CLAIM).is_dir():
            age_claim(place, STALE)  # where it was killed before anything told who it was
        with taken(place, "t2") as held:
            held.assert_mine()
        for left in place.iterdir():
            assert left.name == f"{CLAIM}.t1"
        found = find_litter(FS, str(place), now=time.time() + 2 * DAY)
        assert [litter.name for litter in found] == names(place)
    assert at > 3


def test_a_dead_releaser_leaves_litter(tmp_path: Path) -> None:
    path = tmp_path / CLAIM
    path.mkdir()
    assert read_claim(FS, str(tmp_path)) is None
    assert [litter.name for litter in find_litter(FS, str(tmp_path), now=time.time() + 2 * DAY)] == [CLAIM]
    (path / "t.json").write_text("{}")
    assert [litter.name for litter in find_litter(FS, str(tmp_path), now=time.time() + 2 * DAY)] == [CLAIM]
    assert find_litter(FS, str(tmp_path), now=time.time()) == ()
    with taken(tmp_path, "t2"):
        assert names(path) == ["1.t2", "t2.json"]


@pytest.mark.parametrize("work", WORKS)
def test_an_answer_that_is_lost_loses_no_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Path], None]
) -> None:
    """Of any rename, and of any removal of an empty directory: it was done, and the caller is told of an error."""
    lost = []
    for at in range(100):
        place = tmp_path / str(at)
        place.mkdir()
        if work is takes_over:
            lay_claim(place, age=STALE)

        def lose(number: int, name: str, step: Callable[[], Any], at: int = at) -> Any:
            result = step()
            if number == at and name in ("rename_noreplace", "remove_empty_directory"):
                lost.append(name)
                raise RetryError("Cannot: the connection was lost")
            return result

        with monkeypatch.context() as patched:
            done = steps(patched, lose)
            work(place)
        if work is releases:
            assert set(names(place)) <= {CLAIM}
            assert read_claim(FS, str(place)) is None
        else:
            assert names(place / CLAIM) == ["8.t1" if work is takes_over else "1.t1", "t1.json"]
        if at >= len(done):
            break
    assert len(lost) == {claims: 1, takes_over: 2, releases: 4}[work]


def test_a_renewal_that_is_carried_out_late_is_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer was lost before the server had done it; then it was looked at, and then it was done."""
    held = taken(tmp_path, "t")
    rename = LocalFileSystem.rename_noreplace
    waiting: list[Any] = []

    def late(self: LocalFileSystem, *arguments: Any, **more: Any) -> None:
        waiting.append(arguments)
        raise RetryError("Cannot rename: the connection was lost")

    for then in (held.assert_mine, held.release):
        with monkeypatch.context() as patched:
            patched.setattr(LocalFileSystem, "rename_noreplace", late)
            with pytest.raises(RetryError):
                held.assert_mine()
        rename(LocalFileSystem(), *waiting.pop())
        then()
    assert names(tmp_path) == []
