"""What quickstart needs beside the jobs: its tables, a reader of its own, and the page it prints.

The reader shares no code with the engine: files are read by pyarrow, directories are chosen and events merged here, so
that what it says about rows is a second opinion.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pyarrow import orc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acidlib.errors import CorruptError
from acidlib.installed import CHECKOUT
from acidlib.jobs.table import job_named
from acidlib.wording import plural

DATA = Path(__file__).resolve().parent / "quickstart_data"
WIDTH = 100
_DIRECTORY = re.compile(r"(base|delta|delete_delta)_(\d+)(?:_(\d+))?(?:_\d+)?")

RowId = tuple[int, int, int]
Directories = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A table of the quickstart at one moment: how far its write ids go, and which of them were rolled back."""

    table: str
    high_water_mark: int
    aborted: frozenset[int] = frozenset()

    def write_ids(self) -> str:
        """Hive's text for it: table, high-water mark, lowest open id (none), open ids (none), aborted ids."""
        aborted = ",".join(str(number) for number in sorted(self.aborted))
        return f"default.{self.table}:{self.high_water_mark}:{2**63 - 1}::{aborted}"


EARLY = (
    Facts(table="b_part", high_water_mark=3),
    Facts(table="f_abort", high_water_mark=2, aborted=frozenset({2})),
)
ALL = (
    Facts(table="b_part", high_water_mark=6),
    Facts(table="f_abort", high_water_mark=7, aborted=frozenset({2, 3, 6})),
)


def add_transactions(warehouse: Path, tables: Sequence[Facts]) -> None:
    """Copy the directories that Hive wrote up to each table's mark, as far as they are not there, and state the ids."""
    for facts in tables:
        source = DATA / facts.table / "table"
        for directory in sorted(path for path in source.glob("**/*delta_*") if path.is_dir()):
            target = warehouse / facts.table / directory.relative_to(source)
            match = _DIRECTORY.fullmatch(directory.name)
            if match and int(match[3]) <= facts.high_water_mark and not target.exists():
                shutil.copytree(directory, target)
    (warehouse / "_write_ids.txt").write_text("".join(f"{facts.write_ids()}\n" for facts in tables), encoding="utf-8")


# --- the second opinion -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A partition, or a table without partitions: the directories a reader takes, those it does not, and the rows."""

    name: str
    read: tuple[str, ...]
    obsolete: tuple[str, ...]
    bytes: int
    rows: Mapping[RowId, tuple[Any, ...]]

    @property
    def digest(self) -> str:
        """Of the row ids and values of all rows, in row id order."""
        return hashlib.sha256(repr(sorted(self.rows.items())).encode()).hexdigest()[:16]


def look(warehouse: Path, tables: Sequence[Facts]) -> tuple[Place, ...]:
    """All places, by name."""
    return tuple(_place(warehouse, path, facts) for facts in tables for path in _places(warehouse / facts.table))


def _places(table: Path) -> Iterator[Path]:
    partitions = sorted(path for path in table.iterdir() if "=" in path.name)
    yield from partitions or [table]


def _place(warehouse: Path, path: Path, facts: Facts) -> Place:
    names = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and entry.name[0] not in "_.")
    read = _current(names)
    rows: dict[RowId, tuple[Any, ...]] = {}
    deleted: set[RowId] = set()
    for name in read:
        for file in sorted((path / name).glob("bucket_*")):
            for row_id, event in _events(file, facts):
                if name.startswith("delete_delta_"):
                    deleted.add(row_id)
                elif row_id in rows:
                    raise CorruptError(
                        f"Cannot take the rows of {path}: because {row_id} is there twice, again in {file}"
                    )
                else:
                    rows[row_id] = event
    return Place(
        name=str(path.relative_to(warehouse)),
        read=tuple(read),
        obsolete=tuple(name for name in names if name not in read),
        bytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        rows={row_id: row for row_id, row in rows.items() if row_id not in deleted},
    )


def _current(names: Sequence[str]) -> list[str]:
    """The newest base, and the directories after it that lie within no wider one."""
    parsed = {name: match for name in names if (match := _DIRECTORY.fullmatch(name))}
    base = max((name for name in parsed if name.startswith("base_")), key=lambda name: int(parsed[name][2]), default="")
    after = int(parsed[base][2]) if base else 0
    ranges = {name: (int(match[2]), int(match[3])) for name, match in parsed.items() if match[3]}
    ranges = {name: (low, high) for name, (low, high) in ranges.items() if high > after}
    covered = {
        name
        for name, (low, high) in ranges.items()
        if any(wide != (low, high) and wide[0] <= low and high <= wide[1] for wide in ranges.values())
    }
    return [*filter(None, [base]), *(name for name in ranges if name not in covered)]


