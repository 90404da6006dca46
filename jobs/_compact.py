"""What minor_compact and major_compact share."""

from __future__ import annotations

from typing import Any

import click

from acidlib import __version__
from acidlib.engine.command import (
    Common,
    Duration,
    JobCommand,
    Size,
    budget_options,
    common_options,
    pool_option,
    print_notes,
    print_result,
    selection_options,
    services,
)
from acidlib.engine.compaction import CompactionRun, run_compaction
from acidlib.engine.open import open_backend
from acidlib.engine.selection import Budget, Order, Selection
from acidlib.engine.target import Understanding
from acidlib.errors import MissingError
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from acidlib.report.results import RunReport, exit_status
from acidlib.report.text import compactions_text
from acidlib.storage.discover import discover_location
from acidlib.storage.uris import open_filesystem


def _about(selection: Selection, understanding: Understanding) -> str:
    """What is compacted, for the name of the Spark application.

    A location that is no ACID table, or another one than the write ids are of, is refused here, before Spark starts.
    """
    if selection.location is None:
        return ",".join(selection.tables) or "queue"
    fs, path = open_filesystem(selection.location)
    try:
        table = discover_location(fs, path, may_be_empty=True)
    except MissingError as error:
        selection.note_of(error)
        return path
    if understanding.write_ids is not None:
        understanding.write_ids.require_of(table.database, table.table)
    partition = table.partitions[0].name if len(table.partitions) == 1 else None
    return f"{table.database}.{table.table}" + (f".{partition.path}" if partition is not None else "")


def compaction_command(kind: CompactionType, job: str) -> click.Command:
    """The command of one kind of compaction."""

    @click.command(
        job,
        cls=JobCommand,
        help=f"{kind.label.capitalize()} compaction of a table, of partitions, or of what waits in the queue.",
    )
    @common_options
    @selection_options(everything=False)
    @pool_option
    @budget_options
    @click.option(
        "--lock-timeout", type=Duration(), help="How long two renames wait for readers (Hive 3.1); default: 30s."
    )
    @click.option("--dry-run", is_flag=True, help="Show the plan, change nothing.")
    @click.option("--force", is_flag=True, help="Accepted as in the other jobs; a named table is never held back.")
    @click.option(
        "--minor-as-major-bytes", type=Size(), help="A mixed minor is a major up to this base size; 0: never."
    )
    def command(
        *,
        common: Common,
        selection: Selection,
        understanding: Understanding,
        order: Order,
        budget: Budget,
        dry_run: bool,
        force: bool,
        minor_as_major_bytes: int | None,
        lock_timeout: float | None,
    ) -> Any:
        del force
        if lock_timeout is not None:
            common = common.setting("acidlib.lock.timeout", f"{round(lock_timeout * 1000)}ms")
        if minor_as_major_bytes is not None:
            common = common.setting("acidlib.minor.as.major.bytes", str(minor_as_major_bytes))
        if selection.warehouse is not None and not selection.tables:
            raise click.UsageError("--warehouse needs --table; without either, the queue is drained")
        run = CompactionRun(
            kind=kind,
            selection=selection,
            order=order,
            budget=budget,
            dry_run=dry_run,
            rewrite=RewriteSettings(part_bytes=common.settings.integer("acidlib.part.bytes")),
        )
        with (
            services(common, job=job, about=_about(selection, understanding)) as found,
            open_backend(common.surroundings, found, understanding) as backend,
        ):
            results, notes = run_compaction(found, backend, run)
            run_id = found.worker_id
        report = RunReport(job=job, version=__version__, run_id=run_id, results=tuple(results), notes=tuple(notes))
        print_notes(common, notes)
        print_result(
            common,
            text=lambda: compactions_text(results, dry_run=dry_run, verbose=dry_run),
            document=report.document,
        )
        raise SystemExit(exit_status(results, named=run.named))

    return command
