"""The settings of the status: from where on a figure is a warning or an error.

Source: Hive MetastoreConf and HiveConf, whose metastore warns by them; the defaults are theirs.
"""

from acidlib.setting_key import Key, Kind

STATUS_KEYS: tuple[Key, ...] = (
    Key(
        name="metastore.compactor.oldest.initiated.compaction.time.threshold.warning",
        kind=Kind.DURATION,
        default="1h",
        meaning="status: a request that has waited so long to be begun is a warning. In all levels 0 or less is never.",
        unit="h",
        least=None,
    ),
    Key(
        name="metastore.compactor.oldest.initiated.compaction.time.threshold.error",
        kind=Kind.DURATION,
        default="12h",
        meaning="status: one that has waited so long is an error.",
        unit="h",
        least=None,
    ),
    Key(
        name="acidlib.status.working.threshold",
        kind=Kind.DURATION,
        default="12h",
        meaning="status: a request that has been worked on for so long is a warning; after "
        "`hive.compactor.worker.timeout` it is an error.",
        unit="h",
    ),
    Key(
        name="metastore.compactor.oldest.uncleaned.compaction.time.threshold",
        kind=Kind.DURATION,
        default="24h",
        meaning="status: a request that has been ready for cleaning for so long is a warning; so is what it waits for.",
        unit="h",
        least=None,
    ),
    Key(
        name="metastore.compactor.failed.compaction.ratio.threshold",
        kind=Kind.NUMBER,
        default="0.01",
        meaning="status: such a share of places whose last compaction failed or was not initiated, among these and "
        "those where it succeeded, is a warning.",
        least=None,
    ),
    Key(
        name="acidlib.status.refused.threshold",
        kind=Kind.COUNT,
        default="2",
        meaning="status: so many refusals in a row at one place are a warning.",
    ),
    Key(
        name="metastore.compactor.oldest.open.txn.threshold.warning",
        kind=Kind.DURATION,
        default="24h",
        meaning="status: a transaction that has been open for so long is a warning.",
        unit="h",
        least=None,
    ),
    Key(
        name="metastore.compactor.oldest.open.txn.threshold.error",
        kind=Kind.DURATION,
        default="72h",
        meaning="status: one that has been open for so long is an error.",
        unit="h",
        least=None,
    ),
    Key(
        name="metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.warning",
        kind=Kind.DURATION,
        default="24h",
        meaning="status: an aborted transaction that is remembered for so long is a warning.",
        unit="h",
        least=None,
    ),
    Key(
        name="metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.error",
        kind=Kind.DURATION,
        default="48h",
        meaning="status: one that is remembered for so long is an error.",
        unit="h",
        least=None,
    ),
    Key(
        name="metastore.acidmetrics.table.aborted.txns.threshold",
        kind=Kind.COUNT,
        default="1500",
        meaning="status: a table with more aborted write ids than this counts as one with many.",
        aliases=("hive.metastore.acidmetrics.table.aborted.txns.threshold",),
        least=None,
    ),
    Key(
        name="metastore.compactor.tables.with.aborted.txn.threshold",
        kind=Kind.COUNT,
        default="1",
        meaning="status: so many such tables are an error; each of them is a warning.",
        least=None,
    ),
    Key(
        name="hive.compactor.active.delta.dir.threshold",
        kind=Kind.COUNT,
        default="200",
        meaning="status: more deltas than this that a reader of one place has to merge are a warning.",
        least=None,
    ),
    Key(
        name="hive.compactor.obsolete.delta.dir.threshold",
        kind=Kind.COUNT,
        default="200",
        meaning="status: more obsolete directories than this at one place are a warning.",
        least=None,
    ),
    Key(
        name="hive.compactor.small.delta.dir.threshold",
        kind=Kind.COUNT,
        default="200",
        meaning="status: more small deltas than this at one place are a warning.",
        least=None,
    ),
    Key(
        name="metastore.deltametrics.delta.pct.threshold",
        kind=Kind.NUMBER,
        default="0.01",
        meaning="status: a delta with a smaller share of its base's bytes than this counts as small.",
        aliases=("hive.txn.acid.metrics.delta.pct.threshold",),
        least=None,
    ),
    Key(
        name="acidlib.status.delta.ratio.threshold",
        kind=Kind.NUMBER,
        default="1",
        meaning="status: deltas with more bytes than so many times their base are a warning.",
    ),
    Key(
        name="acidlib.status.obsolete.bytes.threshold",
        kind=Kind.SIZE,
        default="0",
        meaning="status: so many bytes that wait for cleaning at one place are a warning.",
    ),
    Key(
        name="acidlib.status.metrics.tables",
        kind=Kind.COUNT,
        default="100",
        meaning="status: so many tables, the worst first, have metrics of their own.",
    ),
)
