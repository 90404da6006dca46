"""The verbs: the tables of a metastore or of directories, and each job of the command line as a method.

Each verb checks its arguments, opens what it needs, has a run do the work, and returns a frozen value. It imports
the modules of its work below `checked()`, so that the command line checks words in a moment.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

from msgspec import UNSET

from acidlib.acid.names import OWN_QUEUE
from acidlib.api.arguments import (
    DirectoryOptions,
    Duration,
    Size,
    TextOrTexts,
    bytes_of,
    check_filters,
    checked_pool,
    count_of,
    interpretation_of,
    one_of,
    require_consistent,
    seconds_of,
    selected,
    stated_of,
    texts,
)
from acidlib.api.caller import Caller, Shown
from acidlib.api.verb import verb
from acidlib.arguments import (
    BLOCKERS,
    BUCKETS,
    DELETE,
    DRY_RUN,
    EXCLUDE,
    IDLE,
    LOCATION,
    METASTORE_URI,
    METRICS_FILE,
    NO_METASTORE,
    NOBODY_READS,
    ORPHANS,
    PARTITION,
    REBALANCE,
    RELEASE_HELD,
    TABLE,
    TRASH,
    WAREHOUSE,
    Word,
    said,
)
from acidlib.config.settings import Layer
from acidlib.errors import AcidError, RefusedError, UsageError
from acidlib.execute.answers import returned_by
from acidlib.execute.services import Services
from acidlib.execute.spark_options import stated_spark_options
from acidlib.execute.stopping import explain_interrupt
from acidlib.execute.task import Runner
from acidlib.location import Location
from acidlib.masking import masked
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.results import (
    CancellationsDocument,
    ChecksDocument,
    CleaningResult,
    Head,
    InitiatorResult,
    Outcome,
    ProbeDocument,
    RequestsDocument,
    RequestTotals,
    RunHead,
    UndoDocument,
)
from acidlib.model.tables import TableRef
from acidlib.model.units import MAX_BUCKET, RewriteSettings
from acidlib.places.place import Interpretation
from acidlib.places.selection import CleanerOptions, Selection, is_glob
from acidlib.planning.results import parse_verify_share
from acidlib.report.answers import Cancellations, Checks, Places, Probe, Requests, Status, Undo
from acidlib.report.progress import ERROR, WARNING
from acidlib.report.run import Cleanings, Compactions, Decisions, Plan, RunReport
from acidlib.report.show import UNDONE, shown_blocker, shown_request, state_of
from acidlib.runs.environment import Environment
from acidlib.runs.machine import Run, open_services, stores_of
from acidlib.runs.run_queue import CompactionRun, Order
from acidlib.stores.discover import named_at
from acidlib.version import __version__

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from acidlib.api.compaction import CompactionJob
    from acidlib.execute.schedule import HandedOut
    from acidlib.runs.plan import PlacePlan
    from acidlib.runs.snapshot import Snapshot

KINDS = {
    "major": CompactionType.MAJOR,
    "minor": CompactionType.MINOR,
    "rebalance": CompactionType.REBALANCE,
}
ORDERS = tuple(order.value for order in Order)
STATES = (*(state.label.replace(" ", "-") for state in State), UNDONE)
"""The states of requests, as a caller names them."""
FAIL_ON = ("warning", "error", "never")
# the daemon of our workers compiles missing kernels, which the check is to report
_UNCHANGED = {"spark.ui.showConsoleProgress": "false", "spark.python.daemon.module": "pyspark.daemon"}
CompactionKind = Literal["major", "minor", "rebalance"]
Ended = TypeVar("Ended", bound=Compactions)


class CompactionOptions(TypedDict, total=False):
    """What to compact of a table, and how; each may be left out.

    partitions            `key=glob`, several keys with a slash between them; one text, or several
    idle                  only partitions unchanged for so long: seconds, or a text such as "1d"
    if_exists             a named table or partition that does not exist is a note, not an error
    order                 "deltas" (most deltas first, the default), "bytes", "age" or "name"
    max_partitions        start no more places
    max_bytes             start no more bytes of input: a number, or a text such as "100g"
    time_budget           start nothing after so long
    lock_timeout          how long a publication by two renames waits for readers (Hive 3.1)
    minor_as_major_bytes  base size up to which a minor of deltas and deletes runs as a major; 0: never
    verify                True or "all", or a share such as "sample=0.1": a second reader compares before publication
    release_held          lift the quarantine of a named place: its result has been checked
    buckets               of a rebalance, 1 to 4096; None = as many as there are
    spark                 a session whose executors do the work, and which is as it was afterwards
    progress              a callback that gets each `Step`, None for a bar, False for nothing: warnings are logged then

    >>> options: acidlib.CompactionOptions = {"max_bytes": "100g", "time_budget": "2h", "verify": "sample=0.1"}
    >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
    >>> table.compact("major", **options).ok
    True
    """

    partitions: TextOrTexts
    idle: Duration | None
    if_exists: bool
    order: Literal["deltas", "bytes", "age", "name"]
    max_partitions: int | None
    max_bytes: Size | None
    time_budget: Duration | None
    lock_timeout: Duration | None
    minor_as_major_bytes: Size | None
    verify: str | bool | None
    release_held: bool
    buckets: int | None
    spark: Any
    progress: Shown


class LakeOptions(CompactionOptions, total=False):
    """The options of a table's compaction, and which tables.

    tables, exclude  `DB.NAME`, with globs; one text, or several

    >>> options: acidlib.LakeOptions = {"tables": "sales.*", "exclude": "sales.orders", "partitions": "dt=*-02"}
    >>> lake = acidlib.warehouse("warehouse", all_committed=True, of_each=True)
    >>> [place.partition for place in lake.plan("major", **options).places]
    ['dt=2024-01-02']
    """

    tables: TextOrTexts
    exclude: TextOrTexts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One call of a verb; `word` has its texts name arguments in the words of the caller."""

    caller: Caller
    run: Run
    shown: Shown
    spark: Any
    word: Word

    @contextmanager
    def services(
        self, environment: Environment, *, about: str = "", may_start_spark: bool = True
    ) -> Iterator[Services]:
        """Open the services of the call; `about` as `open_services` has it."""
        progress = self.caller.progress(self.run, self.shown, word=self.word)
        machine = self.caller.machine_with(environment.settings, progress, self.spark, may_start_spark=may_start_spark)
        with open_services(environment, machine, self.run, progress, about=about) as services:
            yield services

    def head(self, environment: Environment, services: Services | None = None) -> RunHead:
        """Return the beginning of the document of the call, which ends now."""
        application = None if services is None else services.runner.application
        return self.run.head(environment, self.caller.machine, application)


