"""Withdraws requests that wait."""

from typing import Any

import click

from acidlib.cli.command import JobCommand, Machine, print_pieces, run_head, words_are_right
from acidlib.cli.options import common_options
from acidlib.report.results import cancel_exit_status, cancellations_document
from acidlib.report.text import cancellations_text, json_text
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
    document = run_head(environment) | cancellations_document(found)
    print_pieces([json_text(document) if environment.json else cancellations_text(document["cancellations"])])
    raise SystemExit(cancel_exit_status(found))
