"""Times the jobs over many small partitions, each run as `spark-submit`, against bare loops that do the least of them.

    cd tests; ../.venv/bin/python -m bench.many_places DIRECTORY [--places 1000] [--cores 2] [--checkout ANOTHER]

A place has seven directories (a base, five deltas and one of deletes) and fourteen files of some 5 KB; all are hard
links to those of one. Each job has a bare loop of its own: one lists all places; one lists a place, reads its files,
writes one of half their size, syncs and renames it; one removes what a compaction made obsolete. A job's rate is that
of the whole run and, second, that beyond a run over three places alone, which is what it takes to start. Memory is the
most that was resident of a process at a time: of the driver's Python, and of the JVM beside it.
With --checkout the same is done with another checkout of the engine, in turns.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from judges.tables import delta_name, write_dir

ROOT = Path(__file__).parents[2]
COLUMNS = "struct<id:bigint,name:string,amount:double>"
ROWS, BUCKETS = 150, 2
_JOBS = ("initiator", "major_compact", "cleaner")
_EVERYTHING = ("--all-committed", "--set", "hive.compactor.delta.num.threshold=1")
_FEW = 1000
"""The bare loops that change something have so many places of their own."""
_LOOK_SECONDS = 0.2


def _events(write_id: int) -> Iterator[tuple[int, int, int, int, int, Any]]:
    for bucket in range(BUCKETS):
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


def _deletes(write_id: int) -> Iterator[tuple[int, int, int, int, int, Any]]:
    for bucket in range(BUCKETS):
        for row in range(0, ROWS, 10):
            yield 2, 2, 0x20000000 + (bucket << 16), row, write_id, None


def make_places(directory: Path, count: int) -> Path:
    """A table of so many partitions; existing ones are made anew."""
    shutil.rmtree(directory, ignore_errors=True)
    first = directory / "db.db" / "t" / "p=0"
    write_dir(first, "base_0000001", COLUMNS, _events(1))
    for write_id in range(2, 7):
        write_dir(first, delta_name(write_id, write_id), COLUMNS, _events(write_id))
    write_dir(first, delta_name(7, 7, delete=True), COLUMNS, _deletes(7))
    for number in range(1, count):
        shutil.copytree(first, first.with_name(f"p={number}"), copy_function=os.link)
    return first.parent


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
    """A job that has ended: seconds of it and of CPU, Spark's start included, the most MB of its two processes."""

    seconds: float
    cpu: float
    places: int
    python: float
    jvm: float


def job(checkout: Path, cores: int, home: Path, name: str, *words: str) -> Ran:
    """Run a job."""
    command = [checkout / "spark-submit.sh", "--master", f"local[{cores}]", checkout / "jobs" / f"{name}.py"]
    environment = os.environ | {"ACIDLIB_HOME": str(home)}
    began, cpu_before = time.perf_counter(), _cpu()
    with subprocess.Popen(
        [*map(str, command), "--output", "json", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        memory = _Memory(process.pid, f"jobs/{name}.py")
        watch = threading.Thread(target=memory.watch)
        watch.start()
        out, err = process.communicate()
        took, cpu = time.perf_counter() - began, _cpu() - cpu_before
        watch.join()
    if process.returncode:
        sys.exit(err[-2000:] + out[-2000:])
    document = json.loads(out)
    count = len(next(document[key] for key in ("decisions", "compactions", "cleanings") if key in document))
    return Ran(seconds=took, cpu=cpu, places=count, python=memory.python, jvm=memory.jvm)


class _Memory:
    """The most that was resident of the driver's processes, in MB."""

    def __init__(self, root: int, script: str) -> None:
        self.python = self.jvm = 0.0
        self._root, self._script = root, script

    def watch(self) -> None:
        """Look at it until the first process has ended."""
        known: dict[int, str] = {}
        while Path(f"/proc/{self._root}").exists():
            time.sleep(_LOOK_SECONDS)
            for pid in _below(self._root):
                with suppress(OSError, IndexError, StopIteration):
                    kind = known.get(pid) or self._kind(pid)
                    known[pid] = kind
                    if kind:
                        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                        most = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
                        setattr(self, kind, max(most, getattr(self, kind)))

    def _kind(self, pid: int) -> str:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        if Path(words[0]).name == "java":
            return "jvm"
        return "python" if "python" in Path(words[0]).name and words[1].endswith(self._script) else ""


def _below(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for one in found:
        with suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


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
@click.option("--checkout", type=click.Path(path_type=Path, exists=True), multiple=True)
def main(directory: Path, places: int, cores: int, only: str | None, checkout: tuple[Path, ...]) -> None:
    """Measure in DIRECTORY, whose contents are lost."""
    few = min(places, _FEW)
    for one in (ROOT, *checkout):
        began = time.perf_counter()
        table, other = make_places(directory / "many", places), make_places(directory / "few", few)
        start = make_places(directory / "start", 3)
        print(f"{one}: {places} places made in {time.perf_counter() - began:.1f} s", flush=True)
        for name in _JOBS:
            loop, where = {"initiator": (list_alone, table), "major_compact": (compact_alone, other)}.get(
                name, (clean_alone, other)
            )
            bare = _seconds(loop, where) / (places if where is table else few)
            words = {"initiator": (*_EVERYTHING, "--location"), "cleaner": ("--retention", "0s")}.get(name, ())
            alone, all_of_them = (
                job(one, cores, directory / f"home-{what.parent.parent.name}", name, *words,
                    *((str(what),) if name == "initiator" else ()))
                for what in (start, table)
            )  # fmt: skip
            seconds, count = all_of_them.seconds, all_of_them.places
            running = seconds - alone.seconds
            print(f"  {name:14}{count:6} places {seconds:6.1f} s, {seconds / count / bare:5.1f} times the bare loop "
                  f"({1000 * bare:.2f} ms); beyond the start ({alone.seconds:.1f} s) {count / running:6.1f} a second, "
                  f"{running / count / bare:5.1f} times; CPU {1000 * all_of_them.cpu / count:5.1f} ms a place; "
                  f"memory {all_of_them.python:.0f} MB, JVM {all_of_them.jvm:.0f} MB", flush=True)  # fmt: skip
            if name == only:
                break


if __name__ == "__main__":
    main()
