"""The quickstart: the engine at work, step by step, on a copy of two tables that real Hive wrote.

All steps work in a temporary directory, with a queue of its own, through the functions that the jobs call, in one Spark
session. The reader of the rows shares no code with the engine, as a second opinion: pyarrow reads the files, and this
module chooses the directories and merges the events.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from pyarrow import orc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acidlib.acid.names import OWN_QUEUE
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.cli.command import current_machine, current_run
from acidlib.cli.launch import job_named
from acidlib.config.settings import load_settings
from acidlib.errors import CorruptError
from acidlib.execute.answers import returned_by
from acidlib.execute.services import Services
from acidlib.location import local_location
from acidlib.model.requests import CompactionType
from acidlib.model.results import CleaningResult, CompactionResult, InitiatorResult, Outcome
from acidlib.model.units import RewriteSettings
from acidlib.places.place import Interpretation
from acidlib.places.selection import CleanerOptions, Selection
from acidlib.planning.stated_write_ids import stated_write_ids
from acidlib.queue.sql import SqlQueue
from acidlib.report.progress import TerminalProgress
from acidlib.report.show import NOTHING, shown_request
from acidlib.runs.clean import run_cleaner
from acidlib.runs.compactions import compactions
from acidlib.runs.environment import Environment
from acidlib.runs.initiate import run_initiator
from acidlib.runs.machine import open_services
from acidlib.runs.open import open_backend, open_cleaning
from acidlib.runs.run_queue import CompactionRun
from acidlib.wording import human_bytes, plural

THRESHOLD = "hive.compactor.delta.num.threshold=1"
TINY = RewriteSettings(copy_bytes=1)
"""The stripes of the demonstration are some hundred bytes long: as a rule such are joined, not copied."""


_OPENING = """b_part has three partitions, f_abort none. For now they hold only Hive's first transactions: inserts, one
    of which was rolled back (write id 2 of f_abort). Rows are read by a small reader of the
    quickstart's own, with pyarrow."""
_SCAN = """The initiator applies Hive's thresholds. Hive waits for more than 10 deltas; for these small tables more
    than 1 is enough. This is a dry run: it decides, and queues nothing. W stands for the warehouse."""
_MINOR = """Hive's rule asks for a major where there is no base yet. A minor, which joins deltas, can be asked for by
    name, as with ALTER TABLE ... COMPACT 'minor'. Whole stripes are copied as they are; those with rows of the
    transaction that was rolled back are rewritten, or dropped where no row is left, which counts as rewritten. The
    command joins stripes below 256 KiB with their neighbours. All stripes here are that small, and the quickstart
    copies them all the same; the command has no option for that."""
_MORE = """Now the rest of what Hive did: an update, deletes, late inserts, and in f_abort a rolled back update and a
    rolled back delete. New directories are marked with +."""
_AGAIN = """This time the requests are queued, each with the reason."""
_MAJOR = """Without a table's name the job takes what waits in the queue. Deleted rows and rolled back rows go; the
    result is a base, one directory that appears with a single rename. Until it is cleaned, the old files stay."""
_CLEAN = """The cleaner removes what the two compactions made obsolete. As a rule it waits for a day, for readers that
    still use the old files; here it does not wait. The write ids to which that applies were recorded with each
    request."""
_HISTORY = """In the columns of Hive's SHOW COMPACTIONS (some of them)."""
_NEXT = """Try it on a copy of a table of yours, or with --dry-run first, which changes nothing. --all-committed states
    that no writer is at work, no transaction is open and none was rolled back; else give --write-ids (see
    docs/directories.md)."""


