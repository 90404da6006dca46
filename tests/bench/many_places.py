"""Times the jobs over many small partitions, each run as `spark-submit`, against bare loops that do the least of them.

    cd tests; ../.venv/bin/python -m bench.many_places DIRECTORY [--places 1000] [--cores 2] [--only initiator] [--text]
                                                       [--small] [--checkout ANOTHER]

A place has seven directories (a base, five deltas and one of deletes) and fourteen files of some 5 KB, or three of each
(--small); all are hard links to those of one. Each job has a bare loop of its own: one lists all places; one lists a
place, reads its files, writes one of half their size, syncs and renames it; one removes what a compaction made
obsolete. A job's rate is that of the whole run and, second, that beyond a run over three places alone, which is what it
takes to start. Memory is the most that was resident of a process at a time: of the driver's Python, and of the JVM
beside it. What a job prints is read to its end: a document has to list every place, and a line of a text (--text) to
count them.
A hundred thousand places take 800,000 inodes and 3.5 GB, small ones half of it, and are made in a few minutes.
With --checkout the same is done with another checkout of the engine, in turns.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from judges.tables import delta_name, write_dir

from bench.processes import Memory

ROOT = Path(__file__).parents[2]
COLUMNS = "struct<id:bigint,name:string,amount:double>"
ROWS = 150
_JOBS = ("initiator", "major_compact", "cleaner")
_EVERYTHING = ("--all-committed", "--set", "hive.compactor.delta.num.threshold=1")
_TOTAL = re.compile(r"^([\d,]+) (?:places? looked at|places?|compactions?):", re.MULTILINE)
_FEW = 1000
"""The bare loops that change something have so many places of their own."""
MAX_LINKS = 30_000
"""So many places are links to the files of one; a file of ext4 has 65,000 names at most."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a place holds: a base, deltas up to the last write id but one, and deletes by the last."""

    buckets: int
    last_write_id: int


USUAL, SMALL = Shape(buckets=2, last_write_id=7), Shape(buckets=1, last_write_id=3)


def _events(shape: Shape, write_id: int) -> Iterator[tuple[int, int, int, int, int, Any]]:
    for bucket in range(shape.buckets):
        for row in range(ROWS):
            number = write_id * ROWS + row
            yield (
                0,
                write_id,
                0x20000000 + (bucket << 16),
                row,
                write_id,
                (number, f"name {number * 7919:x}", number / 7),
            )


def _deletes(shape: Shape) -> Iterator[tuple[int, int, int, int, int, Any]]:
    for bucket in range(shape.buckets):
        for row in range(0, ROWS, 10):
            yield 2, 2, 0x20000000 + (bucket << 16), row, shape.last_write_id, None


def make_places(directory: Path, count: int, shape: Shape) -> Path:
    """A table of so many partitions; existing ones are made anew."""
    shutil.rmtree(directory, ignore_errors=True)
    table = directory / "db.db" / "t"
    fill_places([table / f"p={number}" for number in range(count)], shape)
    return table


def fill_places(places: Sequence[Path], shape: Shape = USUAL) -> None:
    """Make these directories, with the files of a place in each."""
    for number, place in enumerate(places):
        if number % MAX_LINKS == 0:
            first = place
            last = shape.last_write_id
            write_dir(first, "base_0000001", COLUMNS, _events(shape, 1))
            for write_id in range(2, last):
                write_dir(first, delta_name(write_id, write_id), COLUMNS, _events(shape, write_id))
            write_dir(first, delta_name(last, last, delete=True), COLUMNS, _deletes(shape))
        else:
            copy_by_links(first, place)


def copy_by_links(source: Path, target: Path) -> None:
    """A place whose files have another name each now."""
    target.mkdir(parents=True, exist_ok=True)
    for directory in os.scandir(source):
        (made := target / directory.name).mkdir()
        for file in os.scandir(directory.path):
            os.link(file.path, made / file.name)


def list_alone(table: Path) -> None:
    """The least that the initiator does."""
    with os.scandir(table) as places:
        for place in places:
            for directory in os.scandir(place.path):
                for file in os.scandir(directory.path):
                    file.stat()


