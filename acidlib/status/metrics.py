"""The status as metrics, by Prometheus' conventions: a file for node exporter.

Every metric is a gauge, for each run looks anew. An unknown figure has no sample, so that no alert depends on a zero
that was never counted. Hive's and Cloudera's names stand beside ours in docs/monitoring.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from acidlib.errors import RefusedError, RetryError
from acidlib.model.status import Level, StateFigures, StatusDocument, TableFigures, Transaction, Transactions
from acidlib.report.html import require_writable
from acidlib.report.text import json_characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A status, with the beginning (epoch milliseconds) and the duration of the look at it.

    status  its `tables` are those that get metrics of their own
    """

    status: StatusDocument
    ms: int
    seconds: float


Sample = tuple[tuple[str, ...], float | None]
"""The values of the labels, and the value."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, with its samples in a status.

    hive  the name of the same metric in Hive's metastore and in Cloudera's products; empty where there is none
    """

    name: str
    help: str
    samples: Callable[[Look], Iterable[Sample]]
    labels: tuple[str, ...] = ()
    hive: str = ""


def require_metrics(path: str) -> None:
    """Raise RefusedError where no metrics can be written to a path, as far as that shows before the status is read."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise RefusedError(
            "Cannot make metrics: prometheus_client is not installed; pip install 'acidlib[metrics]'"
        ) from None
    require_writable(Path(path), what="the metrics")


def write_metrics(look: Look, path: str) -> None:
    """Write the metrics of a status as a whole or not at all, for node exporter's textfile collector."""
    from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

    registry = CollectorRegistry()
    for metric in METRICS:
        samples = [(labels, value) for labels, value in metric.samples(look) if value is not None]
        if not samples:
            continue
        gauge = Gauge(metric.name, metric.help, labelnames=metric.labels, registry=registry)
        for labels, value in samples:
            # names of tables may hold what a terminal interprets, or no UTF-8 can write
            (gauge.labels(*map(json_characters, labels)) if labels else gauge).set(value)
    try:
        write_to_textfile(path, registry)
    except OSError as error:
        raise RetryError(f"Cannot write the metrics to {path}: {error.strerror or error}") from error


FigureOf = Callable[[TableFigures], float | None]


def _totals(value: FigureOf) -> Callable[[Look], Iterable[Sample]]:
    return lambda look: [((), value(look.status.totals))]


def _each_table(value: FigureOf) -> Callable[[Look], Iterable[Sample]]:
    return lambda look: [((table.database or "", table.table or ""), value(table)) for table in look.status.tables]


def _transactions(value: Callable[[Transactions], float | None]) -> Callable[[Look], Iterable[Sample]]:
    """Return a function that reads a figure of transactions: None without a metastore."""
    return lambda look: [((), None if look.status.transactions is None else value(look.status.transactions))]


def _age(txn: Transaction | None) -> float | None:
    return None if txn is None else txn.age


def _findings(look: Look) -> Iterable[Sample]:
    return Counter((_word(finding.trouble), finding.level.value) for finding in look.status.findings).items()


def _requests(figure: Callable[[StateFigures], float | None]) -> Callable[[Look], Iterable[Sample]]:
    return lambda look: [((_word(state.state),), figure(state)) for state in look.status.totals.requests]


def _table_requests(look: Look) -> Iterator[Sample]:
    for table in look.status.tables:
        for state in table.requests:
            if state.count:
                yield (table.database or "", table.table or "", _word(state.state)), state.count


def _word(name: str) -> str:
    return name.replace(" ", "_")


def _level(figures: TableFigures) -> float:
    return figures.level.rank


def _most_deltas(figures: TableFigures) -> float | None:
    """Return the deltas of the worst place; 0 where places were listed and it is 0 at all of them."""
    return figures.most_deltas[0].deltas if figures.most_deltas else _none_of(figures)


def _worst_ratio(figures: TableFigures) -> float | None:
    return figures.worst_ratio[0].ratio if figures.worst_ratio else _none_of(figures)


def _none_of(figures: TableFigures) -> float | None:
    return None if figures.obsolete_bytes is None else 0


_LEVELS = ", ".join(f"{level.rank} {level.value}" for level in Level)
_TABLE = ("database", "table")