def show_all_steps(home: Path) -> None:
    """Show all steps in the directory `home`. Raises AcidError if a result is not the expected one."""
    url = f"sqlite:///{home / 'queue.db'}"
    environment = Environment(queue_url=url, settings=load_settings(assignments=(THRESHOLD,)))
    warehouse = home / "warehouse"
    warehouse.mkdir()
    with open_services(environment, current_machine(), current_run(), TerminalProgress(), about="") as services:
        page = TerminalPage()
        show = Quickstart(warehouse, services, environment, page)
        ids = "--write-ids-file W/_write_ids.txt"
        page.step("Two tables that Hive 3.1.3 wrote", _OPENING)
        show.load(EARLY)
        page.step(
            "Scan: what needs compaction?",
            _SCAN,
            f"{called('initiator')} --warehouse W {ids}",
            f"--set {THRESHOLD} --dry-run",
        )
        show.scan(dry_run=True)
        page.step("Minor compaction", _MINOR, f"{called('minor-compact')} --warehouse W --table 'default.*'", ids)
        show.compact(CompactionType.MINOR, named=True)
        show.check()
        page.step("More transactions", _MORE)
        show.load(ALL)
        page.step("Scan again, and queue", _AGAIN, f"{called('initiator')} --warehouse W {ids}", f"--set {THRESHOLD}")
        show.scan(dry_run=False)
        page.step("Major compaction", _MAJOR, called("major-compact"))
        show.compact(CompactionType.MAJOR, named=False)
        show.check()
        page.step("Cleaning", _CLEAN, f"{called('cleaner')} --retention 0s")
        show.clean()
        show.check()
        show.judge()
        page.step("What the queue remembers", _HISTORY, called("show"))
        show.show()
        page.step("Your own table", _NEXT)
        one_table = f"  {called('major-compact')} --location /path/to/table --all-committed"
        page.lines(f"{one_table} --dry-run", one_table, f"  {called('cleaner')} --dry-run", "")