class Lake:
    """The tables of a metastore, of a warehouse directory, or the queue alone; `connect` and `warehouse` make one.

    A lake opens nothing before a verb is called, and keeps nothing open after it: it can be used from several threads.

    >>> acidlib.connect("thrift://host:9083")
    <Lake: thrift://host:9083>
    """

    def __init__(
        self,
        environment: Environment,
        *,
        directories: DirectoryOptions | None = None,
        pool: str | None = None,
        caller: Caller | None = None,
    ) -> None:
        self._environment = environment
        self._directories = directories or DirectoryOptions()
        self._pool = pool
        self._caller = caller or Caller()

    def __repr__(self) -> str:
        directories = self._directories
        where = directories.location or directories.warehouse or self._environment.metastore_words
        return masked(f"<Lake: {where or 'the queue alone'}>")

    @contextmanager
    def _call(self, job: str, *, progress: Shown = None, spark: Any = None) -> Iterator[_Call]:
        of_lake: Word = partial(self._directories.word, plans=True) if job.endswith("_compact") else self._word
        with self._caller.verb(of_lake):
            yield _Call(
                caller=self._caller,
                run=self._caller.new_run(job),
                shown=progress,
                spark=spark,
                word=self._caller.word(of_lake),
            )

    @property
    def _word(self) -> Word:
        """What a program writes for an argument that a text names."""
        return self._directories.word

    def _selected(self, *, spark: Any = None, **filters: Any) -> tuple[Environment, Selection]:
        caller = self._caller
        machine = caller.machine_of(spark)
        return selected(self._environment, machine, self._directories, is_check=caller.is_check, **filters)

    def _interpreted(
        self, *, everything: bool, spark: Any = None, **filters: Any
    ) -> tuple[Environment, Selection, Interpretation]:
        """Return the selection of a verb that reads places, by a session if there is one, and how to read them."""
        environment, selection = self._selected(spark=spark, **filters)
        require_consistent(selection, everything=everything, has_metastore=bool(environment.metastore))
        interpretation = interpretation_of(environment, selection, self._directories)
        return replace(environment, pool=checked_pool(environment, self._pool)), selection, interpretation

    @verb()
    def table(self, name: str) -> Table:
        """Return a table by its name `DB.NAME`; it is looked for when a verb is called.

        >>> lake = acidlib.warehouse("warehouse", all_committed=True, of_each=True)
        >>> lake.table("sales.orders")
        <Table: sales.orders>
        """
        with self._caller.verb(self._word):
            check_filters((name,), (), ())
            if is_glob(name):
                raise UsageError(f"Cannot name a table {name}: verbs of the lake take patterns, as {TABLE}")
            if not self._environment.metastore and self._directories.warehouse is None:
                raise UsageError(
                    f"Cannot find {name} by its name: there is no metastore; name one by {METASTORE_URI}, or in the "
                    f"hive-site.xml of {self._environment.hive_source}, or read directories by {NO_METASTORE}"
                )
        return Table(self, name)

    @verb()
    def tables(self, *, tables: TextOrTexts = (), exclude: TextOrTexts = ()) -> list[Table]:
        """Return the ACID tables of a metastore or warehouse, or those of the names and globs, in alphabetical order.

        Raises MissingError for a name that no table has.

        >>> acidlib.warehouse("warehouse").tables()
        [<Table: sales.orders>, <Table: sales.visits>]
        """
        with self._call("show_place", progress=False) as call:
            environment, selection = self._selected(tables=tables, exclude=exclude)
            require_consistent(selection, everything=True, has_metastore=bool(environment.metastore))
            self._caller.checked()
            from acidlib.runs.open import open_backend

            with (
                call.services(environment) as services,
                open_backend(environment, services, Interpretation()) as backend,
            ):
                return [Table(self, str(name)) for name in sorted(backend.tables.names(selection))]

    @verb(LakeOptions)
    def plan(self, kind: CompactionKind, **options: Unpack[LakeOptions]) -> Plan:
        """Return the plan of compactions, and change nothing; its arguments are those of `compact`.

        >>> lake = acidlib.warehouse("warehouse", all_committed=True, of_each=True)
        >>> plan = lake.plan("major", tables="sales.*", order="name")
        >>> sorted((place.table, place.partition or "", place.state.value) for place in plan.places)[:2]
        [('orders', '', 'planned'), ('visits', 'dt=2024-01-01', 'planned')]
        >>> plan.stripes_copied, plan.stripes_rewritten, plan.bytes_rewritten
        (0, 18, 7089)
        """
        return returned_by(self._compacting(Plan, kind, **options))

    @verb(LakeOptions)
    def compact(self, kind: CompactionKind, **options: Unpack[LakeOptions]) -> Compactions:
        """Compact the tables and partitions that are named, else those of the requests that wait in the queue.

        kind     "major", "minor", or "rebalance" (Hive 4)
        options  see `LakeOptions`

        `plan` is the dry run. A place that fails is an entry of the result, and `ok` is false. Raises UsageError for
        wrong arguments, MissingError for a table that does not exist, RetryError where a server does not answer.

        >>> lake = acidlib.warehouse("warehouse", all_committed=True, of_each=True)
        >>> result = lake.compact("minor", tables="sales.visits", verify="all")
        >>> result.ok, result.states, result.totals.rows_out
        (True, {'ready for cleaning': 3}, 35)
        """
        return returned_by(self._compacting(Compactions, kind, **options))

    def _compacting(
        self,
        result: type[Ended],
        kind: str,
        *,
        hands_out: Callable[[PlacePlan], None] | None = None,
        order: str = Order.DELTAS.value,
        max_partitions: int | None = None,
        max_bytes: Size | None = None,
        time_budget: Duration | None = None,
        lock_timeout: Duration | None = None,
        minor_as_major_bytes: Size | None = None,
        verify: str | bool | None = None,
        release_held: bool = False,
        buckets: int | None = None,
        spark: Any = None,
        progress: Shown = None,
        **filters: Any,
    ) -> Generator[HandedOut, Sequence[Any], Ended]:
        """Compact, or plan it, for a `Plan`; with `hands_out` yield the tasks that make files, see `compactions`."""
        is_minor, is_rebalance = kind == "minor", kind == "rebalance"
        job = "minor_compact" if is_minor else "major_compact"
        with self._call(job, progress=progress, spark=spark) as call:
            one_of(kind, tuple(KINDS), name="kind")
            environment, selection, interpretation = self._interpreted(everything=False, spark=spark, **filters)
            given: dict[str, str] = {}
            if lock_timeout is not None:
                given["acidlib.lock.timeout"] = f"{round(seconds_of(lock_timeout, name='lock-timeout') * 1000)}ms"
            if minor_as_major_bytes is not None:
                most = bytes_of(minor_as_major_bytes, name="minor-as-major-bytes")
                given["acidlib.minor.as.major.bytes"] = str(most)
            if verify is not None:
                given["acidlib.verify"] = verify if isinstance(verify, str) else "all" if verify else "none"
            settings, _ = environment.settings.with_layer(Layer.COMMAND_LINE, given)
            environment = replace(environment, settings=settings)
            try:
                share = parse_verify_share(settings.text("acidlib.verify"))
            except RefusedError as error:
                raise UsageError(error.words) from None
            if release_held and not (selection.tables or selection.location is not None):
                raise UsageError(f"{RELEASE_HELD} is for a named place: give {TABLE} or {LOCATION}")
            if selection.warehouse is not None and not selection.tables:
                raise UsageError(f"{WAREHOUSE} needs {TABLE}, such as 'sales.*'; without both, what waits is done")
            if (is_rebalance or buckets is not None) and not (is_rebalance and selection.tables):
                raise UsageError(f"{REBALANCE} needs {TABLE}, and {BUCKETS} needs {REBALANCE}")
            budget = None if time_budget is None else seconds_of(time_budget, name="time-budget")
            run = CompactionRun(
                kind=KINDS[kind],
                buckets=None if buckets is None else count_of(buckets, name="buckets", least=1, most=MAX_BUCKET + 1),
                selection=selection,
                order=Order(one_of(order, ORDERS, name="order")),
                max_partitions=None
                if max_partitions is None
                else count_of(max_partitions, name="max-partitions", least=0),
                max_bytes=None if max_bytes is None else bytes_of(max_bytes, name="max-bytes"),
                dry_run=issubclass(result, Plan),
                release_held=release_held,
                rewrite=RewriteSettings(part_bytes=settings.integer("acidlib.part.bytes")),
            )
            self._caller.checked()
            from acidlib.runs.compactions import compactions
            from acidlib.runs.open import open_backend
            from acidlib.verify.files import require_reader

            if share is not None:
                require_reader()
            if budget is not None:
                run = replace(run, deadline=self._caller.machine.clock() + budget)
            about = str(named_at(selection.location)) if selection.location else ",".join(selection.tables) or "queue"
            report = RunReport(result, word=call.word)
            with (
                call.services(environment, about=about, may_start_spark=hands_out is None) as services,
                open_backend(environment, services, interpretation) as backend,
            ):
                end = yield from compactions(services, backend, run, report.add, hands_out=hands_out)
            head = call.head(environment, services)
            report.sums.figures["left"] = end.left
            notes = (*end.notes, *filter(None, [end.rest]))
            if selection.idle_seconds is not None and not (run.is_named or report.sums.count):
                notes += (f"{IDLE} chooses among the requests that wait, and there is none; {TABLE} names tables",)
            return report.result(head, notes, is_named=run.is_named, dry_run=run.dry_run, rest=end.rest)

    @verb()
    def initiate(
        self,
        *,
        tables: TextOrTexts = (),
        partitions: TextOrTexts = (),
        exclude: TextOrTexts = (),
        idle: Duration | None = None,
        if_exists: bool = False,
        dry_run: bool = False,
        force: bool = False,
        progress: Shown = None,
    ) -> Decisions:
        """Look at all tables, or those that are named, and queue a compaction for each place over Hive's thresholds.

        dry_run  return the decisions and their reasons; queue nothing (a dry run of `compact` is `plan`)
        force    also queue places in back-off after failed attempts

        The other arguments are those of `compact`.

        >>> lake = acidlib.warehouse(
        ...     "warehouse", all_committed=True, of_each=True, settings={"hive.compactor.delta.num.threshold": "1"}
        ... )
        >>> decisions = lake.initiate()
        >>> decisions.totals.queued
        4
        >>> decisions.places[0].type, decisions.places[0].reason
        ('major', '5 delta directories are more than 1, and there is no base')
        """
        with self._call("initiator", progress=progress) as call:
            environment, selection, interpretation = self._interpreted(
                everything=True, tables=tables, partitions=partitions, exclude=exclude, idle=idle, if_exists=if_exists
            )
            self._caller.checked()
            from acidlib.runs.initiate import run_initiator
            from acidlib.runs.open import open_backend

            about = selection.location or selection.warehouse or ""
            report = RunReport(Decisions, word=call.word)
            with (
                call.services(environment, about=f"initiator {about}".strip()) as services,
                open_backend(environment, services, interpretation) as backend,
            ):

                def add(result: InitiatorResult) -> None:
                    if result.outcome is Outcome.FAILED:
                        services.progress.note(result.reason, level=ERROR, place=str(result.ref))
                    report.add(result)

                with explain_interrupt(report.when_stopped):
                    notes = run_initiator(services, backend, selection, dry_run=dry_run, force=force, tell=add)
            return report.result(call.head(environment, services), notes, dry_run=dry_run)

    @verb()
    def clean(
        self,
        *,
        tables: TextOrTexts = (),
        partitions: TextOrTexts = (),
        exclude: TextOrTexts = (),
        if_exists: bool = False,
        retention: Duration | None = None,
        trash: bool = False,
        force: bool = False,
        dry_run: bool = False,
        progress: Shown = None,
    ) -> Cleanings:
        """Remove the files that recorded compactions made obsolete, once no reader can need them.

        It goes by the requests of the queue; those of a warehouse are the ones at or below its directory.

        retention  how long to keep obsolete files; None = as settings say
        trash      move files to the trash (on HDFS the user's) instead of deleting them
        force      clean although Hive's own cleaner is on; every safety check still applies
        dry_run    return what would be removed; remove nothing

        >>> lake = acidlib.warehouse("warehouse", all_committed=True, of_each=True)
        >>> lake.compact("major", tables="sales.orders").ok
        True
        >>> cleanings = lake.clean(retention="0s")
        >>> cleanings.states, len(cleanings.places[0].removed)
        ({'succeeded': 1}, 5)
        """
        filters = {"tables": tables, "partitions": partitions, "exclude": exclude, "if_exists": if_exists}
        with self._call("cleaner", progress=progress) as call:
            environment, selection = self._to_clean(**filters)
            options = CleanerOptions(
                retention_seconds=None if retention is None else seconds_of(retention, name="retention"),
                selection=selection,
                force=force,
                dry_run=dry_run,
                trash=trash,
            )
            self._caller.checked()
            from acidlib.runs.clean import run_cleaner
            from acidlib.runs.open import open_cleaning

            report = RunReport(Cleanings, word=call.word)
            with call.services(environment, about="cleaner") as services:

                def add(result: CleaningResult) -> None:
                    if result.state.is_bad:
                        services.progress.note(
                            f"{result.state.value}, {result.reason}", level=ERROR, place=str(result.ref)
                        )
                    report.add(result)

                with open_cleaning(environment, services, options) as cleaning:
                    with explain_interrupt(report.when_stopped):
                        run_cleaner(cleaning, add)
                    notes = [*cleaning.notes, *(() if report.sums.count else cleaning.nothing_to_clean_notes())]
            return report.result(call.head(environment, services), notes, dry_run=dry_run)

    @verb()
    def orphans(
        self,
        *,
        tables: TextOrTexts = (),
        partitions: TextOrTexts = (),
        exclude: TextOrTexts = (),
        if_exists: bool = False,
        older_than: Duration | None = None,
        delete: bool = False,
        trash: bool = False,
        dry_run: bool = False,
        progress: Shown = None,
    ) -> Cleanings:
        """List orphans: files that no run and no table owns, such as staging of crashed runs.

        older_than  unchanged for so long; None = three days
        delete      remove them
        trash       move them to the trash, unless `dry_run`

        >>> lake = acidlib.warehouse("warehouse", all_committed=True, of_each=True)
        >>> lake.orphans(older_than="1d").totals.requests
        0
        """
        filters = {"tables": tables, "partitions": partitions, "exclude": exclude, "if_exists": if_exists}
        with self._call("cleaner", progress=progress) as call:
            environment, selection = self._to_clean(**filters)
            if delete and (trash or dry_run):
                raise UsageError(f"{DELETE} excludes {TRASH} and {DRY_RUN}")
            if not environment.metastore and selection.location is None and selection.warehouse is None:
                raise UsageError(f"{ORPHANS} needs {METASTORE_URI}, {WAREHOUSE} or {LOCATION}")
            idle = None if older_than is None else seconds_of(older_than, name="older-than")
            self._caller.checked()
            from acidlib.runs.open import open_backend
            from acidlib.runs.orphans import DEFAULT_ORPHAN_SECONDS, run_orphans

            remove = delete or (trash and not dry_run)
            report = RunReport(Cleanings, word=call.word)
            with (
                call.services(environment, about="orphans") as services,
                open_backend(environment, services, Interpretation()) as backend,
            ):
                notes = run_orphans(
                    services,
                    backend,
                    selection,
                    idle_seconds=DEFAULT_ORPHAN_SECONDS if idle is None else idle,
                    remove=remove,
                    trash=trash,
                    tell=report.add,
                )
            return report.result(call.head(environment, services), notes, dry_run=not remove)

    def _to_clean(self, **filters: Any) -> tuple[Environment, Selection]:
        environment, selection = self._selected(**filters)
        is_filtered = selection.tables or selection.exclude or selection.partitions
        if selection.location is not None:
            require_consistent(selection, everything=False, has_metastore=False)
        elif is_filtered and not environment.metastore and selection.warehouse is None:
            raise UsageError(f"{TABLE}, {EXCLUDE} and {PARTITION} need {METASTORE_URI} or {WAREHOUSE}")
        return environment, selection

    @verb()
    def undo(self, request: int, *, nobody_reads: bool = False, dry_run: bool = False, progress: Shown = None) -> Undo:
        """Take back the result of a compaction, as long as all its inputs still exist.

        request       the number of the compaction in the queue
        nobody_reads  no reader is at work there, which without a metastore only the operator can know
        dry_run       return what would be moved, and what readers would read then; change nothing

        >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
        >>> request = table.compact("major").places[0].id
        >>> undo = acidlib.connect("none").undo(request, nobody_reads=True)
        >>> undo.state.value, undo.place.result
        ('undone', ('base_0000004',))
        """
        return self._undo_of(None, request, nobody_reads=nobody_reads, dry_run=dry_run, progress=progress)

    def _undo_of(
        self, table: Table | None, request: int, *, nobody_reads: bool, dry_run: bool, progress: Shown
    ) -> Undo:
        """Undo a compaction of a table, of any one if it is None; UsageError if the request is of another table."""
        with self._call("undo", progress=progress) as call:
            environment, selection = self._selected()
            if environment.metastore and nobody_reads:
                raise UsageError(f"{NOBODY_READS} is for directories without a metastore, which knows this itself")
            count_of(request, name="request", least=1)
            self._caller.checked()
            from acidlib.runs import undo as service
            from acidlib.runs.open import open_undoing

            with (
                call.services(environment) as services,
                open_undoing(environment, services, dry_run=dry_run) as undoing,
            ):
                if table is not None:
                    table._require_request(undoing.requests.find_own(request), selection.location)
                result = service.undo_compaction(
                    services, undoing, request, user=environment.user, dry_run=dry_run, nobody_reads=nobody_reads
                )
            document = UndoDocument(undo=result)
            return Undo(head=call.head(environment, services), document=document, word=call.word)

    @verb()
    def cancel(self, *requests: int, dry_run: bool = False) -> Cancellations:
        """Withdraw requests that no worker has taken yet, as Hive's ABORT COMPACTIONS does.

        requests  numbers in the queue
        dry_run   return what would be withdrawn; change nothing

        >>> acidlib.connect("none").cancel(17).cancellations[0].reason
        'there is no such request; see queue()'
        """
        with self._call("cancel") as call:
            for request in requests:
                count_of(request, name="request", least=1)
            self._caller.checked()
            from acidlib.runs import cancel as service

            now_ms = int(self._caller.machine.clock() * 1000)
            results = service.cancel_requests(self._environment, requests, now_ms=now_ms, dry_run=dry_run)
            document = CancellationsDocument.of(results)
            return Cancellations(head=call.head(self._environment), document=document, word=call.word)

    @verb()
    def queue(
        self, *, tables: TextOrTexts = (), states: TextOrTexts = (), limit: int | None = None, blockers: bool = False
    ) -> Requests:
        """Return the requests that wait, run or await cleaning, and the history, the newest first.

        states    only requests in these states, such as "failed" or "ready-for-cleaning"
        limit     only the newest so many
        blockers  also the transactions and locks that keep requests from being cleaned

        >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
        >>> table.compact("major").ok
        True
        >>> [(request.id, request.state) for request in acidlib.connect("none").queue().requests]
        [(1, 'ready for cleaning')]
        """
        with self._call("show_compactions") as call:
            environment, tables, states = self._environment, texts(tables), texts(states)
            check_filters(tables, (), ())
            for state in states:
                one_of(state, STATES, name="state")
            if limit is not None:
                count_of(limit, name="limit", least=1)
            if blockers and not environment.metastore:
                raise UsageError(f"{BLOCKERS} needs a metastore: without it readers are not known")
            self._caller.checked()
            from acidlib.runs.open import open_queued
            from acidlib.status.look import blockers as blockers_of

            selection = Selection(tables=tables)
            with open_queued(environment) as queued:
                everything, calls, hms = queued.requests, queued.calls, queued.hms
                wanted = (row for row in everything if selection.wants_table(row.ref.as_stored))
                # states have the words of Hive 4, whatever the queue
                rows = [row for row in wanted if not states or state_of(row, OWN_QUEUE).replace(" ", "-") in states]
                rows = rows[:limit]
                now_ms = int(self._caller.machine.clock() * 1000)
                head = call.head(environment)
                document = RequestsDocument(
                    compactions=tuple(shown_request(row, calls) for row in rows),
                    blockers=tuple(map(shown_blocker, blockers_of(hms, rows, now_ms)))
                    if blockers and hms is not None
                    else UNSET,
                    totals=RequestTotals(compactions=len(rows)),
                )
            return Requests(
                head=head,
                document=document,
                word=call.word,
                rows=tuple(rows),
                calls=calls,
                now_ms=now_ms,
                of=len(everything),
            )

    @verb()
    def files(
        self,
        *,
        tables: TextOrTexts = (),
        partitions: TextOrTexts = (),
        exclude: TextOrTexts = (),
        idle: Duration | None = None,
        if_exists: bool = False,
        progress: Shown = None,
    ) -> Places:
        """Return the directories of places: those that readers read, those that are obsolete or ignored, and why.

        >>> lake = acidlib.warehouse("warehouse", all_committed=True, of_each=True)
        >>> [place.table for place in lake.files().places]
        ['orders', 'visits', 'visits', 'visits']
        """
        with self._call("show_place", progress=progress) as call:
            environment, selection, interpretation = self._interpreted(
                everything=True, tables=tables, partitions=partitions, exclude=exclude, idle=idle, if_exists=if_exists
            )
            self._caller.checked()
            from acidlib.runs.open import open_backend
            from acidlib.status.show_place import show_places

            with (
                call.services(environment) as services,
                open_backend(environment, services, interpretation) as backend,
            ):
                shown, notes = show_places(services, backend, selection)
            return Places(
                head=Head(job="show_place", version=__version__), document=shown, left_out=notes, word=call.word
            )

    @verb()
    def doctor(self, *, locations: TextOrTexts = ()) -> Checks:
        """Check that jobs can work here: Java, Python, Spark, kernels, executors, metastore, clocks, rights, stores.

        locations  directories of tables to check besides the metastore's warehouse, and besides that of the lake

        >>> checks = acidlib.connect("none").doctor(locations="warehouse")
        >>> [check.name for check in checks.checks if check.state == "wrong"]
        []
        """
        with self._call("doctor") as call:
            environment, machine = self._environment, self._caller.machine
            self._caller.checked()
            from acidlib.status.doctor import checks

            with ExitStack() as stack:

                def session() -> Runner:
                    return stack.enter_context(machine.session(name=f"{environment.host}-doctor", conf=_UNCHANGED))

                own = filter(None, (self._directories.location, self._directories.warehouse))
                made = checks(
                    environment,
                    (*own, *texts(locations)),
                    session=session,
                    master=lambda: stated_spark_options(os.environ).master,
                    stores=stores_of(environment, machine),
                    clock=machine.clock,
                    unique=lambda: uuid.uuid4().hex[:16],
                )
                document = ChecksDocument.of(list(made))
            return Checks(head=Head(job="doctor", version=__version__), document=document, word=call.word)

    @verb()
    def probe(self, uri: str | Path, *, progress: Shown = None) -> Probe:
        """Try all that a store has to promise, in a folder that is made below a directory, and removed; a minute.

        uri  a directory above tables. A record stays there: `_acidlib_probe.json`, which readers pass over

        Raises RetryError and CorruptError where the folder cannot be made.

        >>> probe = acidlib.connect("none").probe("warehouse")
        >>> probe.ok, [promise.name for promise in probe.promises if promise.state != "holds"]
        (True, ['synced bytes last'])
        """
        with self._call("probe", progress=progress) as call:
            self._caller.checked()
            from acidlib.stores.probe import folders_left, is_in_table, try_promises
            from acidlib.stores.probe_records import RECORD, write_probe_record
            from acidlib.stores.store import PROBE

            stores = stores_of(self._environment, self._caller.machine)
            location, now_ms = stores.locate(str(uri)), int(self._caller.machine.clock() * 1000)
            store, shown = stores.store(location), self._caller.progress(call.run, progress, word=call.word)
            unique = uuid.uuid4().hex[:16]
            for left in folders_left(store, location):
                shown.note(f"{left} is of another probe; remove it if that was killed", level=WARNING)
            shown.note(f"works in {location.child(f'{PROBE}.{unique}')}, and removes it at the end")
            tried = list(try_promises(store, location, unique=unique, note=shown.note))
            document = ProbeDocument.of(
                tried,
                location=str(location),
                kind=str(location.kind),
                authority=location.authority,
                time_ms=now_ms,
            )
            unrecorded = ""
            try:
                write_probe_record(store, location, document)
                shown.note(f"the record is {location.child(RECORD)}")
            except AcidError as error:  # what was tried is known all the same
                unrecorded = error.words
                shown.note(unrecorded, level=ERROR)
            if is_in_table(store, location):
                shown.note("it lies in a table, where no record counts: probe a directory above it", level=WARNING)
            head = Head(job="probe", version=__version__)
            return Probe(head=head, document=document, unrecorded=unrecorded, word=call.word)

    @verb()
    def status(
        self,
        *,
        tables: TextOrTexts = (),
        partitions: TextOrTexts = (),
        exclude: TextOrTexts = (),
        if_exists: bool = False,
        places: int = 1000,
        fail_on: Literal["warning", "error", "never"] = "warning",
        metrics_file: str | Path | None = None,
        progress: Shown = None,
    ) -> Status:
        """Return the state of all tables, and each problem; change nothing.

        places        list at most so many places, those with requests first; 0: none
        fail_on       the level of problems from which the result is not ok: "warning", "error" or "never"
        metrics_file  where to write metrics for node exporter, a name that ends in .prom

        >>> lake = acidlib.warehouse("warehouse", all_committed=True, of_each=True)
        >>> status = lake.status()
        >>> status.level.value, [finding.trouble.value for finding in status.findings]
        ('ok', [])
        """
        filters = {"tables": tables, "partitions": partitions, "exclude": exclude, "if_exists": if_exists}
        with self._call("status", progress=progress) as call:
            if metrics_file is not None and not str(metrics_file).endswith(".prom"):
                raise UsageError(f"{METRICS_FILE} has to end in .prom: node exporter passes over other names")
            environment, selection = self._selected(**filters)
            stated = stated_of(environment, selection, self._directories)
            count_of(places, name="places", least=0)
            one_of(fail_on, FAIL_ON, name="fail-on")
            self._caller.checked()
            from acidlib.status.look import read_status
            from acidlib.status.metrics import Look, require_metrics, write_metrics

            if metrics_file is not None:
                require_metrics(str(metrics_file))
            with call.services(environment, about="status") as services:
                looked_ms = services.now_ms()
                seen = read_status(
                    environment, services, selection, Interpretation(write_ids=stated), most_places=places
                )
            seconds = services.clock() - looked_ms / 1000
            if metrics_file is not None:
                most = environment.settings.integer("acidlib.status.metrics.tables")
                looked = Look(status=replace(seen, tables=seen.tables[:most]), ms=looked_ms, seconds=seconds)
                self._caller.write(partial(write_metrics, looked, str(metrics_file)))
            return Status(head=call.head(environment, services), document=seen, fail_on=fail_on, word=call.word)

    def _snapshot(
        self,
        table: str | None,
        *,
        columns: Iterable[str] | None = None,
        where: str | None = None,
        row_ids: bool = False,
        partitions: TextOrTexts = (),
        exact: bool = True,
        spark: Any = None,
    ) -> Snapshot:
        """Open a snapshot of a table, or of the directory that was named; see `Table.snapshot`.

        spark  a session, whose properties of Hadoop count, too
        """
        with self._caller.verb(self._word):
            tables = () if table is None else (table,)
            environment, selection, interpretation = self._interpreted(
                everything=True, spark=spark, tables=tables, partitions=partitions
            )
            if isinstance(columns, str):
                raise UsageError(f"Cannot read the columns {columns!r}: give a list of names")
            self._caller.checked()
            from acidlib.runs.snapshot import location_in, open_snapshot
            from acidlib.scan.wanted import Wanted

            stores, word = stores_of(environment, self._caller.machine_of(spark)), self._caller.word(self._word)
            place: TableRef | Location | None = selection.location
            if place is None:
                assert table is not None
                place = TableRef(*table.lower().split(".", 1))
                if selection.warehouse is not None:
                    place = location_in(environment, stores, selection.warehouse, place)
            return open_snapshot(
                environment,
                stores,
                place,
                Wanted(
                    columns=None if columns is None else tuple(columns),
                    where=where,
                    row_ids=row_ids,
                    partitions=selection.partitions,
                    exact=exact,
                ),
                interpretation=interpretation,
                note=lambda text: logging.getLogger("acidlib").warning("%s", said(text, word)),
                pause=self._caller.machine.pause,
            )


