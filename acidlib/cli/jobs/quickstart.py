"""Shows the engine at work on a copy of tables that real Hive wrote."""

import shutil
import tempfile
from pathlib import Path

import click

from acidlib.cli.command import JobCommand, words_are_right
from acidlib.errors import AcidError


@click.command(cls=JobCommand, help="Compact a copy of two tables that real Hive wrote, and show each step.")
@click.option("--keep", is_flag=True, help="Keep the directory of the copy and its queue, and say where it is.")
def main(*, keep: bool) -> None:
    """Run the whole story; exit status 1 when anything is not as it has to be."""
    words_are_right()
    from acidlib.cli.jobs.quickstart_story import tell

    home = Path(tempfile.mkdtemp(prefix="acidlib-quickstart-"))
    try:
        tell(home)
    except AcidError as error:
        raise click.ClickException(str(error)) from error
    finally:
        if keep:
            click.echo(f"Kept: W is {home}/warehouse, the queue is --queue-url sqlite:///{home}/queue.db")
        else:
            shutil.rmtree(home)
