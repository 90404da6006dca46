"""The limits of the status, out of the settings."""

from __future__ import annotations

from acidlib.planning.health import Limit, Limits
from acidlib.settings import Settings


def limits_of(settings: Settings, *, silent_seconds: float | None = None) -> Limits:
    """The limits that are set; `silent_seconds` is the timeout of transactions, where a metastore tells it."""

    def times(warning: str | None = None, error: str | None = None) -> Limit:
        return _limit(settings, warning, error, scale=1000)

    def numbers(warning: str | None = None, error: str | None = None) -> Limit:
        return _limit(settings, warning, error, scale=1)

    return Limits(
        initiated=times(
            "metastore.compactor.oldest.initiated.compaction.time.threshold.warning",
            "metastore.compactor.oldest.initiated.compaction.time.threshold.error",
        ),
        working=times("acidlib.status.working.threshold", "hive.compactor.worker.timeout"),
        uncleaned=times("metastore.compactor.oldest.uncleaned.compaction.time.threshold"),
        open_txn=times(
            "metastore.compactor.oldest.open.txn.threshold.warning",
            "metastore.compactor.oldest.open.txn.threshold.error",
        ),
        aborted_txn=times(
            "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.warning",
            "metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.error",
        ),
        rolled_back=(
            numbers("hive.compactor.abortedtxn.threshold"),
            times("hive.compactor.aborted.txn.time.threshold"),
        ),
        failure_ratio=numbers("metastore.compactor.failed.compaction.ratio.threshold"),
        failed_in_a_row=numbers(None, "metastore.compactor.initiator.failed.compacts.threshold"),
        refused_in_a_row=numbers("acidlib.status.refused.threshold"),
        table_aborted=numbers("metastore.acidmetrics.table.aborted.txns.threshold"),
        tables_aborted=numbers(None, "metastore.compactor.tables.with.aborted.txn.threshold"),
        deltas=numbers("hive.compactor.active.delta.dir.threshold"),
        obsolete=numbers("hive.compactor.obsolete.delta.dir.threshold"),
        small=numbers("hive.compactor.small.delta.dir.threshold"),
        ratio=numbers("acidlib.status.delta.ratio.threshold"),
        obsolete_bytes=numbers("acidlib.status.obsolete.bytes.threshold"),
        small_share=float(settings.setting("metastore.deltametrics.delta.pct.threshold").value),
        silent_seconds=silent_seconds,
    )


def _limit(settings: Settings, warning: str | None, error: str | None, *, scale: float) -> Limit:
    def value(key: str | None) -> float:
        return 0 if key is None else float(settings.setting(key).value) / scale

    return Limit(warning=value(warning), error=value(error), warning_key=warning, error_key=error)
