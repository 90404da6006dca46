"""What every store has to stand: runs that are killed, sleep and wake at any step, while another one takes over.

Each run is a process of its own. A store under test tells each step that changes something before it is done, so that
the run can end or sleep there; and answers of renames can be lost: the rename is done, and the caller is told of an
error. What readers see is judged whenever somebody looks: the rows of the inputs or those of a result, whole.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from typing import Any, Protocol

import pytest
from forking import fork
from long_runs import LONG, amount

from acidlib.errors import AcidError, ConflictError, RetryError
from acidlib.location import Location
from acidlib.stores.filesystem import FileSystem
from acidlib.stores.removing import find_litter, remove_paths
from acidlib.stores.renaming.claims import ClaimRecord
from acidlib.stores.store import STAGING_MARKER, STAGING_PREFIX, Claim, StagedFile, Store, attempt_path

DAY = 86_400
INPUTS = ("delta_0000001_0000001_0000", "delta_0000004_0000004_0000")
FILES = ("bucket_00000", "bucket_00001")
LAYOUTS = {
    "one directory": ("base_0000004",),
    "two directories": ("delta_0000001_0000004", "delete_delta_0000001_0000004"),
}
LATER = ("base_0000009",)
MARKERS = {"_orc_acid_version", "_metadata_acid"}
LOST = 0.3
SEEDS = (None, 1)
"""Of lost answers; None loses none."""

Step = Callable[[], Any]
Watch = Callable[[str, Step], Any]
Seen = dict[str, dict[str, str]]
"""The visible directories with their files and contents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A store as one process has opened it. `write` makes a file of an attempt, as a task does."""

    store: Store
    fs: FileSystem
    write: Callable[[str, bytes], None]


class StoreUnderTest(Protocol):
    """One kind of store. `apart` is 1, or where runs are slow, how far the steps are apart that one test tries.

    Where it is 1, the ways in `WHOLE` try every step.
    """

    @property
    def apart(self) -> int: ...

    def new_place(self) -> Location:
        """A location that is not there yet."""

    def lay(self, path: str, data: bytes | None) -> None:
        """Makes a directory, or a file with these bytes, which readers see."""

    def open(self, watch: Watch) -> Opened:
        """Opens it in this process; each step that changes something is done by `watch`, under its name."""


# --- processes --------------------------------------------------------------------------------------------------------


class Talk:
    """The end of a process that tells the test what it does."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def sleep(self, told: Any = None) -> None:
        """Says that it sleeps, until it is woken."""
        self._connection.send(("asleep", told))
        self._connection.recv()


class Actor:
    """Work in a process of its own, which stays until the actor is ended."""

    def __init__(self, work: Callable[[Talk], Any]) -> None:
        self._connection, theirs = Pipe()
        self._pid = fork()
        if self._pid == 0:
            self._connection.close()
            _act(work, theirs)
        theirs.close()

    def told(self) -> tuple[str, Any]:
        """What it tells next: "asleep", "done" with its result, or "dead"."""
        assert self._connection.poll(300), "a process tells nothing"
        try:
            kind, what = self._connection.recv()
        except EOFError:
            return "dead", None
        assert kind != "broken", what
        return kind, what

    def done(self) -> Any:
        """Its result."""
        kind, what = self.told()
        assert kind == "done", kind
        return what

    def slept(self) -> Any:
        """What it told when it went to sleep."""
        kind, what = self.told()
        assert kind == "asleep", (kind, what)
        return what

    def wake(self) -> None:
        """Lets it go on."""
        self._connection.send(None)

    def end(self) -> None:
        """Ends it."""
        self._connection.close()
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _act(work: Callable[[Talk], Any], connection: Any) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(600)
    os.fsync = lambda handle: None  # no loss of power is tried here
    try:
        connection.send(("done", work(Talk(connection))))
    except BaseException as error:
        connection.send(("broken", f"{type(error).__name__}: {error}"))
    with suppress(EOFError):
        connection.recv()
    os._exit(0)


@contextmanager
def acting(*works: Callable[[Talk], Any]) -> Iterator[list[Actor]]:
    """Actors that are ended at the end."""
    actors = [Actor(work) for work in works]
    try:
        yield actors
    finally:
        for actor in actors:
            actor.end()


def result(work: Callable[[Talk], Any]) -> Any:
    """What some work returns that is done in a process of its own."""
    with acting(work) as (actor,):
        return actor.done()


class Watched:
    """Counts steps; at the one numbered `at`, the process ends or sleeps. Some answers of renames are lost."""

    def __init__(self, talk: Talk | None = None, how: str = "", at: int = -1, seed: str | None = None) -> None:
        self.names: list[str] = []
        self._talk = talk
        self._how = how
        self._at = at
        self._random = None if seed is None else random.Random(seed)

    def __call__(self, name: str, step: Step) -> Any:
        self.names.append(name)
        here = len(self.names) - 1 == self._at and self._talk is not None
        if here and self._how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if here and self._talk is not None:
            self._talk.sleep(name)
        done = step()
        if here and self._how == "outlived by a task" and name == "write":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._random is not None and name == "rename_noreplace" and self._random.random() < LOST:
            raise RetryError("Cannot rename: the answer was lost")
        return done


