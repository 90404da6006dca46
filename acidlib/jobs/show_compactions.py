"""Shows the queue and the history, in the columns of Hive's SHOW COMPACTIONS."""

import time
from typing import Any

import click

from acidlib import __version__
from acidlib.engine.blockers import blockers
from acidlib.engine.command import JobCommand, print_pieces
from acidlib.engine.environment import Environment
from acidlib.engine.open import open_requests
from acidlib.engine.options import common_options
from acidlib.report.show import blockers_text, show_document, show_text
from acidlib.report.text import json_text


@click.command(
    "show_compactions",
    cls=JobCommand,
    help="Show compaction requests: those that wait, work or await cleaning, and the history.",
)
@common_options
@click.option("--blockers", "show_blockers", is_flag=True, help="Show what keeps requests from being cleaned instead.")
def main(*, environment: Environment, show_blockers: bool) -> Any:
    """Show the queue once."""
    if show_blockers and not environment.metastore:
        raise click.UsageError("--blockers needs a metastore: without one nobody knows who reads")
    with open_requests(environment) as (requests, generation, hms):
        held = None
        if show_blockers and hms is not None:
            held = [one.document() for one in blockers(hms, requests, int(time.time() * 1000))]
    if not environment.json:
        print_pieces([show_text(requests, generation) if held is None else blockers_text(held)])
        return
    rows = show_document(requests, generation)
    document = {
        "job": "show_compactions",
        "version": __version__,
        "run_id": None,
        "compactions": rows,
        **({} if held is None else {"blockers": held}),
        "totals": {"compactions": len(rows)},
    }
    print_pieces([json_text(document)])
