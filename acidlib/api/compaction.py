"""A compaction whose tasks the program runs itself: planned and claimed first, and committed in the end."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from acidlib.api.verb import verb
from acidlib.arguments import Word, option, said_in
from acidlib.errors import AcidError, UsageError
from acidlib.execute.answers import answer_of
from acidlib.execute.schedule import HandedOut
from acidlib.execute.task import Task
from acidlib.model.results import CompactionResult
from acidlib.report.run import Compactions
from acidlib.report.text import compaction_lines
from acidlib.wording import plural

if TYPE_CHECKING:
    from acidlib.runs.plan import PlacePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The end of a task, for the commit of the job that has planned it. It can be pickled.

    plan    the id of the plan
    number  of the task in its plan
    error   why the task failed: then its table or partition fails, and the others are committed; None where it is done
    """

    plan: str
    number: int
    error: AcidError | None = None
    made: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """A task of a plan. It can be pickled, and run in every process that sees the files and has this package.

    plan    the id of the plan
    number  its place in the plan
    where   the file that it makes, or of which it makes a part
    length  bytes of its input
    word    has its error name arguments in the words of the program
    """

    plan: str
    number: int
    where: str
    length: int
    work: Callable[[str], Any] = field(repr=False)
    word: Word = field(default=option, repr=False)

    def run(self) -> TaskResult:
        """Make the file beside the others, where no reader looks, and return its proof, or the error.

        Run again, also at the same time, it makes another file, of which one counts.
        """
        made = answer_of(self.work, uuid.uuid4().hex[:16], f"make {self.where}")
        error = made if isinstance(made, AcidError) else None
        if error is not None:
            error.put(self.word)
        return TaskResult(plan=self.plan, number=self.number, error=error, made=None if error else made)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CompactionPlan:
    """What a job is about to do, of all of its tables and partitions; nothing where all are compact already.

    id      unique to the job
    places  each as a dry run has it: why, how, its inputs and the directories to come
    tasks   of all places
    """

    id: str
    places: tuple[CompactionResult, ...]
    tasks: tuple[CompactionTask, ...]

    def __str__(self) -> str:
        """Return what a dry run shows, and the number of tasks."""
        lines = [line for place in self.places for line in compaction_lines(place, dry_run=True)]
        size = sum(task.length for task in self.tasks)
        return "\n".join([*lines, f"{plural(len(self.tasks), 'task')}, {plural(size, 'byte')} of input"])

    def __repr__(self) -> str:
        return f"<CompactionPlan: {plural(len(self.places), 'place')}, {plural(len(self.tasks), 'task')}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return f"<pre>{escape(str(self))}</pre>"


_GIVEN_BACK = "its tables and partitions are given back"
CompactionSteps = Generator[HandedOut, Sequence[Any], Compactions]


class CompactionJob:
    """A compaction from its claim to its end, for a `with`: what is not committed at its end is given back.

    Claims, locks and transactions are kept alive until then. A job with tasks that ends without a commit and without an
    error is a warning of the logger "acidlib".

    >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
    >>> with table.compaction("major") as job:
    ...     results = [task.run() for task in job.plan.tasks]
    ...     job.commit(results).places[0].state.value
    'ready for cleaning'
    """

    def __init__(self, steps: CompactionSteps, plans: Sequence[PlacePlan], *, about: str, word: Word = option) -> None:
        """Take the steps of a run, which has added the plan of each place once it hands out the tasks.

        about  the table and kind, for messages
        word   has texts name arguments in the words of the program
        """
        self._steps = steps
        self._plans = plans
        self._about = about
        self._word = word
        self._ended: Compactions | None = None
        self._plan: CompactionPlan | None = None
        self._thread = 0
        self._is_over = False

    def __repr__(self) -> str:
        return f"<CompactionJob: {self._about}, {self._state}>"

    @property
    def _state(self) -> str:
        if self._plan is None:
            return "not entered"
        if self._ended is None:
            tasks = plural(len(self._plan.tasks), "task")
            return f"{tasks}, {'given back' if self._is_over else 'not committed'}"
        return "committed" if self._plan.tasks else "nothing to do"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Have errors of the body be the caller's, in the words of the program."""
        try:
            yield
        except AcidError as error:
            error.put(self._word)
            raise

    @property
    def plan(self) -> CompactionPlan:
        """The plan; UsageError before the `with`."""
        if self._plan is None:
            raise UsageError("Cannot plan a compaction before its job is entered: with table.compaction(…) as job")
        return self._plan

    @verb()
    def __enter__(self) -> Self:
        with self._told():
            self._enter()
        return self

    def _enter(self) -> None:
        if self._plan is not None:
            raise UsageError("Cannot enter a job twice: call compaction() again")
        self._thread = get_ident()
        tasks: tuple[Task, ...] = ()
        try:
            tasks = next(self._steps).tasks
        except StopIteration as end:
            self._ended = end.value
        plan = uuid.uuid4().hex[:16]
        self._plan = CompactionPlan(
            id=plan,
            places=tuple(said_in(planned.expected(), self._word) for planned in self._plans),
            tasks=tuple(
                CompactionTask(
                    plan=plan, number=number, where=task.where, length=task.length, work=task.work, word=self._word
                )
                for number, task in enumerate(tasks)
            ),
        )

    @verb()
    def commit(self, results: Iterable[TaskResult]) -> Compactions:
        """Publish what the tasks of the plan have made, and return the result as `compact` does.

        results  one of each task, in any order; of one that was run several times the first counts

        What needs all of a bucket is done here, in processes of the program: parts of large ones are joined, and
        results verified. Raises UsageError for results of another plan, and where one is missing: nothing is changed
        then.
        """
        with self._told():
            return self._commit(results)

    def _commit(self, results: Iterable[TaskResult]) -> Compactions:
        plan = self.plan
        if self._ended is not None and plan.tasks:
            raise UsageError("Cannot commit a job twice")
        if get_ident() != self._thread:  # signals are those of the thread in which the job has begun
            raise UsageError("Cannot commit a job in another thread than the one that has entered it")
        answers: dict[int, Any] = {}
        for result in results:
            if not isinstance(result, TaskResult) or result.plan != plan.id:
                raise UsageError(f"Cannot commit {result!r}: it is no result of a task of this job")
            answers.setdefault(result.number, result.made if result.error is None else result.error)
        missing = [task.where for task in plan.tasks if task.number not in answers]
        if missing:
            have = plural(len(missing), "task of the plan has", "tasks of the plan have")
            raise UsageError(f"Cannot commit: {have} no result: {missing[0]}")
        if self._ended is None:
            try:
                self._steps.send([answers[task.number] for task in plan.tasks])
            except StopIteration as end:
                self._ended = end.value
        assert self._ended is not None
        return self._ended

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._steps.close()
        if error is None and self._ended is None:
            logging.getLogger("acidlib").warning(
                "%s: the job ended without commit(): nothing is published, and %s", self._about, _GIVEN_BACK
            )
