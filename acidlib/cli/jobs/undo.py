"""Undoes a compaction."""

from typing import Any

import click

from acidlib.cli.command import JobCommand, print_pieces, run_head, services, words_are_right
from acidlib.cli.options import common_options
from acidlib.report.text import json_text, undo_text
from acidlib.service.environment import Environment


@click.command(
    "undo",
    cls=JobCommand,
    help="Take back the result of a compaction while all that it was made of is there: it is moved out of readers' "
    "sight, and they read its inputs again. REQUEST is the number of the compaction in the queue.",
)
@common_options
@click.argument("request", type=click.IntRange(min=1))
@click.option(
    "--nobody-reads", is_flag=True, help="Nobody reads the place now; without a metastore only you can know that."
)
@click.option("--dry-run", is_flag=True, help="Show what would be moved, and what readers would read; change nothing.")
def main(*, environment: Environment, request: int, nobody_reads: bool, dry_run: bool) -> Any:
    """Undo one."""
    if environment.metastore and nobody_reads:
        raise click.UsageError("--nobody-reads is for directories: here the metastore knows")
    words_are_right()
    from acidlib.service.open import open_undoing
    from acidlib.service.undo import undo

    with (
        services(environment, job="undo", about="") as found,
        open_undoing(environment, found, dry_run=dry_run, nobody_reads=nobody_reads) as undoing,
    ):
        result = undo(found, undoing, request, user=environment.user, dry_run=dry_run)
    document = run_head(environment, found.worker_id) | {"undo": result.document()}
    print_pieces([json_text(document) if environment.json else undo_text(document["undo"])])
    raise SystemExit(result.exit_status())
