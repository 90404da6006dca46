"""The jobs: for each its options, the verb that does it, and how its result is shown."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import click

from acidlib.api.lake import FAIL_ON, ORDERS, STATES, CompactionKind, Lake
from acidlib.cli.command import CommandLine, Output, end_of_check, finish, flag, job_command, tell
from acidlib.cli.options import (
    DETAILS,
    PLACE,
    POOL,
    REPORT,
    TABLE,
    YES,
    common_options,
    directories_of,
    duration,
    filter_options,
    place_options,
    request_number,
    selection_options,
    size,
)
from acidlib.errors import AcidError
from acidlib.model.units import MAX_BUCKET
from acidlib.report.progress import WARNING
from acidlib.runs.environment import Environment

_EXAMPLES = {
    "major": "major-compact --table sales.orders --partition 'ds=2026-*' --dry-run",
    "minor": "minor-compact --time-budget 40m",
}


def _compaction(kind: CompactionKind, job: str) -> click.Command:
    """Return the command of one kind of compaction; a rebalance is an option of the major."""

    @job_command(
        job,
        help=f"Run {kind} compactions: of the tables and partitions that are named, else of the requests "
        "that wait in the queue.",
        example=_EXAMPLES[kind],
        without_effect=["--force", *(["--minor-as-major-bytes"] if kind == "major" else [])],
    )
    @common_options
    @REPORT
    @selection_options
    @YES
    @POOL
    @click.option(
        "--order",
        type=click.Choice(ORDERS),
        default="deltas",
        show_default=True,
        help="Order of work: most deltas, most bytes in deltas, longest unchanged, or by name.",
    )
    @click.option(
        "--max-partitions", metavar="N", type=click.IntRange(min=0), help="Start no more than N tables and partitions."
    )
    @click.option("--max-bytes", type=size, help="Start no more than so many bytes of input, e.g. 100g.")
    @click.option("--time-budget", type=duration, help="Start nothing after so long, e.g. 2h.")
    @click.option(
        "--lock-timeout",
        type=duration,
        help="How long a publication by two renames waits for readers (Hive 3.1); default: 30s.",
    )
    @flag("--dry-run", help="Show what would be done, and why; change nothing.")
    @DETAILS
    @flag("--force", help="No effect here: accepted because other jobs have it.")
    @click.option(
        "--minor-as-major-bytes",
        type=size,
        help="Base size up to which a minor of deltas and deletes runs as a major; 0: never.",
    )
    @click.option(
        "--verify",
        is_flag=False,
        flag_value="all",
        metavar="[all|sample=SHARE]",
        help="Compare each result with its inputs by a second reader before it is published, on S3 without Hive 4's "
        "transactions right after: all buckets, or a share such as sample=0.1. Needs acidlib[verify].",
    )
    @flag(
        "--release-held",
        help="Lift the quarantine of a named place whose verification failed: the operator has checked the result.",
    )
    def command(
        *,
        lake: Lake,
        output: Output,
        dry_run: bool,
        details: bool,
        force: bool,
        rebalance: bool = False,
        **options: Any,
    ) -> None:
        del force
        compact = lake.plan if dry_run else lake.compact
        result = compact("rebalance" if rebalance else kind, **options)
        notes = [note for note in result.notes if note != result.rest]  # the text has it
        finish(output, result, notes, pieces=result.text_pieces(details=details))

    if kind == "major":
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


major_compact = _compaction("major", "major_compact")
minor_compact = _compaction("minor", "minor_compact")


@job_command(
    "initiator",
    help="Look at all tables and queue a compaction for each place over Hive's thresholds.",
    example="initiator --table 'sales.*' --dry-run",
)
@common_options
@REPORT
@selection_options
@YES
@POOL
@flag("--dry-run", help="Show what would be done, and why; change nothing.")
@flag("--force", help="Also queue places in back-off after failed attempts.")
def initiator(*, lake: Lake, output: Output, **options: Any) -> None:
    """Run the initiator once."""
    result = lake.initiate(**options)
    finish(output, result, result.notes)


@job_command(
    "cleaner",
    help="Remove the files that recorded compactions made obsolete, once no reader can need them.",
    example="cleaner --dry-run",
)
@common_options
@REPORT
@click.option("--location", metavar="URI", help="Only requests of this table or partition.")
@filter_options
@click.option("--retention", type=duration, help="How long to keep obsolete files, e.g. 1d.")
@flag("--trash", help="Move files to the trash (on HDFS the user's) instead of deleting them.")
@flag("--force", help="Clean although Hive's own cleaner is on; every safety check still applies.")
@flag("--dry-run", help="Show what would be done, and why; change nothing.")
@DETAILS
@flag("--orphans", help="List orphans instead: files that no run and no table owns, such as staging of crashed runs.")
@click.option(
    "--warehouse",
    metavar="URI",
    help="Only requests of tables below this directory; with --orphans: look at all of them.",
)
@click.option("--older-than", type=duration, help="With --orphans: unchanged for so long; default: 3d.")
@flag("--delete", help="With --orphans: remove them.")
def cleaner(
    *,
    environment: Environment,
    output: Output,
    details: bool,
    retention: float | None,
    force: bool,
    orphans: bool,
    older_than: float | None,
    delete: bool,
    **options: Any,
) -> None:
    """Run the cleaner once."""
    if orphans and (retention is not None or force):
        raise click.UsageError("--orphans excludes --retention and --force: --older-than says how old an orphan is")
    if not orphans and (delete or older_than is not None):
        raise click.UsageError("--older-than and --delete go with --orphans")
    lake = Lake(environment, directories=directories_of(options), caller=CommandLine())
    if orphans:
        result = lake.orphans(older_than=older_than, delete=delete, **options)
    else:
        result = lake.clean(retention=retention, force=force, **options)
    finish(output, result, result.notes, pieces=result.text_pieces(details=details))


@job_command(
    "undo",
    help="Take back the result of a compaction, as long as all its inputs still exist. The result is moved out of "
    "readers' sight, and they read the inputs again. REQUEST is the number of the compaction in the queue.",
    example="undo 17 --dry-run",
)
@common_options
@click.argument("request", type=request_number)
@flag("--nobody-reads", help="State that no reader is at work there, which only the operator can know.")
@flag("--dry-run", help="Show what would be done, and why; change nothing.")
def undo(*, environment: Environment, output: Output, request: int, **options: Any) -> None:
    """Undo one compaction."""
    finish(output, Lake(environment, caller=CommandLine()).undo(request, **options))


@job_command(
    "cancel",
    help="Withdraw requests that no worker has taken yet, as Hive's ABORT COMPACTIONS does. REQUEST is the number of a "
    "request in the queue.",
    example="cancel 17 18",
)
@common_options
@click.argument("requests", metavar="REQUEST...", type=request_number, nargs=-1, required=True)
@flag("--dry-run", help="Show what would be done, and why; change nothing.")
def cancel(*, environment: Environment, output: Output, requests: tuple[int, ...], dry_run: bool) -> None:
    """Withdraw the requests."""
    finish(output, Lake(environment, caller=CommandLine()).cancel(*requests, dry_run=dry_run))


@job_command(
    "show_compactions",
    help="Show the compaction requests that wait, run or await cleaning, and the history. With PLACE, a table or a "
    "directory, show that place instead: see acidlib show PLACE --help.",
    example="show --state failed --limit 20",
)
@common_options
@TABLE
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(STATES),
    help=f"Only requests in this state; repeatable: {', '.join(STATES)}.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N requests.")
@flag("--hive", help="Print the columns of Hive's SHOW COMPACTIONS, separated by tabs.")
@flag("--blockers", help="Show instead which transactions and locks keep requests from being cleaned.")
def show_compactions(*, environment: Environment, output: Output, hive: bool, blockers: bool, **options: Any) -> None:
    """Show the queue once."""
    if hive and (blockers or output.json):
        raise click.UsageError("--hive excludes --blockers and --output json")
    result = Lake(environment, caller=CommandLine()).queue(blockers=blockers, **options)
    finish(output, result, pieces=[result.hive_text()] if hive else None)


@job_command(
    "show_place",
    help="Show the directories of a place: those that readers read, those that are obsolete or ignored, and why. PLACE "
    "is a location, or DB.NAME or DB.NAME/K=V of a metastore.",
    example="show sales.orders/ds=2026-01-31",
    without_effect=["--columns", "--visibility-txn"],
)
@common_options
@PLACE
@selection_options
def show_place(*, lake: Lake, output: Output, **options: Any) -> None:
    """Show the places once."""
    result = lake.files(**options)
    finish(output, result, result.notes)


@job_command(
    "doctor",
    help="Check that jobs can work here: Java, Python, Spark, kernels, executors, the metastore, Hive's own compactor, "
    "clocks, rights, the promises of stores, and the queue. Each line is ok, or says what to do.",
    example="doctor --metastore-uri thrift://host:9083",
)
@common_options
@click.option(
    "--location",
    "locations",
    metavar="URI",
    multiple=True,
    help="Directory of tables to check besides the metastore's warehouse; repeatable.",
)
def doctor(*, environment: Environment, output: Output, locations: tuple[str, ...]) -> None:
    """Print all checks; exit status 1 if one of them fails."""
    result = Lake(environment, caller=CommandLine()).doctor(locations=locations)
    if not output.json:
        for warning in environment.settings.warnings:
            tell(warning, level=WARNING)
    finish(output, result)


@job_command(
    "probe",
    help="Try all that publication relies on in a store, such as races to one name, in a folder that is made below URI "
    "and removed. A record of the outcome stays there: _acidlib_probe.json. URI is a directory above tables.",
    example="probe s3a://lake/warehouse",
)
@common_options
@click.argument("uri")
def probe(*, environment: Environment, output: Output, uri: str) -> None:
    """Print all promises; exit status 1 if one is broken."""
    finish(output, Lake(environment, caller=CommandLine()).probe(uri))


@job_command(
    "status",
    help="Show the state of all tables, and each problem. Changes nothing.",
    example="status --fail-on error --report status.html",
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
    type=click.Choice(FAIL_ON),
    default="warning",
    show_default=True,
    help="Level of problems from which the exit status is not 0.",
)
@click.option(
    "--metrics-file", metavar="FILE", help="Write metrics for node exporter to this file, whose name ends in .prom."
)
def status(*, environment: Environment, output: Output, **options: Any) -> None:
    """Show all tables once."""
    caller = CommandLine()
    result = Lake(environment, directories=directories_of(options), caller=caller).status(**options)
    finish(output, result, result.notes, metrics=caller.write_metrics)


@job_command(
    "quickstart",
    help="Compact a copy of two tables that real Hive wrote, and show each step.",
    example="quickstart --keep",
)
@flag("--keep", help="Keep the directory of the copy and its queue, and print where it is.")
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
