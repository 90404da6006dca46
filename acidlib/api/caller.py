"""The program that calls a verb: the machine it runs on, how it sees progress, and how Ctrl-C stops it."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from acidlib.arguments import Word, option
from acidlib.config.settings import Settings
from acidlib.errors import AcidError
from acidlib.execute.in_process import open_runner
from acidlib.execute.stopping import LEFT, STOPPING
from acidlib.execute.task import Runner
from acidlib.report.notebook import NotebookBar, notebook_display
from acidlib.report.progress import CalledProgress, LogLines, Progress, Step, TerminalProgress
from acidlib.runs.machine import Machine, Run
from acidlib.standard_error import above_bar

Shown = Callable[[Step], object] | Literal[False] | None
"""What shows progress: a callback that gets each `Step`, False for nothing but warnings, in a log; None for a bar."""


class Caller:
    """A Python program. The command line is another one: `CommandLine` in cli/command.py.

    machine  the machine of its runs; None = this one, where small work is done in this process
    """

    def __init__(self, machine: Machine | None = None) -> None:
        self._machine = machine

    @property
    def is_check(self) -> bool:
        """Whether its arguments are only checked, and nothing is looked at."""
        return False

    @property
    def machine(self) -> Machine:
        """The machine of its runs."""
        return self._machine or Machine()

    def machine_of(self, spark: Any) -> Machine:
        """Return the machine of its runs, which reaches stores as a session does; that of `machine` for None.

        Raises RefusedError for what is no session that can run tasks.
        """
        if spark is None:
            return self.machine
        from acidlib.execute.spark import hadoop_in_session, session_options

        options = session_options(spark)
        return replace(self.machine, spark_options=lambda: options, jvm=partial(hadoop_in_session, spark))

    def machine_with(
        self, settings: Settings, progress: Progress, spark: Any = None, *, may_start_spark: bool = True
    ) -> Machine:
        """Return the machine of a run with these settings, whose tasks run in the session `spark` if there is one."""
        if self._machine is not None and spark is None:
            return self._machine

        def session(*, name: str, conf: dict[str, str]) -> AbstractContextManager[Runner]:
            return open_runner(
                name=name,
                conf=conf,
                session=spark,
                settings=settings,
                may_start_spark=may_start_spark,
                on_start=progress.note,
            )

        return replace(self.machine_of(spark), session=session)

    def new_run(self, job: str) -> Run:
        """Return a run of a job that begins now."""
        return Run.of(job, self.machine)

    def word(self, of_lake: Word) -> Word:
        """Return what has texts name arguments in the words of the program; `of_lake` has them for a lake's verbs."""
        return of_lake

    def progress(self, run: Run, shown: Shown = None, *, word: Word = option) -> Progress:
        """Return what shows the progress of a run, with arguments in the words of the program."""
        if shown is False:
            return Progress(word=word)
        if shown is not None:
            return CalledProgress(shown, word=word)
        if (display := notebook_display()) is not None:
            return CalledProgress(NotebookBar(display), word=word)
        lines = LogLines(job=run.job, run_id=run.worker_id(socket.gethostname()))
        return TerminalProgress(lines=lines, word=word)

    def checked(self) -> None:
        """Go on: the arguments of a verb are right, and nothing has been opened yet."""

    def write(self, to_file: Callable[[], None]) -> None:
        """Write a file beside the result of a verb, or raise its error."""
        to_file()

    @contextmanager
    def verb(self, of_lake: Word) -> Iterator[None]:
        """Carry out a verb, which Ctrl-C stops in order, and whose errors have the words of the program; see `word`."""
        with STOPPING.in_program(lambda text: print(f"{above_bar()}{text}", file=sys.stderr)):
            try:
                yield
            except AcidError as error:
                logging.getLogger("acidlib").debug("the way to %s", type(error).__name__, exc_info=error)
                error.put(self.word(of_lake))
                raise
            except KeyboardInterrupt as stop:
                stop.args = stop.args or (LEFT,)
                raise
