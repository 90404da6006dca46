"""Shows the queue and the history."""

from typing import Any

import click

from acidlib.cli.command import JobCommand, Machine, print_pieces, run_head, words_are_right
from acidlib.cli.options import checked_filters, common_options
from acidlib.model.names import Generation
from acidlib.model.requests import State
from acidlib.report.show import UNDONE, blockers_document, blockers_text, hive_text, show_document, show_text, state_of
from acidlib.report.text import json_text
from acidlib.service.environment import Environment
from acidlib.service.places import Selection

STATES = [*(state.label.replace(" ", "-") for state in State), UNDONE]


@click.command(
    "show_compactions",
    cls=JobCommand,
    help="Show compaction requests: those that wait, work or await cleaning, and the history.",
)
@common_options
@click.option("--table", "tables", multiple=True, metavar="DB.NAME", help="Only these; globs; repeatable.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES),
    help="Only requests in this state; repeatable.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="No more than the newest N of them.")
@click.option("--hive", is_flag=True, help="In the columns of Hive's SHOW COMPACTIONS, with a tab between them.")
@click.option("--blockers", "show_blockers", is_flag=True, help="Show what keeps requests from being cleaned instead.")
def main(
    *,
    environment: Environment,
    tables: tuple[str, ...],
    states: tuple[str, ...],
    limit: int | None,
    hive: bool,
    show_blockers: bool,
) -> Any:
    """Show the queue once."""
    checked_filters(tables, (), ())
    if hive and (show_blockers or environment.json):
        raise click.UsageError("--hive excludes --blockers and --output json")
    if show_blockers and not environment.metastore:
        raise click.UsageError("--blockers needs a metastore: without one nobody knows who reads")
    words_are_right()
    from acidlib.service.open import open_queued
    from acidlib.status.look import blockers

    selection = Selection(tables=tables)
    with open_queued(environment) as queued:
        everything, generation, hms = queued.requests, queued.generation, queued.hms
        wanted = (row for row in everything if selection.wants_table(row.ref.as_stored))
        requests = [row for row in wanted if not states or state_of(row, Generation.HIVE4).replace(" ", "-") in states]
        requests = requests[:limit]
        held, now_ms = None, int(Machine.current().clock() * 1000)
        if show_blockers and hms is not None:
            held = blockers_document(blockers(hms, requests, now_ms))
    if hive:
        print_pieces([hive_text(requests, generation)])
        return
    if not environment.json:
        print_pieces(
            [show_text(requests, generation, now_ms, of=len(everything)) if held is None else blockers_text(held)]
        )
        return
    rows = show_document(requests, generation)
    document = {
        **run_head(environment),
        "compactions": rows,
        **({} if held is None else {"blockers": held}),
        "totals": {"compactions": len(rows)},
    }
    print_pieces([json_text(document)])