# --- what runs do -----------------------------------------------------------------------------------------------------


def contents(unique: str, directory: str, file: str) -> str:
    return f"{unique}/{directory}/{file}"


def lay(under: StoreUnderTest, place: Location) -> None:
    """The inputs."""
    under.lay(str(place), None)
    for name in INPUTS:
        under.lay(f"{place}/{name}", None)
    files = [(name, file) for name in INPUTS for file in FILES]
    with ThreadPoolExecutor(len(files)) as pool:
        list(pool.map(lambda one: under.lay(f"{place}/{'/'.join(one)}", contents("input", *one).encode()), files))


def publishes(opened: Opened, held: Claim, place: Location, unique: str, layout: tuple[str, ...]) -> str:
    """All of a compaction but the rows, by a run that holds the claim."""
    if any(opened.fs.exists(f"{place}/{name}") for name in layout):
        return "was there"
    stage = opened.store.stage(place, unique=unique, owner=unique, now=0.0)
    try:
        staged = []
        for name in layout:
            attempts = []
            for file in FILES:
                path, data = attempt_path(stage.path, name, file, "0"), contents(unique, name, file).encode()
                opened.write(path, data)
                attempts.append(StagedFile(path=path, name=file, length=len(data)))
            staged.append(stage.accept(name, attempts))

        def last_check() -> None:
            held.assert_mine()
            if not all(opened.fs.exists(f"{place}/{name}") for name in INPUTS):
                raise ConflictError("Cannot publish: an input is gone")

        stage.publish(tuple(staged), inputs=INPUTS, last_check=last_check)
    except AcidError:
        with suppress(AcidError):
            stage.discard()
        raise
    return "published"


def claimed(opened: Opened, place: Location, unique: str) -> Claim:
    """A place that was claimed as runs do: what earlier ones staged is taken, what they recorded is finished."""
    held = opened.store.claim(place, owner=unique, token=unique, now=time.time())
    try:
        opened.store.revoke_others(place)
        opened.store.roll_forward(place)
    except BaseException:
        with suppress(AcidError):
            held.release()
        raise
    return held


def compacts(opened: Opened, place: Location, unique: str, layout: tuple[str, ...]) -> str:
    """A run; how it ended."""
    try:
        with claimed(opened, place, unique) as held:
            return publishes(opened, held, place, unique, layout)
    except AcidError as error:
        return f"{type(error).__name__}: {error}"


def believe_dead() -> None:
    """Let this process take whom it looks at first for dead, until there is a newer sign of life."""
    first: list[float] = []

    def is_stale(self: ClaimRecord, now: float) -> bool:
        first.append(self.beat)
        return self.beat <= first[0]

    ClaimRecord.is_stale = is_stale  # type: ignore[method-assign]


def seen(opened: Opened, place: Location) -> Seen:
    """What a reader sees at this moment, and under their names what is hidden."""
    found: Seen = {}
    for entry in opened.fs.list_tree(str(place), enter_hidden=False):
        directory, _, file = entry.path.partition("/")
        if directory.startswith("_"):
            found.setdefault("hidden", {})[directory] = ""
        elif not file:
            found.setdefault(directory, {})
        else:
            found[directory][file] = opened.fs.read(f"{place}/{entry.path}").decode()
    return found


def visible(found: Seen) -> Seen:
    return {name: files for name, files in found.items() if name != "hidden"}


def whose(name: str, files: dict[str, str]) -> str:
    """The run whose directory it is, whole."""
    data = {file: text for file, text in files.items() if file not in MARKERS}
    (unique,) = {text.partition("/")[0] for text in data.values()}
    assert data == {file: contents(unique, name, file) for file in FILES}, (name, files)
    markers = set() if unique == "input" else MARKERS if name.startswith("base") else {"_orc_acid_version"}
    assert files.keys() - data.keys() == markers, (name, files)
    return unique


def judge(found: Seen, layout: tuple[str, ...], *, between: bool = False) -> str | None:
    """The run whose result readers see, None if they see the inputs; fails if they see neither, or a part.

    between  whether somebody may be between two renames; then the rows of the first one are seen as well
    """
    owners = {name: whose(name, files) for name, files in visible(found).items()}
    assert all((owner == "input") == (name in INPUTS) for name, owner in owners.items()), owners
    assert owners.keys() <= {*INPUTS, *layout, *LATER}, owners
    for result_names in (LATER, layout):
        runs = {owners[name] for name in result_names if name in owners}
        assert len(runs) <= 1, owners
        if all(name in owners for name in result_names):
            return runs.pop()
    there = tuple(name for name in layout if name in owners)
    assert there in (((), layout[:1]) if between else ((),)), f"half a result is seen: {owners}"
    assert set(INPUTS) <= owners.keys(), f"an input is lost: {owners}"
    return None