METRICS: tuple[Metric, ...] = (
    Metric("acidlib_status_level", f"The worst finding: {_LEVELS}.", _totals(_level)),
    Metric(
        "acidlib_status_timestamp_seconds",
        "When it was looked, in seconds since 1970.",
        lambda look: [((), look.ms / 1000)],
    ),
    Metric("acidlib_status_duration_seconds", "How long the look took.", lambda look: [((), look.seconds)]),
    Metric("acidlib_findings", "Findings of each kind of trouble and level.", _findings, ("trouble", "level")),
    Metric(
        "acidlib_requests",
        "Requests of the queue and the history in each state.",
        _requests(lambda state: state.count),
        ("state",),
        hive="compaction_num_initiated, compaction_num_working, compaction_num_ready_for_cleaning, "
        "compaction_num_failed, compaction_num_succeeded, compaction_num_did_not_initiate",
    ),
    Metric(
        "acidlib_oldest_request_age_seconds",
        "For how long the oldest request has been in its state.",
        _requests(lambda state: state.oldest_age),
        ("state",),
        hive="compaction_oldest_enqueue_age_in_sec, compaction_oldest_working_age_in_sec, "
        "oldest_ready_for_cleaning_age_in_sec",
    ),
    Metric(
        "acidlib_failed_in_a_row",
        "The most failures in a row at one place.",
        _totals(lambda totals: totals.failed_in_a_row),
    ),
    Metric(
        "acidlib_refused_in_a_row",
        "The most refusals in a row at one place.",
        _totals(lambda totals: totals.refused_in_a_row),
    ),
    Metric(
        "acidlib_cleaning_blockers",
        "Transactions and locks that requests wait for, counted for each request.",
        lambda look: [((), look.status.totals.blockers if look.status.transactions else None)],
    ),
    Metric(
        "acidlib_open_transactions",
        "Open transactions of the metastore.",
        _transactions(lambda txns: txns.open),
        hive="num_open_non_repl_transactions, num_open_repl_transactions",
    ),
    Metric(
        "acidlib_oldest_open_transaction_age_seconds",
        "For how long the oldest of them has been open.",
        _transactions(lambda txns: _age(txns.oldest_open)),
        hive="oldest_open_non_repl_txn_age_in_sec, oldest_open_repl_txn_age_in_sec",
    ),
    Metric(
        "acidlib_aborted_transactions",
        "Aborted transactions that the metastore remembers.",
        _transactions(lambda txns: txns.aborted),
        hive="num_aborted_transactions",
    ),
    Metric(
        "acidlib_oldest_aborted_transaction_age_seconds",
        "How long ago the oldest of them was begun.",
        _transactions(lambda txns: _age(txns.oldest_aborted)),
        hive="oldest_aborted_txn_age_in_sec",
    ),
    Metric(
        "acidlib_aborted_write_ids",
        "Aborted write ids that the metastore remembers, of all tables.",
        _totals(lambda totals: totals.aborted_write_ids),
    ),
    Metric("acidlib_places", "Tables and partitions that are known.", _totals(lambda totals: totals.places)),
    Metric(
        "acidlib_places_looked_at",
        "Of these, how many were listed: the metrics of deltas and of obsolete bytes are about them.",
        _totals(lambda totals: totals.looked_at),
    ),
    Metric(
        "acidlib_deltas_max",
        "The most deltas at one place.",
        _totals(_most_deltas),
        hive="compaction_num_active_deltas",
    ),
    Metric(
        "acidlib_delta_base_ratio_max",
        "The most bytes of deltas for each byte of a base, at one place.",
        _totals(_worst_ratio),
    ),
    Metric("acidlib_obsolete_bytes", "Bytes that wait for cleaning.", _totals(lambda totals: totals.obsolete_bytes)),
    Metric(
        "acidlib_table_status_level",
        f"The worst finding of a table: {_LEVELS}.",
        _each_table(_level),
        _TABLE,
    ),
    Metric(
        "acidlib_table_requests",
        "Requests of a table in each state that some are in.",
        _table_requests,
        (*_TABLE, "state"),
    ),
    Metric("acidlib_table_deltas_max", "The most deltas at one place of a table.", _each_table(_most_deltas), _TABLE),
    Metric(
        "acidlib_table_delta_base_ratio_max",
        "The most bytes of deltas for each byte of a base, at one place of a table.",
        _each_table(_worst_ratio),
        _TABLE,
    ),
    Metric(
        "acidlib_table_obsolete_bytes",
        "Bytes of a table that wait for cleaning.",
        _each_table(lambda table: table.obsolete_bytes),
        _TABLE,
    ),
    Metric(
        "acidlib_table_aborted_write_ids",
        "Aborted write ids of a table.",
        _each_table(lambda table: table.aborted_write_ids),
        _TABLE,
        hive="tables_with_x_aborted_transactions counts those with many",
    ),
)