class Quickstart:
    """One quickstart: its warehouse, and the places as the reader saw them last."""

    def __init__(self, warehouse: Path, services: Services, where: Environment, page: TerminalPage) -> None:
        self.warehouse = warehouse
        self.services = services
        self.where = where
        self.page = page
        self.tables: WriteIdsByTable = {}
        self.seen: tuple[PlaceContents, ...] = ()

    def load(self, tables: WriteIdsByTable) -> None:
        """Add the directories that Hive wrote up to each table's high-water mark, and show what a reader sees."""
        for table, ids in tables.items():
            source = DATA / table / "table"
            for directory in sorted(path for path in source.glob("**/*delta_*") if path.is_dir()):
                target = self.warehouse / table / directory.relative_to(source)
                match = _DIRECTORY.fullmatch(directory.name)
                if match and int(match[3]) <= ids.high_water_mark and not target.exists():
                    shutil.copytree(directory, target)
        self.tables = tables
        (self.warehouse / "_write_ids.txt").write_text(self._write_ids(), encoding="utf-8")
        before, self.seen = self.seen, contents_of_places(self.warehouse, tables)
        self.page.directories(self.seen, before)
        self.page.table(
            ("Place", "Visible rows", "Digest of row ids and values"),
            [(place.name, str(len(place.rows)), place.digest) for place in self.seen],
            right=("Visible rows",),
        )

    def check(self) -> None:
        """Show the directories, and that a reader sees the same rows as before. Raises CorruptError if it does not."""
        before, self.seen = self.seen, contents_of_places(self.warehouse, self.tables)
        self.page.directories(self.seen, before)
        same = [new.rows == old.rows for old, new in zip(before, self.seen, strict=True)]
        self.page.table(
            ("Place", "Rows before", "Rows after", "Digest before", "Digest after", ""),
            [
                (new.name, str(len(old.rows)), str(len(new.rows)), old.digest, new.digest, "same" if ok else "DIFFERS")
                for old, new, ok in zip(before, self.seen, same, strict=True)
            ],
            right=("Rows before", "Rows after"),
        )
        if not all(same):
            raise CorruptError("Cannot go on: a reader sees other rows than before")

    def scan(self, *, dry_run: bool) -> None:
        """Run the initiator over the whole warehouse."""
        selection = Selection(warehouse=local_location(str(self.warehouse)))
        with open_backend(self.where, self.services, self._interpretation()) as backend:
            results: list[InitiatorResult] = []
            run_initiator(self.services, backend, selection, dry_run=dry_run, force=False, tell=results.append)
        self.page.table(
            ("Place", "Decision", "Request", "Why"),
            [(_short(item), item.type or "none", str(item.queued or "-"), item.reason) for item in results],
            right=("Request",),
        )
        first = results[0]
        self.page.say(f"The threshold: {first.threshold_key} = {first.threshold:g}, set by {first.threshold_source}.")
        if any(item.type != "major" or item.outcome is not Outcome.DUE for item in results):
            raise CorruptError("Cannot go on: the initiator did not decide what it has to decide here")

    def compact(self, kind: CompactionType, *, named: bool) -> None:
        """Run a compaction of all tables by name, or of what waits in the queue."""
        selection = (
            Selection(warehouse=local_location(str(self.warehouse)), tables=("default.*",)) if named else Selection()
        )
        run = CompactionRun(kind=kind, selection=selection, rewrite=TINY)
        with open_backend(self.where, self.services, self._interpretation()) as backend:
            results: list[CompactionResult] = []
            returned_by(compactions(self.services, backend, run, results.append))
        results.sort(key=_short)
        self.page.table(
            ("Place", "Result", "Rows in", "Deleted", "Aborted", "Rows out", "Copied", "Rewritten"),
            [
                (
                    _short(result),
                    result.type,
                    *map("{:,}".format, (result.rows_in, result.rows_deleted, result.rows_aborted, result.rows_out)),
                    *(human_bytes(size or 0) for size in (result.bytes_copied, result.bytes_rewritten)),
                )
                for result in results
            ],
            right=("Rows in", "Deleted", "Aborted", "Rows out", "Copied", "Rewritten"),
        )
        if len(results) != len(self.seen) or any(item.state is not Outcome.READY_FOR_CLEANING for item in results):
            raise CorruptError("Cannot go on: not everything was compacted: " + results[0].reason)
        for table in self.tables:
            result = next(item for item in results if item.ref.table == table)
            self.page.lines("", f"What became of the stripes of {_short(result)}, and why:")
            for action in (action for written in result.files or () for action in written.actions):
                file = action.file.removeprefix(f"{result.location}/")
                self.page.lines(f"  {action.done:<9} {action.bytes:>4} bytes  {file}: {action.reason}")
        self.page.lines("")

    def clean(self) -> None:
        """Run the cleaner, which does not wait."""
        options = CleanerOptions(retention_seconds=0)
        with open_cleaning(self.where, self.services, options) as cleaning:
            results: list[CleaningResult] = []
            run_cleaner(cleaning, results.append)
        self.page.table(
            ("Request", "Place", "State", "Removed", "Bytes"),
            [
                (
                    str(item.id),
                    _short(item),
                    item.state.value,
                    plural(len(item.removed), "directory", "directories"),
                    f"{item.bytes_removed:,}",
                )
                for item in results
            ],
            right=("Request", "Bytes"),
        )
        self.page.lines("")
        if any(item.state is not Outcome.SUCCEEDED for item in results):
            raise CorruptError("Cannot go on: something obsolete was left: " + results[0].reason)

    def show(self) -> None:
        """Show the queue and its history, in some of the columns."""
        with SqlQueue(self.where.queue_url) as queue:
            requests = [shown_request(request, OWN_QUEUE) for request in queue.show()]
        self.page.table(
            ("CompactionId", "Table", "Partition", "Type", "State", "Highest WriteId"),
            [
                tuple(
                    NOTHING if value is None else str(value)
                    for value in (row.id, row.table, row.partition, row.type, row.state, row.highest_write_id)
                )
                for row in requests
            ],
            right=("CompactionId", "Highest WriteId"),
        )

    def judge(self) -> None:
        """Compare with what Hive itself returned. Raises CorruptError."""
        wrong = [table for table in self.tables if differs_from_hive(self.seen, table)]
        if wrong:
            raise CorruptError(f"Cannot vouch for {', '.join(wrong)}: its rows are not those that Hive returned")
        self.page.say("The rows and row ids are exactly those that Hive 3.1.3 returned for these tables.", "green")

    def _write_ids(self) -> str:
        return "".join(f"{ids.format()}\n" for ids in self.tables.values())

    def _interpretation(self) -> Interpretation:
        return Interpretation(write_ids=stated_write_ids(text=None, file_text=self._write_ids(), everything=False))


def _short(result: InitiatorResult | CompactionResult | CleaningResult) -> str:
    return str(result.ref).removeprefix("default.")


DATA = Path(__file__).resolve().parent / "quickstart_data"
WIDTH = 100
_DIRECTORY = re.compile(r"(base|delta|delete_delta)_(\d+)(?:_(\d+))?(?:_\d+)?")

RowId = tuple[int, int, int]
WriteIdsByTable = Mapping[str, ValidWriteIdList]


