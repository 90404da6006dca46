"""Looks whether jobs can work here."""

from __future__ import annotations

import os
import uuid
from contextlib import ExitStack
from typing import Any

import click

from acidlib import __version__
from acidlib.cli.command import JobCommand, Machine, print_pieces, stores_of, tell, words_are_right
from acidlib.cli.options import common_options
from acidlib.report.progress import WARNING
from acidlib.report.results import EXIT_NOT_DONE
from acidlib.report.text import json_text
from acidlib.service.environment import Environment
from acidlib.service.services import Runner
from acidlib.service.spark_options import stated_to_spark
from acidlib.status.checks import checks_document, checks_text, wrong

# the workers' own daemon would compile what is looked for
AS_THEY_ARE = {"spark.ui.showConsoleProgress": "false", "spark.python.daemon.module": "pyspark.daemon"}


@click.command(
    "doctor",
    cls=JobCommand,
    help="Look at Java, Python, Spark, kernels, executors, the metastore, Hive's own compactor, clocks, rights and the "
    "promises of stores, and the queue. Each line is ok, or says what to do.",
)
@common_options
@click.option(
    "--location",
    "locations",
    metavar="URI",
    multiple=True,
    help="A directory of tables to look at besides the metastore's warehouse; repeatable.",
)
def main(*, environment: Environment, locations: tuple[str, ...]) -> Any:
    """Print all checks; exit status 1 when anything is wrong."""
    words_are_right()
    from acidlib.status.doctor import Around, checks

    machine = Machine.current()
    with ExitStack() as stack:

        def session() -> Runner:
            return stack.enter_context(machine.session(name=f"{environment.host}-doctor", conf=AS_THEY_ARE))

        around = Around(
            session=session,
            master=lambda: stated_to_spark(os.environ).master,
            stores=stores_of(environment),
            clock=machine.clock,
            unique=lambda: uuid.uuid4().hex[:16],
        )
        found = list(checks(environment, around, locations))
    if environment.json:
        print_pieces([json_text(checks_document(found, version=__version__))])
    else:
        for warning in environment.settings.warnings:
            tell(warning, level=WARNING)
        print_pieces([checks_text(found)])
    raise SystemExit(EXIT_NOT_DONE if wrong(found) else 0)
