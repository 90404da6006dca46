"""Scans tables and queues what needs compaction: spark-submit jobs/initiator.py --help"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jobs  # noqa: F401  # before anything else that may fail

# isort: split
import click

from acidlib import __version__
from acidlib.engine.command import JobCommand, print_notes, print_result, services
from acidlib.engine.environment import Environment
from acidlib.engine.initiator import run_initiator
from acidlib.engine.open import open_backend
from acidlib.engine.options import common_options, pool_option, selection_options
from acidlib.engine.selection import Selection
from acidlib.engine.target import Interpretation
from acidlib.report.decisions import decisions_document
from acidlib.report.results import EXIT_DONE, EXIT_SOME_FAILED
from acidlib.report.text import initiator_text


@click.command("initiator", cls=JobCommand, help="Look at all tables and queue what is over Hive's thresholds.")
@common_options
@selection_options(everything=True)
@pool_option
@click.option("--dry-run", is_flag=True, help="Show the decisions, queue nothing.")
@click.option("--force", is_flag=True, help="Also what the failed-attempt rule holds back.")
def main(
    *, environment: Environment, selection: Selection, interpretation: Interpretation, dry_run: bool, force: bool
) -> Any:
    """Run the initiator once."""
    about = selection.location or selection.warehouse or ""
    with (
        services(environment, job="initiator", about=f"initiator {about}".strip()) as found,
        open_backend(environment, found, interpretation) as backend,
    ):
        results, notes = run_initiator(found, backend, selection, dry_run=dry_run, force=force)
        run_id = found.worker_id
    print_notes(environment, notes)
    print_result(
        environment,
        text=lambda: initiator_text(results),
        document=lambda: decisions_document(results, version=__version__, run_id=run_id, notes=notes),
    )
    raise SystemExit(EXIT_SOME_FAILED if any(result.failed for result in results) else EXIT_DONE)


if __name__ == "__main__":
    main()