# --- the suite --------------------------------------------------------------------------------------------------------


def run(
    under: StoreUnderTest, place: Location, layout: tuple[str, ...], how: str, at: int, seed: str | None
) -> Callable[[Talk], Any]:
    """A run that lays the inputs first, and is killed or sleeps at a step."""

    def work(talk: Talk) -> tuple[str, list[str]]:
        lay(under, place)
        watched = Watched(talk, how, at, seed)
        return compacts(under.open(watched), place, "first", layout), watched.names

    return work


def takes_over(
    under: StoreUnderTest, place: Location, layout: tuple[str, ...], seed: str | None, *, cleans: bool
) -> Callable[[Talk], Any]:
    """A run that takes over from the first one, compacts what is not compacted, cleans if it is told to, and waits.

    A cleaner publishes something wider before, so that the name of what was published is free again.
    """

    def work(talk: Talk) -> tuple[Seen, Seen, bool, list[str]]:
        opened = under.open(Watched(seed=seed))
        marker = f"{place}/{STAGING_PREFIX}first/{STAGING_MARKER}"
        before, was_staged = seen(opened, place), opened.fs.exists(marker)
        believe_dead()
        held = claimed(opened, place, "second")
        taken = seen(opened, place)
        if cleans:
            publishes(opened, held, place, "second", LATER)
            gone = tuple(name for name in visible(seen(opened, place)) if name not in LATER)
            assert not remove_paths(opened.store, held, gone, is_seen=False).failed
        else:
            publishes(opened, held, place, "second", layout)
        after = seen(opened, place)
        talk.sleep((before, taken, after))
        held.assert_mine()
        came_back = was_staged and opened.fs.exists(marker.rpartition("/")[0])
        found = seen(opened, place)
        held.release()
        return found, came_back

    return work


def settles(under: StoreUnderTest, place: Location) -> Callable[[Talk], Any]:
    """A run of days later, which finishes and removes what others left."""

    def work(talk: Talk) -> Seen:
        opened = under.open(lambda name, step: step())
        with claimed(opened, place, "third"):
            for litter in find_litter(opened.fs, place, now=time.time() + 2 * DAY):
                opened.store.remove(place, litter.name)
        return seen(opened, place)

    return work


def tried(
    under: StoreUnderTest, layout: tuple[str, ...], how: str, at: int, *, cleans: bool = False, seed: int | None = None
) -> bool:
    """Try one step of a run; False when it has not so many."""
    place = under.new_place()
    chances = None if seed is None else f"{seed} {at}"
    with acting(run(under, place, layout, how, at, chances)) as (first,):
        kind, told = first.told()
        if kind == "done":
            assert told[0] == "published", f"undisturbed, it ended by {told}"
            found = result(settles(under, place))
            assert judge(found, layout) == "first"
            assert "hidden" not in found
            return False
        with acting(takes_over(under, place, layout, chances, cleans=cleans)) as (second,):
            before, taken, after = second.slept()
            judge(before, layout, between=True)
            owner = judge(taken, layout)
            assert judge(after, layout) == ("second" if cleans else owner or "second")
            if kind == "asleep":
                first.wake()
                kind, told = first.told()
            if kind == "done":
                # who slept before it looked may find the result of the other one
                assert (told[0] == "published") <= (owner == "first"), f"not seen by others: {told}"
            second.wake()
            found, came_back = second.done()
    assert visible(found) == visible(after), "who was taken over has changed what readers see"
    assert not came_back, "what was revoked has come back"
    settled = result(settles(under, place))
    assert visible(settled) == visible(after)
    assert "hidden" not in settled
    return True


def try_all_steps(
    under: StoreUnderTest, layout: str, how: str, *, first: int = 0, apart: int | None = None, **more: Any
) -> int:
    """Try a run at its steps, from the first one on; how many there are, or some more."""
    apart = apart or under.apart
    at = first % apart
    while tried(under, LAYOUTS[layout], how, at, **more):
        at += apart
        assert at < 200
    return at


