"""Removes what compactions made obsolete: spark-submit jobs/cleaner.py --help"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click

from acidlib import __version__
from acidlib.engine.cleaner import run_cleaner
from acidlib.engine.command import Common, Duration, JobCommand, common_options, print_result, services
from acidlib.report.decisions import cleanings_document
from acidlib.report.results import EXIT_DONE, EXIT_SOME_FAILED
from acidlib.report.text import cleaner_text
from acidlib.storage.uris import open_filesystem


@click.command(
    cls=JobCommand, help="Remove what is obsolete for the recorded compactions, once their retention has passed."
)
@click.option("--location", metavar="URI", help="Only requests of this table or partition.")
@click.option("--retention", type=Duration(), help="How long to leave what was made obsolete, e.g. 1d.")
@click.option("--trash", is_flag=True, help="Move aside under _acidlib_trash instead of deleting.")
@click.option("--orphans", is_flag=True, hidden=True)
@click.option("--dry-run", is_flag=True, help="Show what would go, remove nothing.")
@common_options
def main(
    *, common: Common, location: str | None, retention: float | None, trash: bool, orphans: bool, dry_run: bool
) -> Any:
    """Run the cleaner once."""
    if orphans:
        raise click.UsageError("--orphans is not built yet")
    seconds = common.settings.integer("acidlib.retention") / 1000 if retention is None else retention
    place = None if location is None else open_filesystem(location)[1]
    with services(common, job="cleaner", about="cleaner") as found:
        results = run_cleaner(found, retention_seconds=seconds, location=place, dry_run=dry_run, trash=trash)
        run_id = found.worker_id
    print_result(
        common,
        text=lambda: cleaner_text(results, dry_run=dry_run),
        document=lambda: cleanings_document(results, version=__version__, run_id=run_id, notes=()),
    )
    raise SystemExit(EXIT_SOME_FAILED if any(r.state in ("failed", "conflict") for r in results) else EXIT_DONE)


if __name__ == "__main__":
    main()
