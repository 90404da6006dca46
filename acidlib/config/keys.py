"""The settings that are known. One definition of each states everything about it: names, values, where it may stand.

`conf/acidlib.toml` and the table in docs/options.md are made of these definitions (`python -m acidlib.documents`).
Source: Hive HiveConf and MetastoreConf; the defaults are theirs.
"""

import enum
import re
from dataclasses import dataclass


class Kind(enum.Enum):
    """How the text of a setting is read; durations become whole milliseconds, sizes bytes."""

    COUNT = "a whole number"
    NUMBER = "a number"
    DURATION = "a duration such as 12h"
    SIZE = "a size such as 256m"
    FLAG = "true or false"
    TEXT = "a text"


class Spelling(enum.Enum):
    """What stands before a setting's name where databases and tables state it as a property.

    Hive Initiator has `compactorthreshold.`, Hive CompactorMR.overrideMRProps `compactor.`. PLAIN: nothing has to stand
    before it; `compactor.` may.
    """

    COMPACTOR = "compactor."
    THRESHOLD = "compactorthreshold."
    PLAIN = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting. Site files, acidlib.toml and `--set` may give it; properties only where it has a `spelling`.

    name              Hive's
    kind, unit, least  how its text is read, the unit of a bare number of time, and the least value; None = any
    default           as text
    meaning           sentences for people; without effect: why it has none, to follow a colon
    aliases           what else Hive calls it, besides `hive.compactor.x` for `metastore.compactor.x` and vice versa
    spelling          as a property of a database or table; None: it is the same for all tables
    of_readers        the table's own readers obey a table property of this name; `Target.matching` says when
    is_threshold      the initiator's decision goes by it
    inert             it is accepted, and nothing goes by it: Hive's services do, or would
    """

    name: str
    kind: Kind
    default: str
    meaning: str
    aliases: tuple[str, ...] = ()
    spelling: Spelling | None = None
    of_readers: bool = False
    unit: str = "s"
    least: float | None = 0
    is_threshold: bool = False
    inert: bool = False


# From where on a figure of the status is a warning or an error; Hive's metastore warns by the same.
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

KEYS: tuple[Key, ...] = (
    Key(
        name="hive.compactor.delta.num.threshold",
        kind=Kind.COUNT,
        default="10",
        meaning="More delta directories than this make a minor compaction, or a major if there is no base.",
        spelling=Spelling.THRESHOLD,
        is_threshold=True,
    ),
    Key(
        name="hive.compactor.delta.pct.threshold",
        kind=Kind.NUMBER,
        default="0.1",
        meaning="A larger share of delta bytes in base bytes than this makes a major compaction.",
        spelling=Spelling.THRESHOLD,
        is_threshold=True,
    ),
    Key(
        name="hive.compactor.abortedtxn.threshold",
        kind=Kind.COUNT,
        default="1000",
        meaning="More aborted write ids that have a directory in a place than this make a major "
        "compaction. Hive 4, unless `metastore.compactor.clean.aborts.using.cleaner` is false: a place with more notes "
        "of rolled back transactions than this, by the settings of the run alone, is cleaned after them.",
        spelling=Spelling.COMPACTOR,
        is_threshold=True,
    ),
    Key(
        name="hive.compactor.aborted.txn.time.threshold",
        kind=Kind.DURATION,
        default="12h",
        meaning="Hive 4: a place is cleaned after rolled back transactions once one of them was begun so long ago; a "
        "negative time: by their number alone.",
        unit="h",
        least=None,
    ),
    Key(
        name="hive.compactor.max.num.delta",
        kind=Kind.COUNT,
        default="500",
        meaning="one pass reads any number of deltas.",
        inert=True,
    ),
    Key(
        name="hive.compactor.worker.timeout",
        kind=Kind.DURATION,
        default="86400s",
        meaning="A request worked on for longer than this is given to another run; at 90 % of it a run "
        "gives up by itself.",
    ),
    Key(
        name="hive.compactor.worker.pool",
        kind=Kind.TEXT,
        default="",
        meaning="Hive 4: the pool of requests; empty: the default pool.",
        spelling=Spelling.PLAIN,
    ),
    Key(
        name="hive.compactor.job.queue",
        kind=Kind.TEXT,
        default="",
        meaning="The YARN queue of the jobs.",
    ),
    Key(
        name="hive.compactor.gather.stats",
        kind=Kind.FLAG,
        default="true",
        meaning="With a metastore: whether the basic statistics of a place are updated after its compaction.",
    ),
    Key(
        name="hive.compactor.compact.insert.only",
        kind=Kind.FLAG,
        default="true",
        meaning="Whether insert-only tables are compacted.",
    ),
    Key(
        name="metastore.compactor.run.as.user",
        kind=Kind.TEXT,
        default="",
        meaning="Whom requests name as their user; empty: the owner of the table's directory.",
    ),
    Key(
        name="metastore.compactor.fetch.size",
        kind=Kind.COUNT,
        default="1000",
        meaning="the initiator looks at all places in each run.",
        least=1,
        inert=True,
    ),
    Key(
        name="metastore.compactor.clean.aborts.using.cleaner",
        kind=Kind.FLAG,
        default="true",
        meaning="Hive 4: whether aborted transactions are left to the cleaner, Hive's or this one, and start no "
        "compaction.",
    ),
    Key(
        name="hive.compactor.cleaner.on",
        kind=Kind.FLAG,
        default="false",
        meaning="the cleaner asks a metastore of Hive 4 itself whether Hive's own cleaner is on.",
        inert=True,
    ),
    Key(
        name="hive.compactor.delayed.cleanup.enabled",
        kind=Kind.FLAG,
        default="false",
        meaning="With a metastore: whether the cleaner waits before it removes what a compaction made "
        "obsolete, although nobody reads it.",
    ),
    Key(
        name="hive.compactor.cleaner.retention.time.seconds",
        kind=Kind.DURATION,
        default="300s",
        meaning="How long it then waits, from the commit of the compaction on.",
    ),
    Key(
        name="hive.compactor.cleaner.retry.maxattempts",
        kind=Kind.COUNT,
        default="5",
        meaning="After so many failed cleanings a request counts as failed.",
    ),
    Key(
        name="metastore.compactor.cleaner.retry.retention.time",
        kind=Kind.DURATION,
        default="300s",
        meaning="How long a failed cleaning waits before its next try; doubled each time.",
        aliases=("metastore.compactor.cleaner.retry.retentionTime",),
    ),
    Key(
        name="metastore.compactor.initiator.failed.compacts.threshold",
        kind=Kind.COUNT,
        default="2",
        meaning="After so many failed compactions in a row a place is no longer queued automatically.",
        least=1,
    ),
    Key(
        name="metastore.compactor.initiator.failed.retry.time",
        kind=Kind.DURATION,
        default="7d",
        meaning="How long after the last of these it is tried again; 0 or less, and with Hive 3.1's own queue: never.",
        unit="d",
        least=None,
    ),
    Key(
        name="metastore.compactor.history.retention.succeeded",
        kind=Kind.COUNT,
        default="3",
        meaning="Succeeded requests kept in the history of each place.",
    ),
    Key(
        name="metastore.compactor.history.retention.failed",
        kind=Kind.COUNT,
        default="3",
        meaning="Failed requests kept.",
    ),
    Key(
        name="metastore.compactor.history.retention.did.not.initiate",
        kind=Kind.COUNT,
        default="2",
        meaning="Requests that were not initiated, kept.",
        aliases=("metastore.compactor.history.retention.attempted",),
    ),
    Key(
        name="metastore.compactor.history.retention.refused",
        kind=Kind.COUNT,
        default="3",
        meaning="Refused requests kept; of a queue of our own as many that were cancelled.",
    ),
    Key(
        name="metastore.compactor.history.retention.timeout",
        kind=Kind.DURATION,
        default="7d",
        meaning="Older rows of these kinds go as soon as a newer compaction has succeeded.",
        unit="d",
    ),
    *STATUS_KEYS,
    Key(
        name="hive.txn.timeout",
        kind=Kind.DURATION,
        default="300s",
        meaning="heartbeats go by the timeout that the metastore itself reports.",
        aliases=("metastore.txn.timeout",),
        inert=True,
    ),
    Key(
        name="orc.force.positional.evolution",
        kind=Kind.FLAG,
        default="true",
        meaning="Whether readers find columns in files by their places, not their names; Hive 3.1: false unless it is "
        "set, and only there also as a table property.",
        of_readers=True,
    ),
    Key(
        name="orc.schema.evolution.case.sensitive",
        kind=Kind.FLAG,
        default="true",
        meaning="Whether readers take names of columns that differ in case for other names.",
        of_readers=True,
    ),
    Key(
        name="acidlib.minor.as.major.bytes",
        kind=Kind.SIZE,
        default="256m",
        meaning="A minor of inserts and deletes is done as a major while the base is at most this large; "
        "0: never. As `--minor-as-major-bytes`.",
    ),
    Key(
        name="acidlib.retention",
        kind=Kind.DURATION,
        default="1d",
        meaning="How long the cleaner leaves what a publication made obsolete. As `--retention`, which says more.",
    ),
    Key(
        name="acidlib.cleaner.files.per.second",
        kind=Kind.COUNT,
        default="0",
        meaning="About how many files the cleaner removes in a second, so that a file system is not flooded; 0: any.",
    ),
    Key(
        name="acidlib.lock.timeout",
        kind=Kind.DURATION,
        default="30s",
        meaning="Hive 3.1: how long two renames wait for readers to let the table go. As `--lock-timeout`.",
    ),
    Key(
        name="acidlib.part.bytes",
        kind=Kind.SIZE,
        default="64m",
        meaning="Input bytes of a task when the rewriting of a large bucket is shared by several tasks, "
        "64 at most; on more than 1,000 cores 64 KiB for each; 0: never shared.",
    ),
    Key(
        name="acidlib.verify",
        kind=Kind.TEXT,
        default="none",
        meaning="Whether a second reader compares each result with what it was made of, before any reader sees it (on "
        "S3 without Hive 4's transactions: right after): none, all (buckets), or a share of them such as sample=0.1. "
        "As `--verify`.",
    ),
    Key(
        name="acidlib.places.in.flight",
        kind=Kind.COUNT,
        default="0",
        meaning="How many tables and partitions a run compacts at a time, each at its own pace; "
        "0: 32, and 4 more for each core of the executors, of many cores 2, and as many as end within 2 seconds.",
    ),
)

BY_NAME = {key.name: key for key in KEYS}
NAMESPACES = ("hive.compactor.", "metastore.compactor.", "acidlib.")
"""Every name that begins so is ours or Hive's compactor's: one that is not known is worth a warning."""
CONNECTION_NAMES = frozenset({"acidlib.metastore.ca.file", "acidlib.metastore.password.file"})
"""What `metastore.options` reads in the site files beside Hive's own names; no setting of a compaction."""
_BY_ANY_NAME = {name: key for key in KEYS for name in (key.name, *key.aliases)}
_READ_BY_HIVES_SERVICES = frozenset(
    (
        *("initiator.on", "initiator.tablecache.on", "initiator.duration.update.interval", "cleaner.run.interval"),
        *("cleaner.threads.num", "cleaner.tablecache.on", "cleaner.duration.update.interval", "worker.threads"),
        *("worker.pool.timeout", "worker.sleep.time", "worker.max.sleep.time", "check.interval", "request.queue"),
        *("crud.query.based", "wait.timeout", "enable.stats.compression", "history.reaper.interval"),
        *("connectionPool.maxPoolSize", "use.custom.pool", "worker.detect.multiple.versions.threshold"),
        *("hive.compaction.merge.enabled", "hive.mr.compactor.gather.stats", "hive.split.grouping.mode"),
    )
)
_POOL_THREADS = re.compile(r"worker\.[^.]+\.threads")
_METRICS = re.compile(  # when Hive's metrics of compaction raise an alarm about what is not looked at here
    r"acid\.metrics\.logger\.frequency|number\.of\.disabled\.compaction\.tables\.threshold"
    r"|(?:completed\.txn\.components\.record|txn\.to\.writeid\.record|long\.running\.initiator"
    r"|oldest\.replication\.open\.txn)\.threshold\.(?:error|warning)"
)


def find_key(name: str) -> Key | None:
    """Return the key of a name, or of one of its other names; None for any other name."""
    candidates = [name]
    for one, other in (("hive.", "metastore."), ("metastore.", "hive.")):
        if name.startswith(f"{one}compactor."):
            candidates.append(other + name.removeprefix(one))
    return next((_BY_ANY_NAME[candidate] for candidate in candidates if candidate in _BY_ANY_NAME), None)


def is_hives(name: str) -> bool:
    """Return whether a name is a setting of Hive's own compactor services that says nothing to this engine."""
    ending = re.sub(r"^(?:hive|metastore)\.compactor\.", "", name)
    return ending in _READ_BY_HIVES_SERVICES or any(form.fullmatch(ending) for form in (_POOL_THREADS, _METRICS))
