"""The steps of the quickstart: the engine at work on tables that real Hive wrote.

Everything happens on a copy in a temporary directory, with a queue of its own, through the functions that the jobs
call, in one Spark session.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from acidlib.engine.cleaner import run_cleaner
from acidlib.engine.cleaning import CleanerOptions
from acidlib.engine.command import services
from acidlib.engine.compaction import CompactionRun, run_compaction
from acidlib.engine.environment import Environment
from acidlib.engine.initiator import run_initiator
from acidlib.engine.open import open_backend, open_cleaning
from acidlib.engine.selection import Selection
from acidlib.engine.services import Services
from acidlib.engine.target import Interpretation
from acidlib.errors import CorruptError
from acidlib.jobs import quickstart_words as words
from acidlib.jobs.quickstart_page import (
    ALL,
    EARLY,
    Facts,
    Page,
    Place,
    add_transactions,
    called,
    differs_from_hive,
    look,
    terminal,
)
from acidlib.model.location import local_location
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from acidlib.planning.stated_write_ids import stated_write_ids
from acidlib.queue.sql import SqlQueue
from acidlib.report.decisions import CleaningResult, InitiatorResult, Verdict
from acidlib.report.progress import TerminalProgress
from acidlib.report.results import CompactionResult, Outcome
from acidlib.report.show import show_document
from acidlib.settings import load_settings
from acidlib.wording import human_bytes, plural

THRESHOLD = "hive.compactor.delta.num.threshold=1"
TINY = RewriteSettings(copy_bytes=1)
"""The stripes of the demonstration are some hundred bytes long: as a rule such are joined, not copied."""


class Quickstart:
    """One showing: the warehouse it works on, and what a reader saw last."""

    def __init__(self, warehouse: Path, found: Services, where: Environment, page: Page) -> None:
        self.warehouse = warehouse
        self.found = found
        self.where = where
        self.page = page
        self.tables: Sequence[Facts] = ()
        self.seen: tuple[Place, ...] = ()

    def load(self, tables: Sequence[Facts]) -> None:
        """Hive's transactions up to a mark, and what a reader then sees."""
        add_transactions(self.warehouse, tables)
        self.tables = tables
        before, self.seen = self.seen, look(self.warehouse, tables)
        self.page.directories(self.seen, before)
        self.page.table(
            ("Place", "Visible rows", "Digest of row ids and values"),
            [(place.name, str(len(place.rows)), place.digest) for place in self.seen],
            right=("Visible rows",),
        )

    def check(self) -> None:
        """Show the directories, and that a reader sees what it saw before. Raises CorruptError when it does not."""
        before, self.seen = self.seen, look(self.warehouse, self.tables)
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
            raise CorruptError("Cannot go on: because a reader sees other rows than before")

    def scan(self, *, dry_run: bool) -> None:
        """The initiator over the whole warehouse."""
        selection = Selection(warehouse=local_location(str(self.warehouse)))
        with open_backend(self.where, self.found, self._interpretation()) as backend:
            results: list[InitiatorResult] = []
            run_initiator(self.found, backend, selection, dry_run=dry_run, force=False, tell=results.append)
        self.page.table(
            ("Place", "Decision", "Request", "Why"),
            [(_short(item.name), item.type or "none", str(item.queued or "-"), item.reason) for item in results],
            right=("Request",),
        )
        first = results[0]
        self.page.say(f"The threshold: {first.threshold_key} = {first.threshold:g}, set by {first.threshold_source}.")
        if any(item.type != "major" or item.outcome is not Verdict.DUE for item in results):
            raise CorruptError("Cannot go on: because the initiator did not decide what it has to decide here")

    def compact(self, kind: CompactionType, *, named: bool) -> None:
        """A compaction job: of all tables by name, or of what waits in the queue."""
        selection = (
            Selection(warehouse=local_location(str(self.warehouse)), tables=("default.*",)) if named else Selection()
        )
        run = CompactionRun(kind=kind, selection=selection, rewrite=TINY)
        with open_backend(self.where, self.found, self._interpretation()) as backend:
            results: list[CompactionResult] = []
            run_compaction(self.found, backend, run, results.append)
        self.page.table(
            ("Place", "Result", "Rows in", "Deleted", "Aborted", "Rows out", "Copied", "Rewritten"),
            [_row(result) for result in results],
            right=("Rows in", "Deleted", "Aborted", "Rows out", "Copied", "Rewritten"),
        )
        if len(results) != len(self.seen) or any(item.state is not Outcome.READY_FOR_CLEANING for item in results):
            raise CorruptError("Cannot go on: because not everything was compacted: " + results[0].reason)
        for table in self.tables:
            self._stripes(next(item for item in results if item.table == table.table))
        self.page.lines([""])

    def _stripes(self, result: CompactionResult) -> None:
        self.page.lines(["", f"What became of the stripes of {_short(result.name)}, and why:"])
        for unit in result.units or ():
            for action in unit.actions:
                file = action.path.removeprefix(f"{result.location}/")
                verb = "copied" if action.copy else "rewritten"
                self.page.lines([f"  {verb:<9} {action.bytes:>4} bytes  {file}: {action.reason}"])

    def clean(self) -> None:
        """The cleaner, without waiting."""
        options = CleanerOptions(retention_seconds=0)
        with open_cleaning(self.where, self.found, options) as cleaning:
            results: list[CleaningResult] = []
            run_cleaner(self.found, cleaning, options, results.append)
        self.page.table(
            ("Request", "Place", "State", "Removed", "Bytes"),
            [
                (
                    str(item.id),
                    _short(item.name),
                    item.state,
                    plural(len(item.removed), "directory", "directories"),
                    f"{item.bytes_removed:,}",
                )
                for item in results
            ],
            right=("Request", "Bytes"),
        )
        self.page.lines([""])
        if any(item.state != "succeeded" for item in results):
            raise CorruptError("Cannot go on: because something obsolete was left: " + results[0].reason)

    def show(self) -> None:
        """The queue and its history, in some of the columns."""
        columns = {
            "CompactionId": "id",
            "Table": "table",
            "Partition": "partition",
            "Type": "type",
            "State": "state",
            "Highest WriteId": "highest_write_id",
        }
        with SqlQueue(self.where.queue_url) as queue:
            facts = show_document(queue.show())
        self.page.table(
            tuple(columns),
            [tuple(" --- " if fact[key] is None else str(fact[key]) for key in columns.values()) for fact in facts],
            right=("CompactionId", "Highest WriteId"),
        )

    def judge(self) -> None:
        """Compare with what Hive itself returned. Raises CorruptError."""
        wrong = [facts.table for facts in self.tables if differs_from_hive(self.seen, facts.table)]
        if wrong:
            raise CorruptError(
                f"Cannot vouch for {', '.join(wrong)}: because its rows are not those that Hive returned"
            )
        self.page.say("The rows and row ids are exactly those that Hive 3.1.3 returned for these tables.", "green")

    def _interpretation(self) -> Interpretation:
        text = "".join(f"{facts.write_ids()}\n" for facts in self.tables)
        return Interpretation(write_ids=stated_write_ids(text=None, file_text=text, everything=False))


