"""The jobs: for each its options, the checks of its command line, and how its result is shown.

A job imports the modules of its work below `end_of_check()`, so that a check and help take only a moment.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from acidlib import __version__
from acidlib.cli.command import (
    JobCommand,
    Machine,
    end_of_check,
    open_services,
    print_pieces,
    print_report,
    print_result,
    report_of,
    run_head,
    stores_of,
    tell,
)
from acidlib.cli.help import example
from acidlib.cli.options import (
    PLACE,
    POOL,
    REPORT,
    TABLE,
    YES,
    Duration,
    Size,
    check_filters,
    common_options,
    filter_options,
    place_options,
    selected,
    selection_options,
    stated_of,
)
from acidlib.config.settings import Layer
from acidlib.errors import AcidError
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionType, State
from acidlib.model.units import MAX_BUCKET, RewriteSettings
from acidlib.planning.health import Level
from acidlib.planning.results import parse_verify_share
from acidlib.report.page import status_page
from acidlib.report.progress import ERROR, NOTE, WARNING
from acidlib.report.results import (
    EXIT_DONE,
    EXIT_HAS_ERRORS,
    EXIT_HAS_WARNINGS,
    EXIT_NOT_DONE,
    EXIT_SOME_FAILED,
    CleaningResult,
    InitiatorResult,
    Outcome,
    cancellations_document,
)
from acidlib.report.run import CleanerReport, CompactionsReport, InitiatorReport
from acidlib.report.show import UNDONE, blockers_document, blockers_text, hive_text, show_document, show_text, state_of
from acidlib.report.text import cancellations_text, checks_text, json_text, places_text, status_text, undo_text
from acidlib.service.environment import Environment
from acidlib.service.places import Interpretation
from acidlib.service.run_queue import CompactionRun, Order
from acidlib.service.selection import CleanerOptions, Selection
from acidlib.service.services import Runner
from acidlib.service.spark_driver import stated_spark_options
from acidlib.service.stopping import told_when_stopped
from acidlib.stores.discover import named_at

_EXAMPLES = {
    CompactionType.MAJOR: example("major-compact --table sales.orders --partition 'ds=2026-*' --dry-run"),
    CompactionType.MINOR: example("minor-compact --time-budget 40m"),
}


def _compaction(kind: CompactionType, job: str) -> click.Command:
    """Return the command of one kind of compaction; a rebalance is an option of the major."""

    @click.command(
        job,
        cls=JobCommand,
        help=f"Run {kind.label.lower()} compactions: of the tables and partitions that are named, else of the requests "
        "that wait in the queue.",
        epilog=_EXAMPLES[kind],
    )
    @common_options
    @REPORT
    @selection_options(everything=False)
    @YES
    @POOL
    @click.option(
        "--order",
        type=click.Choice([order.value for order in Order]),
        default="deltas",
        show_default=True,
        help="Order of work: most deltas, most bytes in deltas, longest unchanged, or by name.",
    )
    @click.option(
        "--max-partitions", metavar="N", type=click.IntRange(min=0), help="Start no more than N tables and partitions."
    )
    @click.option("--max-bytes", type=Size(), help="Start no more than so many bytes of input, e.g. 100g.")
    @click.option("--time-budget", type=Duration(), help="Start nothing after so long, e.g. 2h.")
    @click.option(
        "--lock-timeout",
        type=Duration(),
        help="How long a publication by two renames waits for readers (Hive 3.1); default: 30s.",
    )
    @click.option("--dry-run", is_flag=True, help="Show the plan and its reasons; change nothing.")
    @click.option("--force", is_flag=True, help="No effect here: accepted because other jobs have it.")
    @click.option(
        "--minor-as-major-bytes",
        type=Size(),
        help="Base size up to which a minor of deltas and deletes runs as a major; 0: never.",
    )
    @click.option(
        "--verify",
        is_flag=False,
        flag_value="all",
        metavar="[all|sample=SHARE]",
        help="Compare each result with its inputs by a second reader before it is published: all buckets, or a share "
        "of them such as sample=0.1. On S3 without Hive 4's transactions: right after, before cleaning. Needs "
        "acidlib[verify].",
    )
    @click.option(
        "--release-held",
        is_flag=True,
        help="Lift the quarantine of a named place whose verification failed: the operator has checked the result.",
    )
    def command(
        *,
        environment: Environment,
        selection: Selection,
        interpretation: Interpretation,
        order: str,
        max_partitions: int | None,
        max_bytes: int | None,
        time_budget: float | None,
        dry_run: bool,
        force: bool,
        minor_as_major_bytes: int | None,
        lock_timeout: float | None,
        verify: str | None,
        release_held: bool,
        rebalance: bool = False,
        buckets: int | None = None,
    ) -> Any:
        del force  # so that one set of options serves all jobs of a workflow
        texts = {
            "acidlib.lock.timeout": None if lock_timeout is None else f"{round(lock_timeout * 1000)}ms",
            "acidlib.minor.as.major.bytes": None if minor_as_major_bytes is None else str(minor_as_major_bytes),
            "acidlib.verify": verify,
        }
        given = {name: text for name, text in texts.items() if text is not None}
        settings, _ = environment.settings.with_layer(Layer.COMMAND_LINE, given)
        environment = replace(environment, settings=settings)
        share = parse_verify_share(settings.text("acidlib.verify"))
        if release_held and not (selection.tables or selection.location is not None):
            raise click.UsageError("--release-held is for a named place: give --table or --location")
        if selection.warehouse is not None and not selection.tables:
            raise click.UsageError("--warehouse needs --table; without either, the queue is drained")
        if (rebalance or buckets is not None) and not (rebalance and selection.tables):
            raise click.UsageError("--rebalance needs --table, and --buckets needs --rebalance")
        end_of_check()
        from acidlib.service.open import open_backend
        from acidlib.service.run import run_compaction
        from acidlib.verify.files import require_reader

        if share is not None:
            require_reader()
        deadline = None if time_budget is None else Machine.current().clock() + time_budget
        run = CompactionRun(
            kind=CompactionType.REBALANCE if rebalance else kind,
            buckets=buckets,
            selection=selection,
            order=Order(order),
            max_partitions=max_partitions,
            max_bytes=max_bytes,
            deadline=deadline,
            dry_run=dry_run,
            release_held=release_held,
            rewrite=RewriteSettings(part_bytes=settings.integer("acidlib.part.bytes")),
        )
        about = (
            ",".join(selection.tables) or "queue" if selection.location is None else str(named_at(selection.location))
        )
        with (
            open_services(environment, job=job, about=about) as services,
            open_backend(environment, services, interpretation) as backend,
        ):
            report = report_of(CompactionsReport, environment, services, dry_run=dry_run)
            notes = run_compaction(services, backend, run, lambda result: report.add(result.document()))
        print_report(environment, report, notes)
        raise SystemExit(report.exit_status(is_named=run.is_named))

    if kind is CompactionType.MAJOR:
        command.params += (
            click.Option(
                ["--rebalance"],
                is_flag=True,
                help="Spread rows evenly over the buckets of tables without CLUSTERED BY (Hive 4; new row ids).",
            ),
            click.Option(
                ["--buckets"],
                type=click.IntRange(1, MAX_BUCKET + 1),
                metavar="N",
                help="Number of buckets for --rebalance, 1 to 4096; default: as many as there are.",
            ),
        )
    return command


major_compact = _compaction(CompactionType.MAJOR, "major_compact")
minor_compact = _compaction(CompactionType.MINOR, "minor_compact")


@click.command(
    "initiator",
    cls=JobCommand,
    help="Look at all tables and queue a compaction for each place over Hive's thresholds.",
    epilog=example("initiator --table 'sales.*' --dry-run"),
)
@common_options
@REPORT
@selection_options(everything=True)
@YES
@POOL
@click.option("--dry-run", is_flag=True, help="Show the decisions and their reasons; queue nothing.")
@click.option("--force", is_flag=True, help="Also queue places held back after failed attempts.")
def initiator(
    *, environment: Environment, selection: Selection, interpretation: Interpretation, dry_run: bool, force: bool
) -> Any:
    """Run the initiator once."""
    end_of_check()
    from acidlib.service.initiate import run_initiator
    from acidlib.service.open import open_backend

    about = selection.location or selection.warehouse or ""
    with (
        open_services(environment, job="initiator", about=f"initiator {about}".strip()) as services,
        open_backend(environment, services, interpretation) as backend,
    ):
        report = report_of(InitiatorReport, environment, services)

        def add(result: InitiatorResult) -> None:
            if result.outcome is Outcome.FAILED:
                services.progress.note(result.reason, level=ERROR, place=str(result.ref))
            report.add(result.document())

        with told_when_stopped(report.when_stopped):
            notes = run_initiator(services, backend, selection, dry_run=dry_run, force=force, tell=add)
    print_report(environment, report, [*notes, *report.notes()])
    raise SystemExit(report.exit_status())


@click.command(
    "cleaner",
    cls=JobCommand,
    help="Remove the files that recorded compactions made obsolete, once no reader can need them.",
    epilog=example("cleaner --dry-run"),
)
@common_options
@REPORT
@click.option("--location", metavar="URI", help="Only requests of this table or partition.")
@filter_options
@click.option("--retention", type=Duration(), help="How long to keep obsolete files, e.g. 1d.")
@click.option("--trash", is_flag=True, help="Move files to the trash (on HDFS the user's) instead of deleting them.")
@click.option(
    "--force", is_flag=True, help="Clean although Hive's own cleaner is on; every safety check still applies."
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed; remove nothing.")
@click.option(
    "--orphans",
    is_flag=True,
    help="List orphans instead: files that no run and no table owns, such as staging of crashed runs.",
)
@click.option("--warehouse", metavar="URI", help="With --orphans: look at all tables below this directory.")
@click.option("--older-than", type=Duration(), help="With --orphans: unchanged for so long; default: 3d.")
@click.option("--delete", is_flag=True, help="With --orphans: remove them.")
def cleaner(
    *,
    environment: Environment,
    retention: float | None,
    trash: bool,
    force: bool,
    dry_run: bool,
    orphans: bool,
    older_than: float | None,
    delete: bool,
    **filters: Any,
) -> Any:
    """Run the cleaner once."""
    warehouse = filters["warehouse"]
    if orphans and (retention is not None or force):
        raise click.UsageError("--orphans excludes --retention and --force: --older-than says how old an orphan is")
    if not orphans and (delete or older_than is not None or warehouse is not None):
        raise click.UsageError("--warehouse, --older-than and --delete go with --orphans")
    environment, selection = selected(environment, **filters)
    is_filtered = selection.tables or selection.exclude or selection.partitions
    if not environment.metastore and warehouse is None and is_filtered:
        raise click.UsageError("--table, --exclude and --partition need a metastore; without one give --location")
    if delete and (trash or dry_run):
        raise click.UsageError("--delete excludes --trash and --dry-run")
    if orphans and not environment.metastore and selection.location is None and warehouse is None:
        raise click.UsageError("--orphans needs --metastore-uri, --warehouse or --location")
    end_of_check()
    from acidlib.service.clean import run_cleaner
    from acidlib.service.open import open_backend, open_cleaning
    from acidlib.service.orphans import DEFAULT_ORPHAN_SECONDS, run_orphans

    remove = delete or (trash and not dry_run)
    with open_services(environment, job="cleaner", about="orphans" if orphans else "cleaner") as services:
        report = report_of(CleanerReport, environment, services, dry_run=not remove if orphans else dry_run)

        def add(result: CleaningResult) -> None:
            if result.state.is_bad and not orphans:
                services.progress.note(f"{result.state.value}, {result.reason}", level=ERROR, place=str(result.ref))
            report.add(result.document())

        if orphans:
            idle_seconds = DEFAULT_ORPHAN_SECONDS if older_than is None else older_than
            with open_backend(environment, services, Interpretation()) as backend:
                notes = run_orphans(
                    services, backend, selection, idle_seconds=idle_seconds, remove=remove, trash=trash, tell=add
                )
        else:
            options = CleanerOptions(
                retention_seconds=retention,
                selection=selection,
                force=force,
                dry_run=dry_run,
                trash=trash,
            )
            with open_cleaning(environment, services, options) as cleaning:
                with told_when_stopped(report.when_stopped):
                    run_cleaner(cleaning, add)
                notes = [*cleaning.notes, *(cleaning.why_nothing() if report.is_empty else ())]
    print_report(environment, report, notes)
    raise SystemExit(report.exit_status())


@click.command(
    "undo",
    cls=JobCommand,
    help="Take back the result of a compaction, as long as all its inputs still exist. The result is moved out of "
    "readers' sight, and they read the inputs again. REQUEST is the number of the compaction in the queue.",
    epilog=example("undo 17 --dry-run"),
)
@common_options
@click.argument("request", type=click.IntRange(min=1))
@click.option(
    "--nobody-reads", is_flag=True, help="State that no reader is at work there, which only the operator can know."
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would be moved, and what readers would read then; change nothing."
)
def undo(*, environment: Environment, request: int, nobody_reads: bool, dry_run: bool) -> Any:
    """Undo one compaction."""
    if environment.metastore and nobody_reads:
        raise click.UsageError("--nobody-reads is for directories without a metastore, which knows this itself")
    end_of_check()
    from acidlib.service import undo as service
    from acidlib.service.open import open_undoing

    with (
        open_services(environment, job="undo", about="") as services,
        open_undoing(environment, services, dry_run=dry_run) as backend,
    ):
        result = service.undo(
            services, backend, request, user=environment.user, dry_run=dry_run, nobody_reads=nobody_reads
        )
    document = run_head(environment, services.worker_id) | {"undo": result.document()}
    print_pieces([json_text(document) if environment.json else undo_text(document["undo"])])
    raise SystemExit(EXIT_NOT_DONE if result.state.is_bad else EXIT_DONE)


@click.command(
    "cancel",
    cls=JobCommand,
    help="Withdraw requests that no worker has taken yet, as Hive's ABORT COMPACTIONS does. REQUEST is the number of a "
    "request in the queue.",
    epilog=example("cancel 17 18"),
)
@common_options
@click.argument("requests", metavar="REQUEST...", type=click.IntRange(min=1), nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Show what would be withdrawn; change nothing.")
def cancel(*, environment: Environment, requests: tuple[int, ...], dry_run: bool) -> Any:
    """Withdraw the requests."""
    end_of_check()
    from acidlib.service import cancel as service

    cancellations = service.cancel(environment, requests, now_ms=int(Machine.current().clock() * 1000), dry_run=dry_run)
    document = run_head(environment) | cancellations_document(cancellations)
    print_pieces([json_text(document) if environment.json else cancellations_text(document["cancellations"])])
    if all(entry.state in (Outcome.PLANNED, Outcome.CANCELLED) for entry in cancellations):
        raise SystemExit(EXIT_DONE)
    raise SystemExit(EXIT_NOT_DONE if len(cancellations) == 1 else EXIT_SOME_FAILED)


_STATES = [*(state.label.replace(" ", "-") for state in State), UNDONE]


@click.command(
    "show_compactions",
    cls=JobCommand,
    help="Show the compaction requests that wait, run or await cleaning, and the history. With PLACE, a table or a "
    "directory, show that place instead: see acidlib show-place --help.",
    epilog=example("show --state failed --limit 20"),
)
@common_options
@TABLE
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(_STATES),
    help=f"Only requests in this state; repeatable: {', '.join(_STATES)}.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N requests.")
@click.option("--hive", is_flag=True, help="Print the columns of Hive's SHOW COMPACTIONS, separated by tabs.")
@click.option(
    "--blockers",
    "show_blockers",
    is_flag=True,
    help="Show instead which transactions and locks keep requests from being cleaned.",
)
def show_compactions(
    *,
    environment: Environment,
    tables: tuple[str, ...],
    states: tuple[str, ...],
    limit: int | None,
    hive: bool,
    show_blockers: bool,
) -> Any:
    """Show the queue once."""
    check_filters(tables, (), ())
    if hive and (show_blockers or environment.json):
        raise click.UsageError("--hive excludes --blockers and --output json")
    if show_blockers and not environment.metastore:
        raise click.UsageError("--blockers needs a metastore: without it readers are not known")
    end_of_check()
    from acidlib.service.open import open_queued
    from acidlib.status.look import blockers

    selection = Selection(tables=tables)
    with open_queued(environment) as queued:
        everything, generation, hms = queued.requests, queued.generation, queued.hms
        wanted = (row for row in everything if selection.wants_table(row.ref.as_stored))
        # --state has the words of Hive 4, whatever generation the queue is of
        requests = [row for row in wanted if not states or state_of(row, Generation.HIVE4).replace(" ", "-") in states]
        requests = requests[:limit]
        now_ms = int(Machine.current().clock() * 1000)
        document = run_head(environment) | {"compactions": show_document(requests, generation)}
        if show_blockers and hms is not None:
            document["blockers"] = blockers_document(blockers(hms, requests, now_ms))
    if hive:
        text = hive_text(requests, generation)
    elif environment.json:
        text = json_text(document | {"totals": {"compactions": len(requests)}})
    elif show_blockers:
        text = blockers_text(document["blockers"])
    else:
        text = show_text(requests, generation, now_ms, of=len(everything))
    print_pieces([text])


@click.command(
    "show_place",
    cls=JobCommand,
    help="Show the directories of a place: those that readers read, those that are obsolete or ignored, and why. PLACE "
    "is a location, or DB.NAME or DB.NAME/K=V of a metastore.",
    epilog=example("show-place sales.orders/ds=2026-01-31"),
)
@common_options
@PLACE
@selection_options(everything=True)
def show_place(*, environment: Environment, selection: Selection, interpretation: Interpretation) -> Any:
    """Show the places once."""
    end_of_check()
    from acidlib.service.open import open_backend
    from acidlib.status.show_place import show_places

    with (
        open_services(environment, job="show_place", about="") as services,
        open_backend(environment, services, interpretation) as backend,
    ):
        shown = show_places(services, backend, selection)
    if environment.json:
        print_pieces([json_text({"job": "show_place", "version": __version__, "run_id": None} | shown)])
    else:
        print_pieces([places_text(shown["places"]) or "nothing that is named is a table or partition to compact"])
    raise SystemExit(EXIT_SOME_FAILED if shown["totals"]["damaged"] else EXIT_DONE)


# the daemon of our workers compiles missing kernels, which the check is to report
_UNCHANGED = {"spark.ui.showConsoleProgress": "false", "spark.python.daemon.module": "pyspark.daemon"}


@click.command(
    "doctor",
    cls=JobCommand,
    help="Check that jobs can work here: Java, Python, Spark, kernels, executors, the metastore, Hive's own compactor, "
    "clocks, rights, the promises of stores, and the queue. Each line is ok, or says what to do.",
    epilog=example("doctor --metastore-uri thrift://host:9083"),
)
@common_options
@click.option(
    "--location",
    "locations",
    metavar="URI",
    multiple=True,
    help="Directory of tables to check besides the metastore's warehouse; repeatable.",
)
def doctor(*, environment: Environment, locations: tuple[str, ...]) -> Any:
    """Print all checks; exit status 1 if one of them fails."""
    end_of_check()
    from acidlib.status.doctor import checks, checks_document

    machine = Machine.current()
    with ExitStack() as stack:

        def session() -> Runner:
            return stack.enter_context(machine.session(name=f"{environment.host}-doctor", conf=_UNCHANGED))

        results = checks(
            environment,
            locations,
            session=session,
            master=lambda: stated_spark_options(os.environ).master,
            stores=stores_of(environment),
            clock=machine.clock,
            unique=lambda: uuid.uuid4().hex[:16],
        )
        document = checks_document(list(results))
    if environment.json:
        print_pieces([json_text(document)])
    else:
        for warning in environment.settings.warnings:
            tell(warning, level=WARNING)
        print_pieces([checks_text(document)])
    raise SystemExit(EXIT_NOT_DONE if document["totals"]["wrong"] else EXIT_DONE)


@click.command(
    "status",
    cls=JobCommand,
    help="Show the state of all tables, and each problem. Changes nothing.",
    epilog=example("status --fail-on error --report status.html"),
)
@common_options
@REPORT
@place_options
@click.option(
    "--places",
    metavar="N",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="List at most N places, those with requests first; 0: none.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "error", "never"]),
    default="warning",
    show_default=True,
    help="Level of problems from which the exit status is not 0.",
)
@click.option(
    "--metrics-file", metavar="FILE", help="Write metrics for node exporter to this file, whose name ends in .prom."
)
def status(
    *,
    environment: Environment,
    write_ids: str | None,
    write_ids_file: Path | None,
    all_committed: bool,
    places: int,
    fail_on: str,
    metrics_file: str | None,
    **filters: Any,
) -> Any:
    """Show all tables once."""
    if metrics_file is not None and not metrics_file.endswith(".prom"):
        raise click.UsageError("--metrics-file has to end in .prom: node exporter passes over other names")
    environment, selection = selected(environment, **filters)
    stated = stated_of(
        environment, selection, write_ids=write_ids, write_ids_file=write_ids_file, all_committed=all_committed
    )
    end_of_check()
    from acidlib.status.look import look
    from acidlib.status.metrics import require_metrics, write_metrics

    if metrics_file is not None:
        require_metrics(metrics_file)
    with open_services(environment, job="status", about="status") as services:
        looked_ms = services.now_ms()
        seen = look(environment, services, selection, Interpretation(write_ids=stated), most_places=places)
    document = run_head(environment, services.worker_id) | seen
    metrics = None
    if metrics_file is not None:
        most = environment.settings.integer("acidlib.status.metrics.tables")
        looked = {"looked_ms": looked_ms, "looked_seconds": services.clock() - looked_ms / 1000}
        metrics = partial(write_metrics, document | looked | {"tables": document["tables"][:most]}, metrics_file)
    if not environment.json:
        for note in document["notes"]:
            tell(note, level=NOTE)
    text = json_text(document) if environment.json else status_text(document)
    print_result(environment, [text], lambda: status_page(document), metrics=metrics)
    level = Level[document["level"].upper()]
    if level is Level.OK or fail_on == "never" or level < Level[fail_on.upper()]:
        raise SystemExit(EXIT_DONE)
    raise SystemExit(EXIT_HAS_ERRORS if level is Level.ERROR else EXIT_HAS_WARNINGS)


@click.command(
    "quickstart",
    cls=JobCommand,
    help="Compact a copy of two tables that real Hive wrote, and show each step.",
    epilog=example("quickstart --keep"),
)
@click.option("--keep", is_flag=True, help="Keep the directory of the copy and its queue, and print where it is.")
def quickstart(*, keep: bool) -> None:
    """Run all steps; exit status 1 if a result is not the expected one."""
    end_of_check()
    from acidlib.cli.quickstart import show_all_steps

    home = Path(tempfile.mkdtemp(prefix="acidlib-quickstart-"))
    try:
        show_all_steps(home)
    except AcidError as error:
        raise click.ClickException(str(error)) from error
    finally:
        if keep:
            click.echo(f"Kept: W is {home}/warehouse, the queue is --queue-url sqlite:///{home}/queue.db")
        else:
            shutil.rmtree(home)
