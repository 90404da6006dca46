"""Shows the queue and the history, in the columns of Hive's SHOW COMPACTIONS."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click

from acidlib import __version__
from acidlib.engine.command import Common, JobCommand, common_options, print_result
from acidlib.model.generation import Generation
from acidlib.queue.sql import SqlQueue
from acidlib.report.show import show_document, show_text


@click.command(
    cls=JobCommand, help="Show compaction requests: those that wait, work or await cleaning, and the history."
)
@click.option("--blockers", is_flag=True, hidden=True)
@common_options
def main(*, common: Common, blockers: bool) -> Any:
    """Show the queue once."""
    if blockers:
        raise click.UsageError("--blockers needs a metastore, and metastores are not supported yet")
    with SqlQueue(common.queue_url) as queue:
        requests = queue.show()
    print_result(
        common,
        text=lambda: show_text(requests, Generation.HIVE4),
        document=lambda: {
            "job": "show_compactions",
            "version": __version__,
            "run_id": None,
            "compactions": show_document(requests),
            "totals": {"compactions": len(requests)},
        },
    )


if __name__ == "__main__":
    main()
