"""Removes what compactions made obsolete."""

from typing import Any, NoReturn

import click

from acidlib.cli.command import JobCommand, print_report, report_of, services, words_are_right
from acidlib.cli.options import Duration, checked_filters, common_options, if_exists_option, located, report_option
from acidlib.report.progress import ERROR
from acidlib.report.results import CleaningResult
from acidlib.report.run import CleanerReport
from acidlib.service.environment import Environment
from acidlib.service.places import Selection
from acidlib.service.stopping import told_when_stopped


@click.command(
    "cleaner",
    cls=JobCommand,
    help="Remove what is obsolete for the recorded compactions, once nobody can be reading it.",
)
@common_options
@report_option
@click.option("--location", metavar="URI", help="Only requests of this table or partition, without a metastore.")
@click.option("--table", "tables", multiple=True, metavar="DB.NAME", help="Only these; globs; with a metastore.")
@click.option("--exclude", multiple=True, metavar="DB.NAME", help="Not these; globs; with a metastore.")
@click.option("--partition", "partitions", multiple=True, metavar="K=GLOB", help="Only these; with a metastore.")
@click.option("--retention", type=Duration(), help="How long to leave what was made obsolete, e.g. 1d.")
@click.option("--trash", is_flag=True, help="Move to the trash (HDFS: the user's) instead of deleting.")
@click.option("--force", is_flag=True, help="Also where Hive's own cleaner is on; never past a safety check.")
@click.option("--dry-run", is_flag=True, help="Show what would go, remove nothing.")
@click.option("--orphans", is_flag=True, help="Instead, list what belongs to nobody, such as staging of dead runs.")
@click.option("--warehouse", metavar="URI", help="With --orphans and without a metastore: all tables below it.")
@click.option("--older-than", type=Duration(), help="With --orphans: unchanged for so long.  [default: 3d]")
@click.option("--delete", is_flag=True, help="With --orphans: remove them.")
@if_exists_option
def main(
    *,
    environment: Environment,
    location: str | None,
    tables: tuple[str, ...],
    exclude: tuple[str, ...],
    partitions: tuple[str, ...],
    retention: float | None,
    trash: bool,
    force: bool,
    dry_run: bool,
    orphans: bool,
    warehouse: str | None,
    older_than: float | None,
    delete: bool,
    if_exists: bool,
) -> Any:
    """Run the cleaner once."""
    if location is not None or warehouse is not None:
        if environment.names_metastore:
            raise click.UsageError("--metastore-uri excludes --location and --warehouse")
        environment = environment.without_metastore()
    if not orphans and (delete or older_than is not None or warehouse is not None):
        raise click.UsageError("--warehouse, --older-than and --delete go with --orphans")
    if orphans and (retention is not None or force):
        raise click.UsageError("--orphans excludes --retention and --force: --older-than says how old an orphan is")
    checked_filters(tables, exclude, partitions)
    if not environment.metastore and warehouse is None and (tables or exclude or partitions):
        raise click.UsageError("--table, --exclude and --partition need a metastore; without one give --location")
    selection = Selection(
        location=located(environment, location),
        warehouse=located(environment, warehouse),
        tables=tables,
        exclude=exclude,
        partitions=partitions,
        if_exists=if_exists,
    )
    if orphans:
        if delete and (trash or dry_run):
            raise click.UsageError("--delete excludes --trash and --dry-run")
        if location is not None and warehouse is not None:
            raise click.UsageError("--location and --warehouse exclude each other")
        if not environment.metastore and location is None and warehouse is None:
            raise click.UsageError("--orphans needs --metastore-uri, --warehouse or --location")
    words_are_right()
    from acidlib.service.backend import CleanerOptions
    from acidlib.service.clean import run_cleaner
    from acidlib.service.open import open_cleaning

    if orphans:
        _orphans(environment, selection, older_than, remove=delete or (trash and not dry_run), trash=trash)
    options = CleanerOptions(
        retention_seconds=retention,
        location=selection.location,
        selection=selection,
        force=force,
        dry_run=dry_run,
        trash=trash,
    )
    with (
        services(environment, job="cleaner", about="cleaner") as found,
        open_cleaning(environment, found, options) as cleaning,
    ):
        report = report_of(CleanerReport, environment, found, dry_run=dry_run)

        def tell(result: CleaningResult) -> None:
            if result.is_bad:
                found.progress.note(f"{result.state}, {result.reason}", level=ERROR, place=str(result.ref))
            report.add(result.document())

        with told_when_stopped(report.when_stopped):
            run_cleaner(found, cleaning, options, tell)
        notes = [*cleaning.notes, *(cleaning.why_nothing() if report.is_empty else ())]
    print_report(environment, report, notes)
    raise SystemExit(report.exit_status())


def _orphans(
    environment: Environment, selection: Selection, older_than: float | None, *, remove: bool, trash: bool
) -> NoReturn:
    """List or remove what belongs to nobody."""
    from acidlib.service.clean import DEFAULT_ORPHAN_SECONDS, run_orphans
    from acidlib.service.open import open_backend
    from acidlib.service.places import Interpretation

    idle_seconds = DEFAULT_ORPHAN_SECONDS if older_than is None else older_than
    with (
        services(environment, job="cleaner", about="orphans") as found,
        open_backend(environment, found, Interpretation()) as backend,
    ):
        report = report_of(CleanerReport, environment, found, dry_run=not remove)

        def tell(result: CleaningResult) -> None:
            report.add(result.document())

        notes = run_orphans(found, backend, selection, idle_seconds=idle_seconds, remove=remove, trash=trash, tell=tell)
    print_report(environment, report, notes)
    raise SystemExit(report.exit_status())
