"""What readers gain: Trino and HiveServer2 4.0.1 on the same rows, before a compaction, after a minor, after a major.

    PYTHONPATH=tests .venv/bin/python -m bench.readers DIRECTORY [--rows 2500000] [--rounds 7]

Needs what tests of Trino need: `pip install 'acidlib[trino]'`, and a JDK 24 or newer (JAVA24_HOME, or in /usr/lib/jvm).
Starts the servers itself. DIRECTORY keeps the files of each form, written by pyorc: without ACID columns; a base alone;
a base and one delta, or five; the same with a tenth of the base's rows deleted. The tables are compacted and cleaned by
our jobs. Then each query is run on each table in turn, so many rounds after one that does not count; medians, and how
many times that of the table without ACID columns they are. A form has to give the same answers in all its states.
"""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from integration.harness import Jobs
from integration.hive4_jobs import Service
from integration.hive4_model import Lake, Made, local
from servers.fleet import Servers
from servers.sql import Session
from servers.trino import OLDEST_JAVA, Trino, new_java

from acidlib.acid.names import Generation
from acidlib.metastore.transactions import TxnType
from acidlib.model.tables import TableRef
from bench.make_table import COLUMNS, write_deletes, write_file, write_plain

DATABASE = "readers"
DELTA_SHARE = 0.01
DELETED_SHARE = 0.1
QUERIES: Mapping[str, str] = {
    "one column": "select count(*), sum(customer) from {}",
    "seven columns": (
        "select count(*), sum(customer), sum(amount), max(`day`), max(status), min(city), max(code), max(note) from {}"
    ),
}
_TYPES = dict(column.split(":", 1) for column in COLUMNS.replace("12,2", "12;2").split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A base and so many deltas, each with a share of the rows; with or without deletes of rows of the base."""

    title: str
    deltas: int = 0
    deleted: bool = False
    plain: bool = False

    @property
    def name(self) -> str:
        """Of its files and its tables."""
        return "plain" if self.plain else f"base_{self.deltas}" + ("_deleted" if self.deleted else "")

    @property
    def last_write_id(self) -> int:
        """0 for a table that is not transactional."""
        return 0 if self.plain else 1 + self.deltas + self.deleted

    @property
    def states(self) -> Sequence[str]:
        """In which it is read: as it is, and after each kind of compaction that finds something to do."""
        return ("as it is", *(["minor"] if self.deltas > 1 else []), *(["major"] if self.deltas else []))


PLAIN = Form(title="flat ORC", plain=True)
FORMS = (
    PLAIN,
    Form(title="ACID, base only"),
    Form(title="base and 1 delta", deltas=1),
    Form(title="base and 5 deltas", deltas=5),
    Form(title="base, 5 deltas, deletes", deltas=5, deleted=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One form in one state."""

    form: Form
    state: str
    name: str


def write_form(form: Form, directory: Path, rows: int) -> None:
    """Its files. All forms have as many rows of the same kind, but for deleted ones."""
    share = int(rows * DELTA_SHARE)
    base = rows - form.deltas * share
    if form.plain:
        write_plain(directory / "000000_0", rows)
        return
    write_file(directory / "base_0000001" / "bucket_00000", 1, base, 0)
    (directory / "base_0000001" / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    for number in range(form.deltas):
        name = f"delta_{number + 2:07d}_{number + 2:07d}_0000"
        write_file(directory / name / "bucket_00000", number + 2, share, base + number * share)
    if form.deleted:
        keys = sorted(random.Random(7).sample(range(base), int(base * DELETED_SHARE)))
        last = form.last_write_id
        write_deletes(directory / f"delete_delta_{last:07d}_{last:07d}_0000" / "bucket_00000", last, keys)


class Bench:
    """Both readers on one metastore."""

    def __init__(self, lake: Lake, hive: Session, trino: Trino, service: Service) -> None:
        self._lake = lake
        self._service = service
        self.readers: Mapping[str, Callable[[str], list[tuple[Any, ...]]]] = {
            "Trino 476": lambda statement: trino.run(statement.replace("`", '"')),
            "HiveServer2 4.0.1": hive.run,
        }
        self._hive = hive

    def table(self, form: Form, state: str, files: Path) -> Table:
        """A copy of a form's files, compacted and cleaned."""
        name = f"{form.name}_{state.replace(' ', '_')}"
        full = f"{DATABASE}.{name}"
        columns = ", ".join(f"`{key}` {kind.replace(';', ',')}" for key, kind in _TYPES.items())
        kind = "external table" if form.plain else "table"
        acid = "" if form.plain else " tblproperties ('transactional'='true')"
        self._hive.run(f"create {kind} {full} ({columns}) stored as orc{acid}")
        found = self._lake.hms.table(TableRef(DATABASE, name))
        assert found is not None
        location = local(found.storage.location)
        shutil.copytree(files, location, dirs_exist_ok=True)
        for _ in range(form.last_write_id):
            txn = self._lake.open("writer")
            self._lake.hms.allocate_write_id(txn, TableRef(DATABASE, name))
            self._lake.hms.commit_txn(txn, TxnType.DEFAULT)
        if state != "as it is":
            made = Made(database=DATABASE, name=name, location=location, places=())
            ran = self._service.compact(made, state)
            if ran.states != ["ready for cleaning"]:
                raise SystemExit(f"we did not compact {full}: {ran.out}")
            self._service.clean()
        return Table(form=form, state=state, name=full)


def measure(bench: Bench, tables: Sequence[Table], rounds: int) -> None:
    """Prints a table for each reader and query."""
    for reader, ask in bench.readers.items():
        for title, query in QUERIES.items():
            times: dict[str, list[float]] = {table.name: [] for table in tables}
            answers: dict[Form, set[str]] = {form: set() for form in FORMS}
            for number in range(1 + rounds):
                for table in tables:
                    start = time.perf_counter()
                    answer = ask(query.format(table.name))
                    if number:
                        times[table.name].append(time.perf_counter() - start)
                    answers[table.form].add(str(answer))
            if any(len(found) != 1 for found in answers.values()):
                raise SystemExit(f"{reader} does not read the same rows of all tables: {answers}")
            print(f"\n{reader}, {title}", flush=True)
            _print(tables, {name: statistics.median(found) for name, found in times.items()})


def _print(tables: Sequence[Table], medians: Mapping[str, float]) -> None:
    (plain,) = (medians[table.name] for table in tables if table.form is PLAIN)
    for table in tables:
        seconds = medians[table.name]
        print(f"  {table.form.title:25}{table.state:10}{seconds:8.3f} s{seconds / plain:8.2f}", flush=True)


@contextmanager
def opened(place: Path) -> Iterator[Bench]:
    """The servers."""
    java = new_java()
    if java is None:
        raise SystemExit(f"Trino needs a JDK {OLDEST_JAVA} or newer: JAVA24_HOME")
    fleet = Servers(lambda kind: Path(tempfile.mkdtemp(prefix=kind, dir=place)))
    try:
        metastore = fleet.metastore(Generation.HIVE4)
        server = fleet.hiveserver(metastore)
        with (
            server.hive.session() as hive,
            Trino(metastore, java=java, directory=Path(tempfile.mkdtemp(dir=place))) as trino,
            Lake(metastore, database=DATABASE) as lake,
        ):
            service = Service(jobs=Jobs(queue_url=f"sqlite:///{place}/queue.db"), uri=metastore.uri)
            yield Bench(lake, hive, trino, service)
    finally:
        fleet.close()


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--rows", default=2_500_000, show_default=True)
@click.option("--rounds", default=7, show_default=True)
def main(directory: Path, rows: int, rounds: int) -> None:
    """Measure in DIRECTORY."""
    for form in FORMS:
        if not (files := directory / f"{form.name}_{rows}").exists():
            write_form(form, files, rows)
    with tempfile.TemporaryDirectory(dir=directory) as name, opened(Path(name)) as bench:
        tables = [
            bench.table(form, state, directory / f"{form.name}_{rows}") for form in FORMS for state in form.states
        ]
        measure(bench, tables, rounds)


if __name__ == "__main__":
    main()