class Table:
    """One table, by its name in a lake or by its directory; `Lake.table` and `directory` make one.

    >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
    >>> table
    <Table: warehouse/sales.db/orders>
    """

    def __init__(self, lake: Lake, name: str | None = None) -> None:
        self._lake = lake
        self._name = name

    def __repr__(self) -> str:
        return f"<Table: {self._shown}>"

    @property
    def _shown(self) -> str:
        return self._name or repr(self._lake)[7:-1]

    @property
    def _tables(self) -> tuple[str, ...]:
        return () if self._name is None else (self._name,)

    @verb(CompactionOptions)
    def plan(self, kind: CompactionKind, **options: Unpack[CompactionOptions]) -> Plan:
        """Return the plan of a compaction, and change nothing; its arguments are those of `compact`.

        >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
        >>> plan = table.plan("major")
        >>> plan.places[0].reason, plan.places[0].output_directories
        ('as requested', ('base_0000004',))
        >>> [(action.action, action.reason) for action in (plan.places[0].files or ())[0].actions][:1]
        [('rewrite', 'rows to leave out: 2 deleted; small (2 of 3 stripes)')]
        """
        return self._lake.plan(kind, tables=self._tables, **options)

    @verb(CompactionOptions)
    def compact(self, kind: CompactionKind, **options: Unpack[CompactionOptions]) -> Compactions:
        """Compact the table, or the partitions that are named.

        kind     "major", "minor", or "rebalance" (Hive 4)
        options  see `CompactionOptions`

        `plan` is the dry run.

        >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
        >>> result = table.compact("major", max_bytes="100g", verify="sample=0.1")
        >>> result.ok, result.places[0].state.value, result.places[0].rows_out
        (True, 'ready for cleaning', 4)
        >>> result.to_arrow().column("output_directories").to_pylist()
        [['base_0000004']]
        """
        return self._lake.compact(kind, tables=self._tables, **options)

    @verb(CompactionOptions)
    def compaction(self, kind: CompactionKind, **options: Unpack[CompactionOptions]) -> CompactionJob:
        """Return a compaction whose tasks the program runs itself, in whatever pool it has; see `CompactionJob`.

        The arguments are those of `compact`. Raises as that does once the job is entered.

        >>> table = acidlib.directory("warehouse/sales.db/visits", all_committed=True)
        >>> with table.compaction("minor", partitions="dt=2024-01-01") as job:
        ...     print(len(job.plan.tasks), job.plan.tasks[0].where.rpartition("/")[2])
        ...     print(job.plan.places[0].type, job.plan.places[0].output_directories)
        1 bucket_00000
        major ('base_0000006',)
        """
        from acidlib.api.compaction import CompactionJob

        plans: list[PlacePlan] = []
        steps = self._lake._compacting(Compactions, kind, hands_out=plans.append, tables=self._tables, **options)
        word = self._lake._caller.word(self._lake._word)
        return CompactionJob(steps, plans, about=f"{kind} of {self._shown}", word=word)

    @verb()
    def clean(
        self,
        *,
        partitions: TextOrTexts = (),
        if_exists: bool = False,
        retention: Duration | None = None,
        trash: bool = False,
        force: bool = False,
        dry_run: bool = False,
        progress: Shown = None,
    ) -> Cleanings:
        """Remove the files that compactions of the table made obsolete, once no reader can need them.

        The arguments are those of `Lake.clean`.

        >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
        >>> table.compact("major").ok, table.clean(retention="0s").states
        (True, {'succeeded': 1})
        """
        return self._lake.clean(
            tables=self._tables,
            partitions=partitions,
            if_exists=if_exists,
            retention=retention,
            trash=trash,
            force=force,
            dry_run=dry_run,
            progress=progress,
        )

    @verb()
    def files(
        self,
        *,
        partitions: TextOrTexts = (),
        idle: Duration | None = None,
        if_exists: bool = False,
        progress: Shown = None,
    ) -> Places:
        """Return the directories of the table: those that readers read, those that are obsolete or ignored, and why.

        >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
        >>> [(part.path, part.reader) for part in table.files().places[0].parts][-1]
        ('delta_0000003_0000003_0000', 'read')
        """
        return self._lake.files(
            tables=self._tables, partitions=partitions, idle=idle, if_exists=if_exists, progress=progress
        )

    @verb()
    def snapshot(
        self,
        *,
        columns: Iterable[str] | None = None,
        where: str | None = None,
        row_ids: bool = False,
        partitions: TextOrTexts = (),
    ) -> Snapshot:
        """Open a snapshot of the rows as they are now, a context manager: the files that it needs stay until its end.

        columns     names in the order of the result; None = all, partition keys last
        where       a condition on rows, in the SQL that Hive and Spark understand alike; partitions, files and stripes
                    that hold no such row are not read
        row_ids     with a first column `row__id`, the struct of Hive's ROW__ID
        partitions  `key=glob`, as of the other verbs

        With a metastore a shared lock is held until then. A directory has none: only the cleaner's retention keeps
        files that compactions replace.

        Raises UsageError for a column that does not exist or a condition that is not understood, MissingError for a
        table that does not exist, RefusedError for one that is not ACID, ConflictError where the lock is not granted
        within `acidlib.read.lock.timeout` (30 seconds). After an error nothing is locked.

        >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
        >>> with table.snapshot(columns=["id"], where="id > 1") as snapshot:
        ...     snapshot.to_arrow().num_rows
        3
        """
        return self._lake._snapshot(self._name, columns=columns, where=where, row_ids=row_ids, partitions=partitions)

    @verb()
    def to_arrow(
        self,
        *,
        columns: Iterable[str] | None = None,
        where: str | None = None,
        row_ids: bool = False,
        partitions: TextOrTexts = (),
    ) -> pyarrow.Table:
        """Return the rows of one snapshot, read in this process: for what fits into its memory.

        The arguments are those of `snapshot`. Raises ConflictError if the snapshot's lock is lost while it is read.

        >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
        >>> table.to_arrow(columns=["id"], where="id > 1").num_rows
        3
        """
        with (
            self.snapshot(columns=columns, where=where, row_ids=row_ids, partitions=partitions) as snapshot,
            self._lake._caller.verb(self._lake._word),
        ):
            return snapshot.to_arrow()

    @verb()
    def read(
        self,
        spark: SparkSession,
        *,
        columns: Iterable[str] | None = None,
        where: str | None = None,
        row_ids: bool = False,
        partitions: TextOrTexts = (),
    ) -> DataFrame:
        """Return the rows of one snapshot as a DataFrame of a session, whose executors read them.

        spark  a session of this driver; its configuration is not changed

        The other arguments are those of `snapshot`; Spark applies `where` itself, so it may be anything that Spark
        understands, and what is a comparison with a literal in it leaves out partitions, files and stripes. A time
        without zone is TIMESTAMP_NTZ.

        The snapshot is held as long as Spark can read it: until the DataFrame, and every DataFrame, cache, view and RDD
        made of it, has been collected as garbage. For an end at a known moment use `snapshot` and its `read`.

        Raises as `snapshot` does, UsageError for a condition that Spark does not accept, and RefusedError for a session
        that cannot run tasks, or whose executors do not have this package.
        """
        from acidlib.spark.read import held_dataframe

        names = columns if columns is None or isinstance(columns, str) else tuple(columns)
        opened = partial(
            self._lake._snapshot,
            self._name,
            columns=names,
            where=where,
            row_ids=row_ids,
            partitions=partitions,
            exact=False,
            spark=spark,
        )
        return held_dataframe(spark, opened, columns=names, where=where)

    @verb()
    def undo(self, request: int, *, nobody_reads: bool = False, dry_run: bool = False, progress: Shown = None) -> Undo:
        """Take back the result of a compaction of the table; the arguments are those of `Lake.undo`.

        >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
        >>> request = table.compact("major").places[0].id
        >>> table.undo(request, nobody_reads=True).state.value
        'undone'
        """
        return self._lake._undo_of(self, request, nobody_reads=nobody_reads, dry_run=dry_run, progress=progress)

    def _require_request(self, request: CompactionRequest, location: Location | None) -> None:
        """Raise UsageError unless a request is of this table, which is at the location if it has no name."""
        place = request.facts.location
        if self._name is not None:
            is_own = str(request.ref.whole_table) == self._name.lower()
        else:
            is_own = location is not None and place is not None and location.holds(place)
        if not is_own:
            name = self._name or str(location)
            raise UsageError(f"Cannot undo request {request.id} as one of {name}: it is of {request.ref}")
