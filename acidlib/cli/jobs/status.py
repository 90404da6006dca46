"""Shows how all tables are doing, and what is wrong."""

from typing import Any

import click

from acidlib.cli.command import JobCommand, print_result, run_head, services, tell, words_are_right
from acidlib.cli.options import (
    checked_filters,
    common_options,
    if_exists_option,
    located,
    report_option,
    stated_of,
    write_ids_options,
)
from acidlib.planning.health import Level
from acidlib.report.page import page_of
from acidlib.report.progress import NOTE
from acidlib.report.results import EXIT_DONE, EXIT_HAS_ERRORS, EXIT_HAS_WARNINGS
from acidlib.report.text import json_text, status_text
from acidlib.service.environment import Environment
from acidlib.service.places import Interpretation, Selection


@click.command("status", cls=JobCommand, help="Show how all tables are doing, and what is wrong. Changes nothing.")
@common_options
@report_option
@click.option("--location", metavar="URI", help="Only this table or partition, without a metastore.")
@click.option("--warehouse", metavar="URI", help="Only tables below this directory, without a metastore.")
@click.option("--table", "tables", multiple=True, metavar="DB.NAME", help="Only these; globs; repeatable.")
@click.option("--exclude", multiple=True, metavar="DB.NAME", help="Not these; globs; repeatable.")
@click.option("--partition", "partitions", multiple=True, metavar="K=GLOB", help="Only these; repeatable.")
@write_ids_options
@if_exists_option
@click.option(
    "--places",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="List no more places than these, those with requests first; 0: none.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "error", "never"]),
    default="warning",
    show_default=True,
    help="From what on the exit status is not 0.",
)
@click.option("--metrics-file", metavar="FILE", help="Write metrics for node exporter there; ends in .prom.")
def main(
    *,
    environment: Environment,
    location: str | None,
    warehouse: str | None,
    tables: tuple[str, ...],
    exclude: tuple[str, ...],
    partitions: tuple[str, ...],
    if_exists: bool,
    places: int,
    fail_on: str,
    metrics_file: str | None,
    **stated: Any,
) -> Any:
    """Look once."""
    if location is not None or warehouse is not None:
        if environment.names_metastore:
            raise click.UsageError("--metastore-uri excludes --location and --warehouse")
        if location is not None and warehouse is not None:
            raise click.UsageError("--location and --warehouse exclude each other")
        environment = environment.without_metastore()
    if metrics_file is not None and not metrics_file.endswith(".prom"):
        raise click.UsageError("--metrics-file has to end in .prom: node exporter passes over other names")
    checked_filters(tables, exclude, partitions)
    selection = Selection(
        location=located(environment, location),
        warehouse=located(environment, warehouse),
        tables=tables,
        exclude=exclude,
        partitions=partitions,
        if_exists=if_exists,
    )
    write_ids = stated_of(stated, selection, has_metastore=bool(environment.metastore))
    words_are_right()
    from acidlib.status.look import look
    from acidlib.status.metrics import write_metrics

    with services(environment, job="status", about="status") as found:
        looked_ms = found.now_ms()
        seen = look(environment, found, selection, Interpretation(write_ids=write_ids), most_places=places)
    document = run_head(environment, found.worker_id) | seen
    if metrics_file is not None:
        most = environment.settings.integer("acidlib.status.metrics.tables")
        looked = {"looked_ms": looked_ms, "looked_seconds": found.clock() - looked_ms / 1000}
        write_metrics(document | looked | {"tables": document["tables"][:most]}, metrics_file)
    if not environment.json:
        for note in document["notes"]:
            tell(note, level=NOTE)
    text = json_text(document) if environment.json else status_text(document)
    print_result(environment, [text], lambda: page_of(document))
    level = Level[document["level"].upper()]
    if level is Level.OK or fail_on == "never" or level < Level[fail_on.upper()]:
        raise SystemExit(EXIT_DONE)
    raise SystemExit(EXIT_HAS_ERRORS if level is Level.ERROR else EXIT_HAS_WARNINGS)
