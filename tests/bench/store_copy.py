"""Times a whole job on a table without deletes in a store against a copy of its files by the vendor's own tool.

    PYTHONPATH=tests .venv/bin/python -m bench.store_copy STORE DIRECTORY [--rounds 5] [--rows 2500000]

DIRECTORY/plain, as bench.make_table makes it without deletes (99 MB), is put into the store once a round for each that
works on it. They take turns. Four times of a round, in seconds:

    job        the whole of `acidlib major-compact` in a warm process, without Spark
    command    the same as a command, by spark-submit: its JVM starts
    tool       the vendor's tool copies the table's directory, its own start included
    start      the vendor's tool lists the directory, and does no more

`tool` less `start` is what the copy took. Results are compared with that of a local compaction. A row of STORES is a
function that starts the server and yields a `Bed`.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import abfs_tables
import click
import gcs_tables
import ozone_tables
from integration.harness import AROUND, Jobs, probed
from judges.abfs_clients import NEWEST, driver_settings, jars_of
from servers.abfs import AbfsProcess
from servers.gcs import GcsServer
from servers.hdfs import SHELL
from servers.java import java_home
from servers.ozone import Ozone
from servers.settings import write_site

from acidlib.location import Location
from acidlib.stores.renaming.ozone_client import HTTPFS
from bench.make_table import make

ACIDLIB = str(Path(sys.executable).with_name("acidlib"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """A store, and the vendor's tool for it.

    uploaded     puts a table's directory into the store, under a new name
    downloaded   copies what lies at a location to a new local directory
    copy         lets the tool copy a directory to a name that is free
    start        lets the tool list a directory
    remove       removes a directory
    hadoop       properties of our jobs, as core-site.xml has them
    options      of our jobs
    """

    uploaded: Callable[[Path], Location]
    downloaded: Callable[[Location, Path], Path]
    copy: Callable[[Location, Location], object]
    start: Callable[[Location], object]
    remove: Callable[[Location], object]
    hadoop: Mapping[str, str]
    options: tuple[str, ...] = ()


@contextmanager
def ozone_bed(directory: Path) -> Iterator[Bed]:
    """Ozone by `ozone fs`."""
    with Ozone(directory) as server:
        yield Bed(
            uploaded=lambda source: ozone_tables.uploaded(server, source),
            downloaded=lambda place, target: ozone_tables.downloaded(server, place, target),
            # by default it copies 4 KiB at a time
            copy=lambda source, target: server.shell(
                "-D", "io.file.buffer.size=1048576", "-cp", str(source), str(target)
            ),
            start=lambda place: server.shell("-ls", str(place)),
            remove=lambda place: ozone_tables.ask(server, "DELETE", place.path, "DELETE", recursive="true"),
            hadoop={"ozone.om.address": server.authority},
            options=("--set", f"{HTTPFS}={server.url}"),
        )


@contextmanager
def gcs_bed(directory: Path) -> Iterator[Bed]:
    """Google Cloud Storage, an emulator of it, by Google's own library, in an environment that pip makes once."""
    python = directory.parent / "google-cloud-storage" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "google-cloud-storage"], check=True)
    with GcsServer(directory) as server:

        def tool(source: Location, *target: Location) -> None:
            words = [f"{place.path[1:]}/" for place in (source, *target)]
            subprocess.run(
                [python, Path(__file__).with_name("gcs_copy.py"), source.authority, *words],
                env={**os.environ, "STORAGE_EMULATOR_HOST": server.endpoint},
                check=True,
            )

        def remove(place: Location) -> None:
            for key in server.objects(place.authority, f"{place.path[1:]}/"):
                server.remove(place.authority, key)

        yield Bed(
            uploaded=lambda source: gcs_tables.uploaded(server, source),
            downloaded=lambda place, target: gcs_tables.downloaded(server, place, target),
            copy=tool,
            start=tool,
            remove=remove,
            hadoop=server.properties(),
        )


@contextmanager
def abfs_bed(directory: Path) -> Iterator[Bed]:
    """Azure, a stub of ours of it, by `hadoop fs` with Hadoop's driver for Azure."""
    with AbfsProcess() as server:
        write_site(directory / "core-site.xml", driver_settings(server))

        def shell(*words: str) -> None:
            path = os.pathsep.join([str(directory), *jars_of(NEWEST)])
            java = str(java_home() / "bin" / "java")
            subprocess.run([java, "-cp", path, SHELL, *words], check=True, capture_output=True)

        def by_driver(place: Location) -> str:
            return f"abfs{str(place).removeprefix('abfss')}"  # which takes abfss for TLS

        AROUND.hadoop = server.properties()
        if "BROKEN" in probed(server.container).values():
            raise SystemExit("the stub breaks a promise")
        yield Bed(
            uploaded=lambda source: abfs_tables.uploaded(server, source),
            downloaded=lambda place, target: abfs_tables.downloaded(server, place, target),
            copy=lambda source, target: shell("-cp", by_driver(source), by_driver(target)),
            start=lambda place: shell("-ls", by_driver(place)),
            remove=lambda place: abfs_tables.client(server, place).delete_directory(place.path[1:]),
            hadoop=server.properties(),
        )