def _ids(table: str, mark: int, *aborted: int) -> ValidWriteIdList:
    return ValidWriteIdList(table=f"default.{table}", high_water_mark=mark, aborted_ids=aborted)


EARLY = {"b_part": _ids("b_part", 3), "f_abort": _ids("f_abort", 2, 2)}
ALL = {"b_part": _ids("b_part", 6), "f_abort": _ids("f_abort", 7, 2, 3, 6)}
"""The tables of the quickstart at two moments: how far their write ids go, and which of them were rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceContents:
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


def contents_of_places(warehouse: Path, tables: WriteIdsByTable) -> tuple[PlaceContents, ...]:
    """Return all places, by name."""
    places: list[PlaceContents] = []
    for table, ids in tables.items():
        partitions = sorted(path for path in (warehouse / table).iterdir() if "=" in path.name)
        places += [_contents(warehouse, path, ids) for path in partitions or [warehouse / table]]
    return tuple(places)


def _contents(warehouse: Path, path: Path, ids: ValidWriteIdList) -> PlaceContents:
    names = sorted(entry.name for entry in path.iterdir() if entry.is_dir() and entry.name[0] not in "_.")
    read = _current(names)
    rows: dict[RowId, tuple[Any, ...]] = {}
    deleted: set[RowId] = set()
    for name in read:
        for file in sorted((path / name).glob("bucket_*")):
            for event in orc.ORCFile(str(file)).read().to_pylist():
                writer = event["currentTransaction"]
                if writer > ids.high_water_mark or writer in ids.aborted_ids:
                    continue
                row_id = (event["originalTransaction"], event["bucket"], event["rowId"])
                if name.startswith("delete_delta_"):
                    deleted.add(row_id)
                elif row_id in rows:
                    raise CorruptError(f"Cannot take the rows of {path}: {row_id} is there twice, again in {file}")
                else:
                    rows[row_id] = tuple((event["row"] or {}).values())
    return PlaceContents(
        name=str(path.relative_to(warehouse)),
        read=tuple(read),
        obsolete=tuple(name for name in names if name not in read),
        bytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        rows={row_id: row for row_id, row in rows.items() if row_id not in deleted},
    )


def _current(names: Sequence[str]) -> list[str]:
    """Return the newest base, and the directories after it that lie within no wider one."""
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


def differs_from_hive(places: Sequence[PlaceContents], table: str) -> bool:
    """Return whether the rows or row ids of a table differ from those that Hive's own SELECT returned."""
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


def called(name: str) -> str:
    """Return the command line that starts a job in the way in which this one was started: as a command, or a file."""
    job = job_named(name)
    assert job is not None, name
    is_file = (click.get_current_context().info_name or "").endswith(".py")
    return f"./spark-submit.sh jobs/{job.module}.py" if is_file else f"acidlib {name}"


class TerminalPage:
    """The page on the terminal, at most 100 columns wide."""

    def __init__(self) -> None:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
        width = min(columns or WIDTH, WIDTH)
        self._console = Console(width=width, highlight=False, markup=False, emoji=False)
        self._step = 1

    def step(self, title: str, why: str, *command: str) -> None:
        """Print a heading, an explanation, and the command that does the step on other tables."""
        self._console.print()
        self._console.rule(Text(f" {self._step}. {title} ", style="bold"), align="left", characters="─")
        self._step += 1
        self.say(why)
        for number, part in enumerate(command):
            start = "      " if number else "  $ "
            self._console.print(Text(start + part + (" \\" if number < len(command) - 1 else ""), style="cyan"))
        self._console.print()

    def say(self, text: str, style: str = "") -> None:
        """Print a paragraph."""
        self._console.print(Text(" ".join(text.split()), style=style))

    def lines(self, *lines: str) -> None:
        """Print lines as they are."""
        for line in lines:
            self._console.print(Text(line))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
        """Print a table with a header."""
        self._console.print()
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in columns:
            table.add_column(column, justify="right" if column in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(table)

    def directories(self, places: Sequence[PlaceContents], before: Sequence[PlaceContents] = ()) -> None:
        """Print the directories of each place, new ones with +, removed ones with -. Equal places are shown once."""
        known = {place.name: {*place.read, *place.obsolete} for place in before}
        shown: dict[tuple[Any, ...], list[PlaceContents]] = {}
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
