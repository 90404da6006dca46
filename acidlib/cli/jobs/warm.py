"""Compiles the kernels ahead."""

import click

from acidlib.cli.command import JobCommand


@click.command("warm", cls=JobCommand, help="Compile the kernels, once for an installation and a kind of processor.")
def main() -> None:
    """Compile what is not compiled yet; where that is kept, a line on standard error says."""
    from acidlib.rewrite.warm import main as compile_all

    compile_all()
    click.echo("The kernels are compiled for this processor.")
