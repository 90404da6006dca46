"""The status as metrics, by Prometheus' conventions: a file for node exporter.

Every metric is a gauge, for each run looks anew. What is not known has no sample, so that no alert goes by a zero that
nobody counted. Hive's and Cloudera's names stand beside ours in docs/monitoring.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acidlib.errors import RefusedError, RetryError
from acidlib.model.names import Generation
from acidlib.model.requests import State
from acidlib.planning.health import Figures, Level, Status

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


Sample = tuple[tuple[str, ...], float | None]
"""The values of the labels, and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric; `hive` is what Hive's metastore calls the same, and Cloudera with it; empty where it has none."""

    name: str
    help: str
    samples: Callable[[Run], Iterable[Sample]]
    labels: tuple[str, ...] = ()
    hive: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the metrics are made of: a status, when it was looked at (epoch seconds) and for how long.

    most_tables  of the tables so many, the worst first, have metrics of their own
    """

    status: Status
    generation: Generation
    began: float
    seconds: float
    most_tables: int

    @property
    def tables(self) -> tuple[Figures, ...]:
        """The tables that have metrics of their own."""
        return self.status.tables[: self.most_tables]


def registry_of(run: Run) -> CollectorRegistry:
    """All metrics of a run. RefusedError where the library for it is not installed."""
    client = _client()
    registry: CollectorRegistry = client.CollectorRegistry()
    for metric in METRICS:
        samples = [(labels, value) for labels, value in metric.samples(run) if value is not None]
        if not samples:
            continue
        gauge = client.Gauge(metric.name, metric.help, labelnames=metric.labels, registry=registry)
        for labels, value in samples:
            (gauge.labels(*labels) if labels else gauge).set(value)
    return registry


def write_file(registry: CollectorRegistry, path: str) -> None:
    """Write the file as a whole or not at all, for node exporter's textfile collector."""
    try:
        _client().write_to_textfile(path, registry)
    except OSError as error:
        raise RetryError(f"Cannot write the metrics to {path}: because {error.strerror or error}") from error


def _client() -> Any:
    try:
        import prometheus_client
    except ImportError:
        raise RefusedError(
            "Cannot make metrics: because prometheus_client is not installed; pip install 'acidlib[metrics]'"
        ) from None
    return prometheus_client


def _one(value: Callable[[Run], float | None]) -> Callable[[Run], Iterable[Sample]]:
    return lambda run: [((), value(run))]


def _totals(value: Callable[[Figures], float | None]) -> Callable[[Run], Iterable[Sample]]:
    return lambda run: [((), value(run.status.totals))]


def _each_table(value: Callable[[Figures], float | None]) -> Callable[[Run], Iterable[Sample]]:
    return lambda run: [(_names(one), value(one)) for one in run.tables]


def _names(one: Figures) -> tuple[str, str]:
    return ("", "") if one.ref is None else one.ref[:2]


def _findings(run: Run) -> Iterator[Sample]:
    counts: dict[tuple[str, ...], int] = {}
    for one in run.status.findings:
        key = (one.trouble.value.replace(" ", "_"), one.level.label)
        counts[key] = counts.get(key, 0) + 1
    yield from counts.items()


def _requests(run: Run) -> Iterator[Sample]:
    for state in State:
        yield (_state(state, run),), run.status.totals.requests[state].count


def _ages(run: Run) -> Iterator[Sample]:
    for state in (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING):
        yield (_state(state, run),), run.status.totals.requests[state].oldest


def _table_requests(run: Run) -> Iterator[Sample]:
    for one in run.tables:
        for state in State:
            if one.requests[state].count:
                yield (*_names(one), _state(state, run)), one.requests[state].count


def _state(state: State, run: Run) -> str:
    return state.label_of(run.generation).replace(" ", "_")


def _most_deltas(one: Figures) -> float | None:
    return one.most_deltas[0].deltas if one.most_deltas else _none_of(one)


def _none_of(one: Figures) -> float | None:
    """What there is none of, where somebody has looked."""
    return 0 if one.obsolete_bytes is not None else None


def _worst_ratio(one: Figures) -> float | None:
    return one.worst_ratio[0].ratio if one.worst_ratio else _none_of(one)


def _level(one: Figures) -> float:
    return int(one.level)


_LEVELS = ", ".join(f"{int(level)} {level.label}" for level in Level)
_TABLE = ("database", "table")

