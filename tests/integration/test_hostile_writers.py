"""A user who writes one table exchanges its directories with links while the engine, as another user, works there.

Each try lays the table anew, and the writer goes on all the time in a process of his own, without any right to the
other table. Whatever becomes of his table: the other one stays as it is, and none of its rows or files come into his.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pyorc
import pytest
from judges.tables import deletes, inserts, write_dir
from long_runs import amount

import acidlib

WRITER = 12_345
TRIES = amount(12, long=200)
SECRET = "the other table"
SCHEMA = "struct<id:int,s:string>"
_EXCHANGE = 2
_AT_FDCWD = -100

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may work as two users")


def exchange(one: Path, other: Path) -> None:
    """Exchange two names in one step; a name that is missing just now is none to exchange."""
    ctypes.CDLL(None).renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE)


Attack = Callable[[Path, Path, random.Random], None]
"""One step of the writer in his partition, given the other table's partition of the same shape."""


def above_the_place(place: Path, victim: Path, _: random.Random) -> None:
    """The directory above the place, and a link to that of the other table."""
    link = place.parent.parent / "_link"
    if not link.is_symlink() and not place.parent.is_symlink():
        link.symlink_to(victim.parent)
    exchange(place.parent, link)


def the_place(place: Path, victim: Path, _: random.Random) -> None:
    link = place.parent / "_link"
    if not link.is_symlink() and not place.is_symlink():
        link.symlink_to(victim)
    exchange(place, link)


def in_the_place(place: Path, victim: Path, choice: random.Random) -> None:
    """A delta, a base, a staging directory or the claim, and a link to one of the other table."""
    names = [path.name for path in place.iterdir() if not path.name.startswith("_link")]
    name = choice.choice(names)
    there = victim / name if (victim / name).is_dir() else victim / "base_0000001"
    link = place / f"_link_{name}"
    if not os.path.lexists(link):
        link.symlink_to(there)
    exchange(place / name, link)


def files_in_it(place: Path, victim: Path, choice: random.Random) -> None:
    """A file of the table or of what is staged there, and a link to one of the other table."""
    files = [path for path in place.rglob("*") if path.is_file() and "_link" not in path.name]
    path = choice.choice(files)
    link = path.with_name(f"_link_{path.name}")
    if not os.path.lexists(link):
        link.symlink_to(victim / "base_0000001" / "bucket_00000")
    exchange(path, link)


def forged(place: Path, victim: Path, _: random.Random) -> None:
    """A record of a publication, whose directory is exchanged with a link to the other table's base."""
    staging = place / "_tmp_forged"
    if not os.path.lexists(staging):
        shutil.copytree(place / "delta_0000001_0000001_0000", staging / "base_0000009")
        (staging / "_acidlib_staging").write_text("{}")
        (staging / "publish.json").write_text(
            '{"version":1,"directories":[{"name":"base_0000009","files":{}}],"inputs":["delta_0000001_0000001_0000"]}'
        )
        (staging / "_link").symlink_to(victim / "base_0000001")
    exchange(staging / "base_0000009", staging / "_link")


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack for attack in (above_the_place, the_place, in_the_place, files_in_it, forged)
}


@contextmanager
def writer(attack: Attack, place: Path, victim: Path, seed: int) -> Iterator[None]:
    """Have the writer at work in a process of his own."""
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(WRITER)
            os.setuid(WRITER)
            choice = random.Random(seed)
            while True:
                with suppress(OSError, IndexError):
                    attack(place, victim, choice)
                time.sleep(choice.choice([0.0, 0.0001, 0.001, 0.01]))
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def given(path: Path) -> None:
    for below in (path, *path.rglob("*")):
        os.chown(below, WRITER, WRITER)


def tree(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """All of a table: owner, mode and contents."""
    return {
        str(path.relative_to(root)): (status.st_uid, status.st_mode, path.read_bytes() if path.is_file() else b"")
        for path in root.rglob("*")
        if stat.S_IFMT((status := path.lstat()).st_mode)
    }


def laid(place: Path, value: str) -> Path:
    """A table of full ACID whose rows hold a value, with something obsolete."""
    for write_id in (1, 2, 3):
        write_dir(place, f"delta_{write_id:07}_{write_id:07}_0000", SCHEMA, inserts(write_id, [(write_id, value)] * 5))
    write_dir(place, "delete_delta_0000003_0000003_0000", SCHEMA, deletes(3, [(1, 536870912, 0)]))
    shutil.copytree(place / "delta_0000001_0000001_0000", place / "base_0000001")
    (place / "base_0000001" / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    return place


def values(table: Path) -> Iterator[str]:
    """The values in all files that lie in a table itself."""
    for folder, folders, names in os.walk(table):
        folders[:] = [name for name in folders if not Path(folder, name).is_symlink()]
        for path in (Path(folder, name) for name in names):
            if path.is_file() and not path.is_symlink() and path.read_bytes()[:3] == b"ORC":
                with suppress(pyorc.ParseError), path.open("rb") as file:
                    yield from (row[5][1] for row in pyorc.Reader(file) if row[5] is not None)


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_writer_of_one_table_reaches_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str) -> None:
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    for above in (tmp_path, *tmp_path.parents[:2]):
        above.chmod(0o711)
    victim = laid(tmp_path / "private" / "y=1" / "m=1", SECRET)
    before, states = tree(tmp_path / "private"), Counter[str]()
    for number in range(TRIES):
        table = tmp_path / "wh" / f"t{number}"
        place = laid(table / "y=1" / "m=1", "mine")
        given(table)
        lake = acidlib.warehouse(tmp_path / "wh", all_committed=True, hive_version=3, table_kind="full")
        with writer(ATTACKS[attack], place, victim, number):
            for _ in range(2):
                for work in (partial(lake.compact, "major"), partial(lake.clean, retention=0)):
                    with suppress(acidlib.AcidError):
                        states.update(
                            entry["state"] for entry in work(tables=f"default.t{number}", progress=False).entries
                        )
        assert tree(tmp_path / "private") == before
        assert set(values(table)) <= {"mine"}
        shutil.rmtree(table)
    assert states, "the engine did nothing"
