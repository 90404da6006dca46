"""What minor_compact and major_compact share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from acidlib.cli.command import JobCommand, print_report, report_of, services, words_are_right
from acidlib.cli.options import (
    Duration,
    Size,
    budget_options,
    common_options,
    pool_option,
    report_option,
    selection_options,
    yes_option,
)
from acidlib.model.requests import CompactionType
from acidlib.model.units import MAX_BUCKET, RewriteSettings
from acidlib.planning.verification import share_of
from acidlib.report.run import CompactionsReport
from acidlib.service.environment import Environment
from acidlib.service.places import Budget, Interpretation, Order, Selection
from acidlib.stores.discover import named_at

Command = TypeVar("Command", bound=Callable[..., Any])
_VERIFY = "acidlib.verify"


def _about(selection: Selection) -> str:
    """What is compacted, for the name of the Spark application."""
    if selection.location is not None:
        return str(named_at(selection.location))
    return ",".join(selection.tables) or "queue"


def _rebalance_options(kind: CompactionType) -> Callable[[Command], Command]:
    """The options of a rebalance, which is asked for as a major."""

    def decorated(command: Command) -> Command:
        if kind is not CompactionType.MAJOR:
            return command
        command = click.option(
            "--buckets",
            type=click.IntRange(1, MAX_BUCKET + 1),
            metavar="N",
            help="Into how many buckets --rebalance spreads the rows; default: as many as there are.",
        )(command)
        return click.option(
            "--rebalance",
            is_flag=True,
            help="Spread the rows evenly over the buckets of tables without CLUSTERED BY (Hive 4; new row ids).",
        )(command)

    return decorated


def compaction_command(kind: CompactionType, job: str) -> click.Command:
    """The command of one kind of compaction."""

    @click.command(
        job,
        cls=JobCommand,
        help=f"{kind.label.capitalize()} compaction of a table, of partitions, or of what waits in the queue.",
    )
    @common_options
    @report_option
    @selection_options(everything=False)
    @yes_option
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
    @click.option(
        "--verify",
        is_flag=False,
        flag_value="all",
        metavar="[all|sample=SHARE]",
        help="Compare each result with what it was made of, by a second reader, before any reader sees it (on S3 "
        "without Hive 4's transactions: right after, before anything is cleaned): all buckets, or a share of them such "
        "as sample=0.1. Needs acidlib[verify].",
    )
    @click.option(
        "--release-held",
        is_flag=True,
        help="Go on at places that are held because a verification failed: the operator says that the result is right.",
    )
    @_rebalance_options(kind)
    def command(
        *,
        environment: Environment,
        selection: Selection,
        interpretation: Interpretation,
        order: Order,
        budget: Budget,
        dry_run: bool,
        force: bool,
        minor_as_major_bytes: int | None,
        lock_timeout: float | None,
        verify: str | None,
        release_held: bool,
        rebalance: bool = False,
        buckets: int | None = None,
    ) -> Any:
        del force
        if lock_timeout is not None:
            environment = environment.with_setting("acidlib.lock.timeout", f"{round(lock_timeout * 1000)}ms")
        if minor_as_major_bytes is not None:
            environment = environment.with_setting("acidlib.minor.as.major.bytes", str(minor_as_major_bytes))
        if verify is not None:
            environment = environment.with_setting(_VERIFY, verify)
        share = share_of(environment.settings.text(_VERIFY))
        if release_held and not (selection.tables or selection.location is not None):
            raise click.UsageError("--release-held is for what is named, by --table or --location")
        if selection.warehouse is not None and not selection.tables:
            raise click.UsageError("--warehouse needs --table; without either, the queue is drained")
        if (rebalance or buckets is not None) and not (rebalance and selection.tables):
            raise click.UsageError("--rebalance is for what is named by --table, and --buckets for --rebalance")
        words_are_right()
        from acidlib.service.compact import run_compaction
        from acidlib.service.open import open_backend
        from acidlib.service.run_queue import CompactionRun
        from acidlib.verify.orc_files import require_reader

        if share is not None:
            require_reader()
        run = CompactionRun(
            kind=CompactionType.REBALANCE if rebalance else kind,
            buckets=buckets,
            selection=selection,
            order=order,
            budget=budget,
            dry_run=dry_run,
            release_held=release_held,
            rewrite=RewriteSettings(part_bytes=environment.settings.integer("acidlib.part.bytes")),
        )
        with (
            services(environment, job=job, about=_about(selection)) as found,
            open_backend(environment, found, interpretation) as backend,
        ):
            report = report_of(CompactionsReport, environment, found, dry_run=dry_run)
            notes = run_compaction(found, backend, run, lambda result: report.add(result.document()))
        print_report(environment, report, notes)
        raise SystemExit(report.exit_status(is_named=run.named))

    return command
