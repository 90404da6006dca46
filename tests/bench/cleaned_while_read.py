"""What readers meet while obsolete directories go: HiveServer2 4.0.1 reads a table again and again, without tasks.

    PYTHONPATH=tests .venv/bin/python -m bench.cleaned_while_read DIRECTORY [--queries 400]

Starts the servers itself, in DIRECTORY. A table is compacted by our job; then its obsolete directories go and come back
all the time in one of two ways: each is deleted in its place, one after the other, or all are first renamed out of
readers' sight, as our cleaner does it, and deleted then. With each way Hive is asked for all rows so many times, and
once more while nothing happens. A row too few is the same as none: what counts is whether the answer is right.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from integration.harness import Jobs
from integration.hive4_jobs import Service
from integration.hive4_model import Lake, Made
from servers.fleet import Servers
from servers.sql import Session, SqlError

from acidlib.acid.names import Generation


def one_by_one(directories: Sequence[Path]) -> None:
    """As a cleaner that deletes each directory where it is."""
    for directory in directories:
        shutil.rmtree(directory)


def out_of_sight_first(directories: Sequence[Path]) -> None:
    """As our cleaner: see `acidlib.places.removals`."""
    hidden = [directory.with_name(f"_acidlib_removed.x.{directory.name}") for directory in directories]
    for directory, name in zip(directories, hidden, strict=True):
        directory.rename(name)
    for name in hidden:
        shutil.rmtree(name)


def come_and_go(directories: Sequence[Path], go: Callable[[Sequence[Path]], None], end: threading.Event) -> None:
    """Obsolete directories are there, go, and are there again, until the end; then they are there."""
    kept = [shutil.copytree(one, one.with_name(f"_kept.{one.name}")) for one in directories]
    while not end.is_set():
        go(directories)
        for copy, directory in zip(kept, directories, strict=True):
            made = shutil.copytree(copy, copy.with_name(f"_made.{directory.name}"))
            made.rename(directory)
    for copy in kept:
        shutil.rmtree(copy)


def asked(hive: Session, made: Made, expected: str, queries: int) -> Counter[str]:
    """How so many queries ended."""
    found: Counter[str] = Counter()
    for _ in range(queries):
        try:
            found["right" if str(sorted(hive.run(f"select * from {made.full}"))) == expected else "wrong"] += 1  # noqa: S608
        except SqlError:
            found["failed"] += 1
    return found


def measure(hive: Session, made: Made, obsolete: Sequence[Path], queries: int) -> None:
    """Prints how queries end, by each way."""
    hive.run("set hive.fetch.task.conversion=more")
    expected = str(sorted(hive.run(f"select * from {made.full}")))  # noqa: S608
    print(f"nothing goes: {dict(asked(hive, made, expected, queries))}", flush=True)
    for go in (one_by_one, out_of_sight_first):
        end = threading.Event()
        thread = threading.Thread(target=come_and_go, args=(obsolete, go, end))
        thread.start()
        try:
            print(f"{go.__name__}: {dict(asked(hive, made, expected, queries))}", flush=True)
        finally:
            end.set()
            thread.join()


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--queries", default=400, show_default=True)
def main(directory: Path, queries: int) -> None:
    """Measure in DIRECTORY."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as name:
        place = Path(name)
        fleet = Servers(lambda kind: Path(tempfile.mkdtemp(prefix=kind, dir=place)))
        try:
            metastore = fleet.metastore(Generation.HIVE4)
            server = fleet.hiveserver(metastore)
            with server.hive.session() as hive, Lake(metastore, database="cleaned") as lake:
                made = lake.table("t")
                before = made.place.directories()
                Service(jobs=Jobs(queue_url=f"sqlite:///{place}/queue.db"), uri=metastore.uri).compact(made)
                measure(hive, made, [made.location / one for one in before], queries)
        finally:
            fleet.close()


if __name__ == "__main__":
    main()
