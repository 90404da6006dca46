"""The promises of a file system with atomic renames, and their trials: publication and claims by renames need them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError
from acidlib.location import Location, parse_location
from acidlib.processes import process_identity
from acidlib.stores.filesystem import RenameFileSystem, try_to_rename
from acidlib.stores.promises import (
    FEW_ROUNDS,
    RACERS,
    ROUNDS,
    BrokenPromiseError,
    Promise,
    race,
    races,
    require,
    require_conflict,
    winner,
)
from acidlib.stores.renaming.claims import ClaimRecord, RenameClaim, claim
from acidlib.stores.store import CLAIM

TIMES = "changes move a directory's time"
"""The name of a promise that a store need not keep where `RenameFileSystem.names_changed` is 0."""
FILES = 100
"""Files in the directory that is renamed while others look at it."""

_MIN_MOVES, _MAX_MOVES, _ENOUGH_LOOKS = 20, 200, 100
_CLOCK_STEPS = (0.02, 0.2, 1.2)
"""Seconds after which a change has to move a time that is kept in milliseconds, or in whole seconds."""


def renaming_promises(fs: RenameFileSystem) -> tuple[Promise, ...]:
    """Return what publication and claims by renames rely on."""

    def tried(trial: Callable[[RenameFileSystem, str], str]) -> Callable[[str], str]:
        def at(place: str) -> str:
            fs.make_directory(place)
            return trial(fs, place)

        return at

    return (
        Promise(
            name="renames replace nothing",
            sentence="A rename never replaces, not even an empty directory.",
            trial=tried(_rename_refuses),
            is_quick=True,
        ),
        Promise(
            name="creations replace nothing",
            sentence="No file is created twice, or in a directory that is gone.",
            trial=tried(_create_refuses),
            is_quick=True,
        ),
        Promise(
            name="one rename to a name",
            sentence="Of several renames to one name one succeeds.",
            trial=tried(_one_name),
        ),
        Promise(
            name="one rename of a directory",
            sentence="Of several renames of one directory one succeeds.",
            trial=tried(_one_source),
        ),
        Promise(
            name="directories are renamed whole",
            sentence="A directory is renamed with all its files at once.",
            trial=tried(_whole),
        ),
        Promise(
            name="repeated renames do no harm",
            sentence="A rename that is repeated harms nothing.",
            trial=tried(_repeated_rename),
        ),
        Promise(
            name="one creator of a name",
            sentence="Of several who create one name one succeeds.",
            trial=tried(_one_creator),
        ),
        Promise(
            name="only empty directories go",
            sentence="Only an empty directory is removed as one, by one of several.",
            trial=tried(_empty_directory),
        ),
        Promise(
            name="changes are listed at once",
            sentence="A listing shows each change at once.",
            trial=tried(_listing),
        ),
        Promise(
            name=TIMES,
            sentence="Each change moves the time of its directory.",
            trial=tried(_times),
        ),
        Promise(
            name="one claim of a place",
            sentence="One of several runs claims a place, or that of a dead run.",
            trial=tried(_claim),
        ),
        Promise(
            name="synced bytes last",
            sentence="What was synced outlasts a loss of power.",
            trial=tried(_sync),
            is_shown=False,
        ),
    )


def _make_source(fs: RenameFileSystem, path: str, file: str = "file") -> None:
    fs.make_directory(path)
    fs.create(f"{path}/{file}", b"", durable=False)  # without bytes no data node is waited for


def _names(fs: RenameFileSystem, path: str) -> list[str]:
    return [entry.name for entry in fs.list_directory(path)]


def _rename(fs: RenameFileSystem, source: str, target: str) -> Callable[[], None]:
    return partial(fs.rename_noreplace, source, target, missing=ConflictError, durable=False)


def _rename_refuses(fs: RenameFileSystem, place: str) -> str:
    source = f"{place}/source"
    _make_source(fs, source)
    _make_source(fs, f"{place}/full", "other")
    fs.make_directory(f"{place}/empty")
    fs.create(f"{place}/taken", b"taken", durable=False)
    for name, what, kept in (
        ("empty", "an empty directory", []),
        ("full", "a directory that exists", ["other"]),
        ("taken", "a file", None),
    ):
        target = f"{place}/{name}"
        require_conflict(_rename(fs, source, target), f"a directory was renamed onto {what}")
        is_kept = fs.read(target) == b"taken" if kept is None else _names(fs, target) == kept
        require(is_kept, f"{what} was changed by a rename that was refused")
        require(fs.exists(f"{source}/file"), f"a rename onto {what} was refused, and the source is gone")
    fs.rename_noreplace(source, f"{place}/free")
    is_whole = not fs.exists(source) and fs.exists(f"{place}/free/file")
    require(is_whole, "a directory was renamed, and is not there as a whole")
    return "a file and two directories stayed"


def _create_refuses(fs: RenameFileSystem, place: str) -> str:
    fs.create(f"{place}/file", b"once", durable=False)
    again = partial(fs.create, f"{place}/file", b"twice", durable=False)
    require_conflict(again, "a file that exists was created again")
    require(fs.read(f"{place}/file") == b"once", "a file was changed by a creation that was refused")
    try:
        fs.create(f"{place}/gone/file", b"", durable=False)
    except (ConflictError, CorruptError):
        require(not fs.exists(f"{place}/gone"), "a file that was refused has made its directory")
        return "the file stayed as it was"
    raise BrokenPromiseError("a file was created in a directory that is gone, and brought it back")


def _one_name(fs: RenameFileSystem, place: str) -> str:
    for number in range(ROUNDS):
        target = f"{place}/target{number}"
        sources = [f"{place}/source{number}.{racer}" for racer in range(RACERS)]
        for racer, source in enumerate(sources):
            _make_source(fs, source, f"of{racer}")
        won = winner([_rename(fs, source, target) for source in sources], "renames to one name succeeded")
        require(_names(fs, target) == [f"of{won}"], "the directory under the name is not the winner's")
        kept = [racer for racer, source in enumerate(sources) if fs.exists(f"{source}/of{racer}")]
        require(kept == [racer for racer in range(RACERS) if racer != won], "a rename failed, and its source is gone")
    return races()


def _one_source(fs: RenameFileSystem, place: str) -> str:
    for number in range(ROUNDS):
        source = f"{place}/source{number}"
        targets = [f"{place}/target{number}.{racer}" for racer in range(RACERS)]
        _make_source(fs, source)
        won = winner([_rename(fs, source, target) for target in targets], "renames of one directory succeeded")
        there = [racer for racer, target in enumerate(targets) if fs.exists(f"{target}/file")]
        require(there == [won] and not fs.exists(source), "the directory is not where the winner has put it")
    return races()


def _whole(fs: RenameFileSystem, place: str) -> str:
    here, there = f"{place}/here", f"{place}/there"
    fs.make_directory(here)
    with ThreadPoolExecutor(RACERS) as threads:
        files = [f"{here}/{number:05}" for number in range(FILES)]
        list(threads.map(lambda path: fs.create(path, b"", durable=False), files))
    looks: list[str] = []
    ended = Event()

    def look() -> None:
        while not ended.is_set():
            for path in (here, there):
                try:
                    seen = len(_names(fs, path))
                except (ConflictError, CorruptError):
                    continue  # it is not there, or went while it was listed
                require(seen == FILES, f"{seen} of {FILES} files were seen while their directory was renamed")
                looks.append(path)

    moves = 0
    with ThreadPoolExecutor(2) as threads:
        try:
            watchers = [threads.submit(look) for _ in range(2)]
            while moves < _MIN_MOVES or (moves < _MAX_MOVES and len(looks) < _ENOUGH_LOOKS):
                _rename(fs, here, there)()
                here, there = there, here
                moves += 1
        finally:
            ended.set()
        for watcher in watchers:
            watcher.result()
    require(looks, "a directory was never seen as a whole while it was renamed")
    require(len(_names(fs, here)) == FILES, "files are missing after their directory was renamed")
    return f"{FILES} files, {moves} renames, seen whole {len(looks)} times"


def _repeated_rename(fs: RenameFileSystem, place: str) -> str:
    source, target = f"{place}/source", f"{place}/target"
    _make_source(fs, source)
    _rename(fs, source, target)()
    require_conflict(_rename(fs, source, target), "a directory that is gone was renamed again")
    require(try_to_rename(fs, source, target, durable=False), "a rename was repeated, and does not count as done")
    require(_names(fs, target) == ["file"], "a repeated rename has changed its target")
    return "the second one found no source"


def _one_creator(fs: RenameFileSystem, place: str) -> str:
    for number in range(FEW_ROUNDS):
        path = f"{place}/file{number}"
        calls = [partial(fs.create, path, b"%d" % racer, durable=False) for racer in range(RACERS)]
        won = winner(calls, "created one file")
        require(fs.read(path) == b"%d" % won, "the file is not the winner's")
        winner([partial(fs.make_directory, f"{place}/directory{number}")] * RACERS, "made one directory")
    return races(FEW_ROUNDS)


def _empty_directory(fs: RenameFileSystem, place: str) -> str:
    full = f"{place}/full"
    _make_source(fs, full)
    require(not fs.remove_empty_directory(full), "a directory with a file in it was removed as an empty one")
    require(fs.exists(f"{full}/file"), "a file in a directory was lost")
    for number in range(ROUNDS):
        path = f"{place}/empty{number}"
        fs.make_directory(path)
        removed = race([partial(fs.remove_empty_directory, path)] * RACERS).count(True)
        require(removed == 1, f"{removed} of {RACERS} removed one directory")
        path = f"{place}/filled{number}"
        fs.make_directory(path)
        went, made = race(
            [partial(fs.remove_empty_directory, path), partial(_created, fs, f"{path}/file")],
        )
        is_there = fs.exists(f"{path}/file")
        require(is_there is (made is True), "a file was created in a directory that was removed, and is lost")
        # neither may succeed: what is created beside its name keeps a directory from going
        require(not (is_there and went is True), "a directory was removed, and a file was created in it all the same")
    return races()


def _created(fs: RenameFileSystem, path: str) -> bool:
    fs.create(path, b"", durable=False)
    return True


def _listing(fs: RenameFileSystem, place: str) -> str:
    for number in range(ROUNDS):
        first, second = f"{number}.first", f"{number}.second"
        fs.create(f"{place}/{first}", b"", durable=False)
        require(_names(fs, place) == [first], "a file that was created is not listed")
        _rename(fs, f"{place}/{first}", f"{place}/{second}")()
        require(_names(fs, place) == [second], "a file that was renamed is listed by its old name, or not at all")
        fs.remove_file(f"{place}/{second}")
        require(_names(fs, place) == [], "a file that was removed is listed")
    return f"{3 * ROUNDS} changes, each listed at once"


def _times(fs: RenameFileSystem, place: str) -> str:
    changes: tuple[tuple[str, Callable[[], object]], ...] = (
        ("created", partial(fs.make_directory, f"{place}/one")),
        ("renamed", _rename(fs, f"{place}/one", f"{place}/two")),
        ("removed", partial(fs.remove_empty_directory, f"{place}/two")),
    )
    slowest = 0.0
    for step in _CLOCK_STEPS:
        slowest = step
        unmoved = []
        for name, change in changes:
            before = fs.entry(place).modified
            time.sleep(step)
            change()
            if fs.entry(place).modified <= before:
                unmoved.append(name)
        if not unmoved:
            return f"each change moved it within {slowest:g} s"
    raise BrokenPromiseError(f"a name was {' and '.join(unmoved)}, and the time of its directory is as before")


def _claim(fs: RenameFileSystem, place: str) -> str:
    location = parse_location(place)
    of_dead_process = process_identity() and f"{process_identity()}0"
    for number in range(FEW_ROUNDS):
        with _claimed_by_one(fs, location, f"first{number}") as first:
            if not of_dead_process:
                continue
            first.leave()
            path = f"{place}/{CLAIM}/{first.token}.json"
            fs.remove_file(path)
            record = ClaimRecord(owner="a dead run", token=first.token, start=0, beat=0, process=of_dead_process)
            fs.create(path, record.encode(), durable=False)
            with _claimed_by_one(fs, location, f"second{number}") as second:
                second.assert_mine()
                require(not first.renew(), "a run that was taken over has renewed its claim")
    return races(FEW_ROUNDS)


@contextmanager
def _claimed_by_one(fs: RenameFileSystem, location: Location, name: str) -> Iterator[RenameClaim]:
    """Have several claim a place in the same moment, and hold the claim of the one that has it."""
    held: list[RenameClaim] = []

    def hold(racer: int) -> None:
        held.append(claim(fs, location, owner=name, token=f"{name}.{racer}"))

    try:
        race([partial(hold, racer) for racer in range(RACERS)])
        require(len(held) == 1, f"{len(held)} of {RACERS} claimed one place")
        yield held[0]
    except RefusedError as error:  # a claim as no run leaves it
        raise BrokenPromiseError(error.words) from error
    finally:
        for each in held:
            with suppress(AcidError):  # it goes with the folder, too
                each.release()


def _sync(fs: RenameFileSystem, place: str) -> str:
    _make_source(fs, f"{place}/directory")
    fs.sync(f"{place}/directory/file")
    fs.sync_tree(f"{place}/directory")
    fs.sync(place)
    return "the calls succeed; only a loss of power shows more"