def holder_and_taker(under: StoreUnderTest, at: int) -> bool:
    """A taker sleeps at a step of its claim, while the owner wakes: who has renewed is not taken over any more.

    False when the taker has not so many steps.
    """
    place = under.new_place()

    def owns(talk: Talk) -> list[bool]:
        lay(under, place)
        held = under.open(Watched()).store.claim(place, owner="first", token="first", now=time.time())
        kept = []
        for _ in range(2):
            talk.sleep()
            try:
                held.assert_mine()
                kept.append(True)
            except ConflictError:
                kept.append(False)
        return kept

    def takes(talk: Talk) -> bool:
        opened = under.open(Watched(talk, "asleep", at))
        believe_dead()
        try:
            held = opened.store.claim(place, owner="second", token="second", now=time.time())
        except ConflictError:
            return False
        held.assert_mine()
        return True

    with acting(owns) as (owner,):
        owner.slept()
        with acting(takes) as (taker,):
            kind, taken = taker.told()
            owner.wake()
            owner.slept()
            if kind == "asleep":
                taker.wake()
                taken = taker.done()
            owner.wake()
            kept = owner.done()
            assert kept in ([True, True], [False, False]), "an owner that has renewed was taken over"
            assert kept[1] is not taken, f"owner and taker: {kept}, {taken}"
    return kind == "asleep"


def claims_in_turn(under: StoreUnderTest, processes: int, claims: int) -> None:
    """Processes claim one place again and again; never two at a time."""
    place, inside = under.new_place(), under.new_place()
    result(lambda talk: (under.lay(str(place), None), under.lay(str(inside), None)))

    def work(talk: Talk, number: int) -> int:
        opened = under.open(Watched())
        talk.sleep()
        conflicts = done = 0
        while done < claims:
            try:
                held = opened.store.claim(
                    place, owner=str(number), token=f"{number}-{done}-{conflicts}", now=time.time()
                )
            except ConflictError:
                conflicts += 1
                continue
            under.lay(f"{inside}/{done}-{number}", None)
            assert len(opened.fs.list_directory(str(inside))) == 1, "two hold the place"
            held.assert_mine()
            holder = opened.store.holder(place, now=time.time())
            assert holder is not None
            assert not holder.is_stale
            opened.fs.remove_tree(str(inside), f"{done}-{number}")
            held.release()
            done += 1
        return conflicts

    with acting(*(lambda talk, number=number: work(talk, number) for number in range(processes))) as actors:
        for actor in actors:
            actor.slept()
        for actor in actors:
            actor.wake()
        for actor in actors:
            actor.done()
    assert "hidden" not in result(lambda talk: seen(under.open(Watched()), place))


WAYS = [
    (how, seed, cleans, layout)
    for how, cleans in (("killed", False), ("asleep", False), ("asleep", True))
    for seed in SEEDS
    for layout in LAYOUTS
]
"""How a run ends, the seed of lost answers, whether a cleaner comes after it, and what it publishes."""
USUAL = ("two directories",)
"""What a usual run publishes where steps are apart: the steps of one directory are among those of two."""
WHOLE = {("killed", None, False), ("asleep", 1, False), ("asleep", None, True)}
"""The ways that try every step where steps are not apart, with two directories, whose steps include those of one.

Where they are far apart these are all that a usual run tries: they have each end, lost answers and a cleaner.

Others try every sixth, each from another step on: which answers are lost has nothing to do with who comes afterwards.
"""
SIXTH = amount(6, long=1)


class StoreRaces:
    """The suite; a class for a store takes it over, with a fixture `under`.

    Where steps are apart, each way begins at another one, so that together they try all.
    """

    @pytest.mark.parametrize(
        ("first", "how", "seed", "cleans", "layout"),
        [(first, *way) for first, way in enumerate(WAYS)],
        ids=["-".join(str(it) for it in way if it not in (None, False)) for way in WAYS],
    )
    def test_a_run_that_ends_or_sleeps(
        self, under: StoreUnderTest, first: int, how: str, seed: int | None, cleans: bool, layout: str
    ) -> None:
        if not LONG and under.apart > 1 and layout not in USUAL:
            pytest.skip("in a long run only, where steps are apart")
        if not LONG and under.apart > len(WAYS) and (how, seed, cleans) not in WHOLE:
            pytest.skip("in a long run only, where steps are far apart")
        whole = (how, seed, cleans) in WHOLE and layout == "two directories"
        apart = under.apart if whole else max(under.apart, SIXTH)
        assert try_all_steps(under, layout, how, seed=seed, cleans=cleans, first=first, apart=apart) > 10

    def test_a_task_that_outlives_its_run(self, under: StoreUnderTest) -> None:
        # the tenth step is the first one that a task does; where steps are apart, it is among those that are tried
        try_all_steps(under, "two directories", "outlived by a task", first=9)

    def test_a_taker_that_sleeps(self, under: StoreUnderTest) -> None:
        at = 0
        while holder_and_taker(under, at):
            at += 1
        assert at > 4

    def test_claims_in_turn(self, under: StoreUnderTest) -> None:
        # where steps are apart the server is what is asked: that three exclude each other, it shows as six do
        few = not LONG and under.apart > 1
        claims_in_turn(under, processes=3 if few else 6, claims=3 if few else 20)
