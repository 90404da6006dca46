"""Removes what compactions made obsolete: spark-submit jobs/cleaner.py --help"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click

from acidlib import __version__
from acidlib.engine.cleaner import CleaningAsked, run_cleaner
from acidlib.engine.command import Common, Duration, JobCommand, common_options, print_result, services
from acidlib.engine.open import open_cleaning
from acidlib.engine.selection import Selection
from acidlib.report.decisions import cleanings_document
from acidlib.report.results import EXIT_DONE, EXIT_SOME_FAILED
from acidlib.report.text import cleaner_text
from acidlib.storage.uris import open_filesystem


@click.command(
    cls=JobCommand, help="Remove what is obsolete for the recorded compactions, once nobody can be reading it."
)
@common_options
@click.option("--location", metavar="URI", help="Only requests of this table or partition, without a metastore.")
@click.option("--table", "tables", multiple=True, metavar="DB.NAME", help="Only these; globs; with a metastore.")
@click.option("--exclude", multiple=True, metavar="DB.NAME", help="Not these; globs; with a metastore.")
@click.option("--partition", "partitions", multiple=True, metavar="K=GLOB", help="Only these; with a metastore.")
@click.option("--retention", type=Duration(), help="How long to leave what was made obsolete, e.g. 1d.")
@click.option("--trash", is_flag=True, help="Move aside under _acidlib_trash instead of deleting.")
@click.option("--force", is_flag=True, help="Also where Hive's own cleaner is on; never past a safety check.")
@click.option("--orphans", is_flag=True, hidden=True)
@click.option("--dry-run", is_flag=True, help="Show what would go, remove nothing.")
def main(
    *,
    common: Common,
    location: str | None,
    tables: tuple[str, ...],
    exclude: tuple[str, ...],
    partitions: tuple[str, ...],
    retention: float | None,
    trash: bool,
    force: bool,
    orphans: bool,
    dry_run: bool,
) -> Any:
    """Run the cleaner once."""
    if orphans:
        raise click.UsageError("--orphans is not built yet")
    if location is not None:
        common = common.without_metastore()
    if not common.metastore and (tables or exclude or partitions):
        raise click.UsageError("--table, --exclude and --partition need a metastore; without one give --location")
    asked = CleaningAsked(
        retention_seconds=retention,
        location=None if location is None else open_filesystem(location)[1],
        selection=Selection(tables=tables, exclude=exclude, partitions=partitions),
        force=force,
    )
    with (
        services(common, job="cleaner", about="cleaner") as found,
        open_cleaning(common.surroundings, found, asked) as cleaning,
    ):
        results = run_cleaner(found, cleaning, dry_run=dry_run, trash=trash)
        run_id = found.worker_id
    print_result(
        common,
        text=lambda: cleaner_text(results, dry_run=dry_run),
        document=lambda: cleanings_document(results, version=__version__, run_id=run_id, notes=()),
    )
    raise SystemExit(EXIT_SOME_FAILED if any(r.state in ("failed", "conflict") for r in results) else EXIT_DONE)


if __name__ == "__main__":
    main()