STORES: dict[str, Callable[[Path], AbstractContextManager[Bed]]] = {
    "abfs": abfs_bed,
    "gcs": gcs_bed,
    "ozone": ozone_bed,
}


def seconds(work: Callable[[], object]) -> float:
    """How long something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def result(root: Path) -> dict[str, bytes]:
    """The files of the base that a compaction has made in a copy of its table."""
    newest = max(root.glob("base_*"))
    return {path.name: path.read_bytes() for path in newest.iterdir() if path.is_file()}


class Rounds:
    """The rounds of one store."""

    def __init__(self, bed: Bed, table: Path, work: Path) -> None:
        self._bed, self._table, self._work = bed, table, work
        self._jobs = Jobs(queue_url=f"sqlite:///{work}/queue.db")
        self._local = work / "local"
        shutil.copytree(table, self._local)
        self._compact(str(self._local))

    def one(self, number: int) -> dict[str, float]:
        """Seconds of each, on tables of their own."""
        bed, place, other = self._bed, self._bed.uploaded(self._table), self._bed.uploaded(self._table)
        copy = other.parent.child("copy")
        took = {
            "tool": seconds(lambda: bed.copy(other, copy)),
            "job": seconds(lambda: self._compact(str(place), *bed.options)),
            "start": seconds(lambda: bed.start(other)),
            "command": seconds(lambda: self._by_command(str(other), number)),
        }
        for made in (place, other):
            if result(bed.downloaded(made, self._work / "seen")) != result(self._local):
                raise SystemExit(f"the result in {made} is another one than on a local disk")
        if not (self._work / "copied").exists():
            copied = bed.downloaded(copy, self._work / "copied")
            if result(copied) != result(self._table):
                raise SystemExit("the copy of the tool has other files")
        for made in (place.parent, other.parent):
            bed.remove(made)
        return took

    def _compact(self, place: str, *options: str) -> None:
        ran = self._jobs("major_compact", "--location", place, "--all-committed", *options)
        if not ran.begun or ran.states != ["ready for cleaning"]:
            raise SystemExit(f"the job failed: {ran.out}{ran.err}")

    def _by_command(self, place: str, number: int) -> None:
        """Run the job as a user does."""
        conf = [word for name, text in self._bed.hadoop.items() for word in ("--conf", f"spark.hadoop.{name}={text}")]
        words = [ACIDLIB, "--master", "local[2]", *conf, "major-compact", "--location", place, "--all-committed"]
        words += ["--queue-url", f"sqlite:///{self._work}/queue{number}.db", *self._bed.options]
        ran = subprocess.run(words, env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}, capture_output=True, text=True)
        if ran.returncode:
            raise SystemExit(f"{' '.join(words)} failed: {ran.stdout}{ran.stderr}")


@click.command()
@click.argument("store", type=click.Choice(sorted(STORES)))
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--rounds", default=5, show_default=True)
@click.option("--rows", default=2_500_000, show_default=True, help="Of the table, where it is made.")
def main(store: str, directory: Path, rounds: int, rows: int) -> None:
    """Measure one store with the table in DIRECTORY/plain, which is made where it is not there."""
    table = directory / "plain"
    if not table.exists():
        make(table, rows=rows, deleted=0)
    length = sum(path.stat().st_size for path in table.rglob("bucket_*"))
    with tempfile.TemporaryDirectory(dir=directory) as name, STORES[store](Path(name)) as bed:
        AROUND.hadoop = bed.hadoop
        measured = Rounds(bed, table, Path(name))
        measured.one(0)  # a warm one does not count
        times = [measured.one(number) for number in range(1, rounds + 1)]
    click.echo(f"{store}: {length / 1e6:.1f} MB, {rounds} rounds; medians, from the fastest to the slowest")
    for what in times[0]:
        each = [one[what] for one in times]
        click.echo(f"{what:8s} {statistics.median(each):7.2f} s  ({min(each):.2f} to {max(each):.2f})")
    for what, ratios in {
        "job / (tool - start)": [one["job"] / (one["tool"] - one["start"]) for one in times],
        "command / tool": [one["command"] / one["tool"] for one in times],
    }.items():
        click.echo(f"{what}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
