"""Withdraws requests that wait."""

from typing import Any

import click

from acidlib import __version__
from acidlib.cli.command import JobCommand, Machine, print_pieces, run_facts, words_are_right
from acidlib.cli.options import common_options
from acidlib.report.results import cancellations_document, cancellations_text, exit_status
from acidlib.report.text import json_text
from acidlib.service.environment import Environment


@click.command(
    "cancel",
    cls=JobCommand,
    help="Withdraw requests that wait and are not worked on yet, as Hive's ABORT COMPACTIONS does. REQUEST is the "
    "number of one in the queue.",
)
@common_options
@click.argument("requests", metavar="REQUEST...", type=click.IntRange(min=1), nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Show what would be withdrawn; change nothing.")
def main(*, environment: Environment, requests: tuple[int, ...], dry_run: bool) -> Any:
    """Withdraw them."""
    words_are_right()
    from acidlib.service.cancel import cancel

    found = cancel(environment, requests, now_ms=int(Machine.current().clock() * 1000), dry_run=dry_run)
    if environment.json:
        about = {"job": "cancel", "version": __version__, "run_id": None, **run_facts(environment).document()}
        print_pieces([json_text(about | cancellations_document(found))])
    else:
        print_pieces([cancellations_text(found)])
    raise SystemExit(exit_status(found))
