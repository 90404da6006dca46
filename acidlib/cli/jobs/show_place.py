"""Shows what is in a table or partition, as its readers see it."""

from typing import Any

import click

from acidlib import __version__
from acidlib.cli.command import JobCommand, print_pieces, services, words_are_right
from acidlib.cli.options import common_options, place_argument, selection_options
from acidlib.report.results import EXIT_DONE, EXIT_SOME_FAILED
from acidlib.report.text import json_text, places_text
from acidlib.service.environment import Environment
from acidlib.service.places import Interpretation, Selection


@click.command(
    "show_place",
    cls=JobCommand,
    help="Show the directories of a place: what readers read, what is obsolete or not read, and why. PLACE is a "
    "location, or DB.NAME or DB.NAME/K=V of a metastore.",
)
@common_options
@place_argument
@selection_options(everything=True)
def main(*, environment: Environment, selection: Selection, interpretation: Interpretation) -> Any:
    """Look once."""
    words_are_right()
    from acidlib.service.open import open_backend
    from acidlib.status.show_place import show_places

    with (
        services(environment, job="show_place", about="") as found,
        open_backend(environment, found, interpretation) as backend,
    ):
        shown = show_places(found, backend, selection)
    if environment.json:
        print_pieces([json_text({"job": "show_place", "version": __version__, "run_id": None} | shown)])
    else:
        print_pieces([places_text(shown["places"]) or "nothing that is named is a table or partition to compact"])
    raise SystemExit(EXIT_SOME_FAILED if shown["totals"]["damaged"] else EXIT_DONE)