def _events(file: Path, facts: Facts) -> Iterator[tuple[RowId, tuple[Any, ...]]]:
    for event in orc.ORCFile(str(file)).read().to_pylist():
        writer = event["currentTransaction"]
        if writer <= facts.high_water_mark and writer not in facts.aborted:
            row = tuple((event["row"] or {}).values())
            yield (event["originalTransaction"], event["bucket"], event["rowId"]), row


def differs_from_hive(places: Sequence[Place], table: str) -> bool:
    """Whether the rows or row ids of a table are others than Hive's own SELECT returned."""
    rows: set[str] = set()
    ids: set[tuple[str, ...]] = set()
    for place in places:
        if place.name.split("/")[0] == table:
            partition = [part.partition("=")[2] for part in place.name.split("/")[1:]]
            rows.update("\t".join([*map(str, row), *partition]) for row in place.rows.values())
            ids.update((*map(str, row_id), str(row[0])) for row_id, row in place.rows.items())
    return rows != set(_lines(table, "rows.tsv")) or ids != {
        (write_id, bucket, row_id, key)
        for write_id, bucket, row_id, _, key in (line.split("\t") for line in _lines(table, "row_ids.tsv"))
    }


def _lines(table: str, name: str) -> list[str]:
    return (DATA / table / name).read_text(encoding="utf-8").splitlines()[1:]


# --- the page ---------------------------------------------------------------------------------------------------------


def terminal(number: int) -> TextIO | None:
    """The terminal behind standard output (1) or standard error (2), or None.

    spark-submit runs a Python driver behind a pipe, for both: the terminal is then that of the process above.
    """
    own = sys.stdout if number == 1 else sys.stderr
    if own.isatty():
        return own
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    try:
        stream = Path(f"/proc/{os.getppid()}/fd/{number}").open("w", encoding="utf-8")  # noqa: SIM115 - for the whole run
    except OSError:
        return None
    return stream if stream.isatty() else None


def called(name: str) -> str:
    """Return how a job is started here: by the command of an installation, or by the script of a checkout."""
    job = job_named(name)
    assert job is not None, name
    return f"acidlib {name}" if CHECKOUT is None else f"./spark-submit.sh jobs/{job.module}.py"


class Page:
    """What a person sees, at most 100 columns wide."""

    def __init__(self) -> None:
        screen = terminal(1)
        width = WIDTH if screen is None else min(os.get_terminal_size(screen.fileno()).columns or WIDTH, WIDTH)
        self._console = Console(file=screen or sys.stdout, width=width, highlight=False, markup=False, emoji=False)
        self._step = 1

    def step(self, title: str, why: str, *command: str) -> None:
        """A heading, what will happen, and the command that does it on one's own tables."""
        self._console.print()
        self._console.rule(Text(f" {self._step}. {title} ", style="bold"), align="left", characters="─")
        self._step += 1
        self.say(why)
        for number, part in enumerate(command):
            start = "      " if number else "  $ "
            self._console.print(Text(start + part + (" \\" if number < len(command) - 1 else ""), style="cyan"))
        self._console.print()

    def say(self, text: str, style: str = "") -> None:
        """A paragraph."""
        self._console.print(Text(" ".join(text.split()), style=style))

    def lines(self, lines: Sequence[str], style: str = "") -> None:
        """Lines as they are."""
        for line in lines:
            self._console.print(Text(line, style=style))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
        """A table with a header."""
        self._console.print()
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in columns:
            table.add_column(column, justify="right" if column in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(table)

    def directories(self, places: Sequence[Place], before: Sequence[Place] = ()) -> None:
        """The directories of each place: new ones with +, those that went with -. Like places are shown once."""
        known = {place.name: {*place.read, *place.obsolete} for place in before}
        shown: dict[tuple[Any, ...], list[Place]] = {}
        for place in places:
            old = known.get(place.name, set())
            gone = tuple(sorted(old - {*place.read, *place.obsolete}))
            fresh = frozenset({*place.read, *place.obsolete} - old) if before else frozenset()
            shown.setdefault((place.read, place.obsolete, gone, fresh), []).append(place)
        for (read, obsolete, gone, fresh), alike in shown.items():
            names = ", ".join([alike[0].name, *(place.name.rpartition("/")[2] for place in alike[1:])])
            files = plural(len(read) + len(obsolete), "directory", "directories")
            files += f", about {alike[0].bytes:,} bytes each" if alike[1:] else f", {alike[0].bytes:,} bytes"
            self._console.print(Text.assemble((names, "bold"), f"   {files}"))
            self._names("a reader takes", read, fresh, "green")
            self._names("obsolete", obsolete, fresh, "dim")
            self._names("removed", gone, frozenset(), "red", mark="-")

    def _names(self, label: str, names: Sequence[str], fresh: frozenset[str], style: str, mark: str = " ") -> None:
        for start in range(0, len(names), 2):
            text = Text(f"  {label if start == 0 else '':<16}")
            for name in names[start : start + 2]:
                text.append(f"{'+' if name in fresh else mark} {name:<36}", style=style)
            text.rstrip()
            self._console.print(text)