def compact_alone(table: Path) -> None:
    """The least that a compaction does."""
    for place in table.iterdir():
        data = b""
        for directory in sorted(place.iterdir()):
            for file in sorted(directory.iterdir()):
                data += file.read_bytes()
        made = place / "_tmp_bare"
        with made.open("wb") as out:
            out.write(data[: len(data) // 2])
            out.flush()
            os.fsync(out.fileno())
        made.rename(place / "_bare")
        (place / "_bare").unlink()


def clean_alone(table: Path) -> None:
    """The least that the cleaner does; nothing is left of the places."""
    for place in table.iterdir():
        for directory in list(place.iterdir()):
            for file in list(directory.iterdir()):
                file.unlink()
            directory.rmdir()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A job that has ended: seconds of it and of CPU, Spark's start included, the most MB of its two processes.

    places   of which its output tells, which is so many bytes long
    entries  what its document says of each; none where it was told as text
    """

    seconds: float
    cpu: float
    places: int
    entries: list[dict[str, Any]]
    output: int
    python: float
    jvm: float


def job(checkout: Path, cores: int, home: Path, name: str, *words: str, text: bool = False) -> Ran:
    """Run a job. What it prints has to be whole: the document, or the line of the text that counts."""
    command = [checkout / "spark-submit.sh", "--master", f"local[{cores}]", checkout / "jobs" / f"{name}.py"]
    environment = os.environ | {"ACIDLIB_HOME": str(home)}
    began, cpu_before = time.perf_counter(), _cpu()
    with subprocess.Popen(
        [*map(str, command), *(() if text else ("--output", "json")), *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        memory = Memory(process.pid, f"jobs/{name}.py")
        watch = threading.Thread(target=memory.watch)
        watch.start()
        out, err = process.communicate()
        took, cpu = time.perf_counter() - began, _cpu() - cpu_before
        watch.join()
    if process.returncode:
        sys.exit(err[-2000:] + out[-2000:])
    if text:
        entries, count = [], int(_TOTAL.findall(out)[-1].replace(",", ""))
    else:
        document = json.loads(out)
        entries = next(document[key] for key in ("decisions", "compactions", "cleanings") if key in document)
        totals = document["totals"]
        count = next(totals[key] for key in ("looked_at", "compactions", "requests") if key in totals)
        if len({entry["location"] for entry in entries}) != count:
            sys.exit(f"{name} tells of {count} places, but lists {len(entries)}")
    return Ran(
        seconds=took, cpu=cpu, places=count, entries=entries, output=len(out), python=memory.python, jvm=memory.jvm
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _seconds(work: Callable[[Path], None], table: Path) -> float:
    began = time.perf_counter()
    work(table)
    return time.perf_counter() - began


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--places", default=1000, show_default=True)
@click.option("--cores", default=2, show_default=True)
@click.option("--only", type=click.Choice(_JOBS), help="End after this job.")
@click.option("--text", is_flag=True, help="The jobs tell what they did as text, not as JSON.")
@click.option("--small", is_flag=True, help="Places of three directories with one file each.")
@click.option("--checkout", type=click.Path(path_type=Path, exists=True), multiple=True)
def main(
    directory: Path, places: int, cores: int, only: str | None, text: bool, small: bool, checkout: tuple[Path, ...]
) -> None:
    """Measure in DIRECTORY, whose contents are lost."""
    shape = SMALL if small else USUAL
    few = min(places, _FEW)
    for one in (ROOT, *checkout):
        for name in ("many", "few", "start", "home-many", "home-start"):  # homes: with the queue of an earlier run
            shutil.rmtree(directory / name, ignore_errors=True)
        began = time.perf_counter()
        table, other = make_places(directory / "many", places, shape), make_places(directory / "few", few, shape)
        start = make_places(directory / "start", 3, shape)
        print(f"{one}: {places} places made in {time.perf_counter() - began:.1f} s", flush=True)
        for name in _JOBS:
            loop, where = {"initiator": (list_alone, table), "major_compact": (compact_alone, other)}.get(
                name, (clean_alone, other)
            )
            bare = _seconds(loop, where) / (places if where is table else few)
            words = {"initiator": (*_EVERYTHING, "--location"), "cleaner": ("--retention", "0s")}.get(name, ())
            alone, all_of_them = (
                job(one, cores, directory / f"home-{what.parent.parent.name}", name, *words,
                    *((str(what),) if name == "initiator" else ()), text=text)
                for what in (start, table)
            )  # fmt: skip
            seconds, count = all_of_them.seconds, all_of_them.places
            if count != places:
                sys.exit(f"{name} tells of {count} places, and there are {places}")
            running = seconds - alone.seconds
            print(f"  {name:14}{count:6} places {seconds:6.1f} s, {seconds / count / bare:5.1f} times the bare loop "
                  f"({1000 * bare:.2f} ms); beyond the start ({alone.seconds:.1f} s) {count / running:6.1f} a second, "
                  f"{running / count / bare:5.1f} times; CPU {1000 * all_of_them.cpu / count:5.1f} ms a place; "
                  f"memory {all_of_them.python:.0f} MB, JVM {all_of_them.jvm:.0f} MB; "
                  f"{all_of_them.output / 1e6:.1f} MB printed", flush=True)  # fmt: skip
            if name == only:
                break


if __name__ == "__main__":
    main()
