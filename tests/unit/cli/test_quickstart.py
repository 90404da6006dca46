"""The commands that the quickstart teaches: in the words by which it was started itself."""

from __future__ import annotations

import click
import pytest

from acidlib.cli.jobs import quickstart
from acidlib.cli.quickstart import called


@pytest.mark.parametrize(
    ("started", "words"),
    [
        ("acidlib quickstart", ("acidlib minor-compact", "acidlib show")),
        ("quickstart.py", ("./spark-submit.sh jobs/minor_compact.py", "./spark-submit.sh jobs/show_compactions.py")),
    ],
)
def test_commands_are_of_the_form_in_which_the_quickstart_was_started(started: str, words: tuple[str, str]) -> None:
    with click.Context(quickstart, info_name=started):
        assert (called("minor-compact"), called("show")) == words