def _short(name: str) -> str:
    return name.removeprefix("default.")


def _row(result: CompactionResult) -> tuple[str, ...]:
    figures = (f"{result.total(name):,}" for name in ("rows_in", "rows_deleted", "rows_aborted", "rows_out"))
    sizes = (human_bytes(result.total(name)) for name in ("bytes_copied", "bytes_rewritten"))
    return (_short(result.name), result.type, *figures, *sizes)


def _show(show: Quickstart) -> None:
    page = show.page
    ids = "--write-ids-file W/_write_ids.txt"
    page.step("Two tables that Hive 3.1.3 wrote", words.OPENING)
    show.load(EARLY)
    page.step(
        "Scan: what needs compaction?",
        words.SCAN,
        f"{called('initiator')} --warehouse W {ids}",
        f"--set {THRESHOLD} --dry-run",
    )
    show.scan(dry_run=True)
    page.step("Minor compaction", words.MINOR, f"{called('minor-compact')} --warehouse W --table 'default.*'", ids)
    show.compact(CompactionType.MINOR, named=True)
    show.check()
    page.step("More transactions", words.MORE)
    show.load(ALL)
    page.step("Scan again, and queue", words.AGAIN, f"{called('initiator')} --warehouse W {ids}", f"--set {THRESHOLD}")
    show.scan(dry_run=False)
    page.step("Major compaction", words.MAJOR, called("major-compact"))
    show.compact(CompactionType.MAJOR, named=False)
    show.check()
    page.step("Cleaning", words.CLEAN, f"{called('cleaner')} --retention 0s")
    show.clean()
    show.check()
    show.judge()
    page.step("What the queue remembers", words.HISTORY, called("show"))
    show.show()
    page.step("Your own table", words.NEXT)
    one_table = f"  {called('major-compact')} --location /path/to/table --all-committed"
    page.lines((f"{one_table} --dry-run", one_table, f"  {called('cleaner')} --dry-run", ""))


def tell(home: Path) -> None:
    """Tell the whole story in a directory of its own. AcidError when anything is not as it has to be."""
    settings, warnings = load_settings(conf_dir=None, toml=None, assignments=(THRESHOLD,))
    url = f"sqlite:///{home / 'queue.db'}"
    environment = Environment(queue_url=url, settings=settings, warnings=warnings)
    warehouse = home / "warehouse"
    warehouse.mkdir()
    with services(environment, job="quickstart", about="") as found:
        seen = replace(found, progress=TerminalProgress(terminal(2)))
        _show(Quickstart(warehouse, seen, environment, Page()))