METRICS: tuple[Metric, ...] = (
    Metric(name="acidlib_status_level", help=f"The worst finding: {_LEVELS}.", samples=_totals(_level)),
    Metric(
        name="acidlib_status_timestamp_seconds",
        help="When it was looked, in seconds since 1970.",
        samples=_one(lambda run: run.began),
    ),
    Metric(
        name="acidlib_status_duration_seconds", help="How long the look took.", samples=_one(lambda run: run.seconds)
    ),
    Metric(
        name="acidlib_findings",
        help="Findings of each kind of trouble and level.",
        labels=("trouble", "level"),
        samples=_findings,
    ),
    Metric(
        name="acidlib_requests",
        help="Requests of the queue and the history in each state.",
        labels=("state",),
        samples=_requests,
        hive="compaction_num_initiated, compaction_num_working, compaction_num_ready_for_cleaning, "
        "compaction_num_failed, compaction_num_succeeded, compaction_num_did_not_initiate",
    ),
    Metric(
        name="acidlib_oldest_request_age_seconds",
        help="For how long the oldest request has been in its state.",
        labels=("state",),
        samples=_ages,
        hive="compaction_oldest_enqueue_age_in_sec, compaction_oldest_working_age_in_sec, "
        "oldest_ready_for_cleaning_age_in_sec",
    ),
    Metric(
        name="acidlib_failed_in_a_row",
        help="The most failures in a row at one place.",
        samples=_totals(lambda one: one.failed),
    ),
    Metric(
        name="acidlib_refused_in_a_row",
        help="The most refusals in a row at one place.",
        samples=_totals(lambda one: one.refused),
    ),
    Metric(
        name="acidlib_cleaning_blockers",
        help="Transactions and locks that requests wait for, counted for each request.",
        samples=_one(lambda run: None if run.status.open_count is None else run.status.totals.blockers),
    ),
    Metric(
        name="acidlib_open_transactions",
        help="Open transactions of the metastore.",
        samples=_one(lambda run: run.status.open_count),
        hive="num_open_non_repl_transactions, num_open_repl_transactions",
    ),
    Metric(
        name="acidlib_oldest_open_transaction_age_seconds",
        help="For how long the oldest of them has been open.",
        samples=_one(lambda run: None if run.status.oldest_open is None else run.status.oldest_open.age),
        hive="oldest_open_non_repl_txn_age_in_sec, oldest_open_repl_txn_age_in_sec",
    ),
    Metric(
        name="acidlib_aborted_transactions",
        help="Aborted transactions that the metastore remembers.",
        samples=_one(lambda run: run.status.aborted_count),
        hive="num_aborted_transactions",
    ),
    Metric(
        name="acidlib_oldest_aborted_transaction_age_seconds",
        help="How long ago the oldest of them was begun.",
        samples=_one(lambda run: None if run.status.oldest_aborted is None else run.status.oldest_aborted.age),
        hive="oldest_aborted_txn_age_in_sec",
    ),
    Metric(
        name="acidlib_aborted_write_ids",
        help="Aborted write ids that the metastore remembers, of all tables.",
        samples=_totals(lambda one: one.aborted_write_ids),
    ),
    Metric(
        name="acidlib_places", help="Tables and partitions that are known.", samples=_totals(lambda one: one.places)
    ),
    Metric(
        name="acidlib_places_looked_at",
        help="Of these, how many were listed: the metrics of deltas and of what is obsolete are about them.",
        samples=_totals(lambda one: one.looked_at),
    ),
    Metric(
        name="acidlib_deltas_max",
        help="The most deltas at one place.",
        samples=_totals(_most_deltas),
        hive="compaction_num_active_deltas",
    ),
    Metric(
        name="acidlib_delta_base_ratio_max",
        help="The most bytes of deltas for each byte of a base, at one place.",
        samples=_totals(_worst_ratio),
    ),
    Metric(
        name="acidlib_obsolete_bytes",
        help="Bytes that wait for cleaning.",
        samples=_totals(lambda one: one.obsolete_bytes),
    ),
    Metric(
        name="acidlib_table_status_level",
        help=f"The worst finding of a table: {_LEVELS}.",
        labels=_TABLE,
        samples=_each_table(_level),
    ),
    Metric(
        name="acidlib_table_requests",
        help="Requests of a table in each state that some are in.",
        labels=(*_TABLE, "state"),
        samples=_table_requests,
    ),
    Metric(
        name="acidlib_table_deltas_max",
        help="The most deltas at one place of a table.",
        labels=_TABLE,
        samples=_each_table(_most_deltas),
    ),
    Metric(
        name="acidlib_table_delta_base_ratio_max",
        help="The most bytes of deltas for each byte of a base, at one place of a table.",
        labels=_TABLE,
        samples=_each_table(_worst_ratio),
    ),
    Metric(
        name="acidlib_table_obsolete_bytes",
        help="Bytes of a table that wait for cleaning.",
        labels=_TABLE,
        samples=_each_table(lambda one: one.obsolete_bytes),
    ),
    Metric(
        name="acidlib_table_aborted_write_ids",
        help="Aborted write ids of a table.",
        labels=_TABLE,
        samples=_each_table(lambda one: one.aborted_write_ids),
        hive="tables_with_x_aborted_transactions counts those with many",
    ),
)
