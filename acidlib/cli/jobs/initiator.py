"""Scans tables and queues what needs compaction."""

from typing import Any

import click

from acidlib.cli.command import JobCommand, print_report, report_of, services, words_are_right
from acidlib.cli.options import common_options, pool_option, report_option, selection_options, yes_option
from acidlib.report.progress import ERROR
from acidlib.report.results import InitiatorResult, Verdict
from acidlib.report.run import InitiatorReport
from acidlib.service.environment import Environment
from acidlib.service.places import Interpretation, Selection
from acidlib.service.stopping import told_when_stopped


@click.command("initiator", cls=JobCommand, help="Look at all tables and queue what is over Hive's thresholds.")
@common_options
@report_option
@selection_options(everything=True)
@yes_option
@pool_option
@click.option("--dry-run", is_flag=True, help="Show the decisions, queue nothing.")
@click.option("--force", is_flag=True, help="Also what the failed-attempt rule holds back.")
def main(
    *, environment: Environment, selection: Selection, interpretation: Interpretation, dry_run: bool, force: bool
) -> Any:
    """Run the initiator once."""
    words_are_right()
    from acidlib.service.initiate import run_initiator
    from acidlib.service.open import open_backend

    about = selection.location or selection.warehouse or ""
    with (
        services(environment, job="initiator", about=f"initiator {about}".strip()) as found,
        open_backend(environment, found, interpretation) as backend,
    ):
        report = report_of(InitiatorReport, environment, found)

        def tell(result: InitiatorResult) -> None:
            if result.outcome is Verdict.FAILED:
                found.progress.note(result.reason, level=ERROR, place=str(result.ref))
            report.add(result.document())

        with told_when_stopped(report.when_stopped):
            notes = run_initiator(found, backend, selection, dry_run=dry_run, force=force, tell=tell)
    print_report(environment, report, [*notes, *report.notes()])
    raise SystemExit(report.exit_status())
