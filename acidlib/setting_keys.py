"""The settings that are known: Hive's property names, their defaults and units, and what else they are called.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting: Hive's name, how its text is read, its default as text, and the unit of a bare number of time."""

    name: str
    kind: Kind
    default: str
    meaning: str
    unit: str = "s"
    least: float | None = 0
    is_threshold: bool = False


KEYS: tuple[Key, ...] = (
    Key(
        name="hive.compactor.delta.num.threshold",
        kind=Kind.COUNT,
        default="10",
        meaning="more delta directories than this make a minor compaction (major without a base)",
        is_threshold=True,
    ),
    Key(
        name="hive.compactor.delta.pct.threshold",
        kind=Kind.NUMBER,
        default="0.1",
        meaning="a larger share of delta bytes in base bytes than this makes a major compaction",
        is_threshold=True,
    ),
    Key(
        name="hive.compactor.abortedtxn.threshold",
        kind=Kind.COUNT,
        default="1000",
        meaning="more aborted transactions on a table or partition than this make a major compaction",
    ),
    Key(
        name="hive.compactor.aborted.txn.time.threshold",
        kind=Kind.DURATION,
        default="12h",
        unit="h",
        least=None,
        meaning="an aborted transaction older than this makes a minor compaction; negative: off",
    ),
    Key(
        name="hive.compactor.max.num.delta",
        kind=Kind.COUNT,
        default="500",
        meaning="accepted and without effect: one pass reads any number of deltas",
    ),
    Key(
        name="hive.compactor.worker.timeout",
        kind=Kind.DURATION,
        default="86400s",
        meaning="a request worked on for longer than this is given to another worker",
    ),
    Key(
        name="hive.compactor.worker.pool",
        kind=Kind.TEXT,
        default="",
        meaning="the pool a table's requests go to; empty: the default pool",
    ),
    Key(
        name="hive.compactor.job.queue",
        kind=Kind.TEXT,
        default="",
        meaning="the YARN queue of compaction jobs",
    ),
    Key(
        name="hive.compactor.compact.insert.only",
        kind=Kind.FLAG,
        default="true",
        meaning="whether insert-only tables are compacted",
    ),
    Key(
        name="metastore.compactor.run.as.user",
        kind=Kind.TEXT,
        default="",
        meaning="the user that new requests name; empty: the owner of the table's directory",
    ),
    Key(
        name="metastore.compactor.fetch.size",
        kind=Kind.COUNT,
        default="1000",
        least=1,
        meaning="how many places the initiator looks for at most in one go",
    ),
    Key(
        name="metastore.compactor.clean.aborts.using.cleaner",
        kind=Kind.FLAG,
        default="true",
        meaning="Hive 4: aborted transactions are left to the cleaner and start no compaction",
    ),
    Key(
        name="hive.compactor.cleaner.on",
        kind=Kind.FLAG,
        default="false",
        meaning="whether the metastore runs a cleaner of its own",
    ),
    Key(
        name="hive.compactor.delayed.cleanup.enabled",
        kind=Kind.FLAG,
        default="false",
        meaning="whether the cleaner waits before it removes what a compaction made obsolete",
    ),
    Key(
        name="hive.compactor.cleaner.retention.time.seconds",
        kind=Kind.DURATION,
        default="300s",
        meaning="how long it then waits, from the commit of the compaction on",
    ),
    Key(
        name="hive.compactor.cleaner.retry.maxattempts",
        kind=Kind.COUNT,
        default="5",
        meaning="after so many failed cleanings a request counts as failed",
    ),
    Key(
        name="metastore.compactor.cleaner.retry.retention.time",
        kind=Kind.DURATION,
        default="300s",
        meaning="how long a failed cleaning waits before its next try; doubled each time",
    ),
    Key(
        name="metastore.compactor.initiator.failed.compacts.threshold",
        kind=Kind.COUNT,
        default="2",
        least=1,
        meaning="after so many failed compactions in a row a place is no longer compacted automatically",
    ),
    Key(
        name="metastore.compactor.initiator.failed.retry.time",
        kind=Kind.DURATION,
        default="7d",
        unit="d",
        least=None,
        meaning="how long after the last of these it is tried again; 0 or negative: never",
    ),
    Key(
        name="metastore.compactor.history.retention.succeeded",
        kind=Kind.COUNT,
        default="3",
        meaning="succeeded requests kept in the history of each place",
    ),
    Key(
        name="metastore.compactor.history.retention.failed",
        kind=Kind.COUNT,
        default="3",
        meaning="failed requests kept in the history of each place",
    ),
    Key(
        name="metastore.compactor.history.retention.did.not.initiate",
        kind=Kind.COUNT,
        default="2",
        meaning="requests that were not initiated, kept in the history of each place",
    ),
    Key(
        name="metastore.compactor.history.retention.refused",
        kind=Kind.COUNT,
        default="3",
        meaning="refused requests kept in the history of each place",
    ),
    Key(
        name="metastore.compactor.history.retention.timeout",
        kind=Kind.DURATION,
        default="7d",
        unit="d",
        meaning="older rows of these kinds go as soon as a newer compaction has succeeded",
    ),
    Key(
        name="hive.txn.timeout",
        kind=Kind.DURATION,
        default="300s",
        meaning="a transaction or lock without a heartbeat for longer than this is aborted by the metastore",
    ),
    Key(
        name="orc.force.positional.evolution",
        kind=Kind.FLAG,
        default="true",
        meaning="readers find columns in files by their places, not by their names; Hive 3.1: false if not set",
    ),
    Key(
        name="orc.schema.evolution.case.sensitive",
        kind=Kind.FLAG,
        default="true",
        meaning="names of columns that differ in case are other names to readers",
    ),
    Key(
        name="acidlib.minor.as.major.bytes",
        kind=Kind.SIZE,
        default="256m",
        meaning="a minor of inserts and deletes is done as a major while the base is at most this large; 0: never",
    ),
    Key(
        name="acidlib.retention",
        kind=Kind.DURATION,
        default="1d",
        meaning="how long the cleaner leaves what a publication made obsolete",
    ),
    Key(
        name="acidlib.cleaner.files.per.second",
        kind=Kind.COUNT,
        default="0",
        meaning="about how many files the cleaner removes in a second, so that a file system is not flooded; 0: any",
    ),
    Key(
        name="acidlib.lock.timeout",
        kind=Kind.DURATION,
        default="30s",
        meaning="how long a publication waits for an exclusive lock of the metastore",
    ),
    Key(
        name="acidlib.part.bytes",
        kind=Kind.SIZE,
        default="64m",
        meaning="input bytes of a task when the rewriting of a large bucket is shared by several; 0: never shared",
    ),
)

PLAIN_PROPERTIES = frozenset({"hive.compactor.worker.pool"})
"""Keys that databases and tables state by their own names."""
READERS_KEYS = frozenset({"orc.force.positional.evolution", "orc.schema.evolution.case.sensitive"})
"""Keys that are settings of a site; what they are as properties is what readers make of them (`Target.matching`)."""
BY_NAME = {key.name: key for key in KEYS}
MORE_THRESHOLDS = frozenset(
    {
        "hive.compactor.abortedtxn.threshold",
        "hive.compactor.aborted.txn.time.threshold",
        "hive.compactor.max.num.delta",
    }
)
NAMESPACES = ("hive.compactor.", "metastore.compactor.", "acidlib.")
"""Every name that begins so is ours or Hive's compactor's: one that is not known is worth a warning."""
_OTHER_NAMES = {
    "metastore.txn.timeout": "hive.txn.timeout",
    "metastore.compactor.cleaner.retry.retentionTime": "metastore.compactor.cleaner.retry.retention.time",
    "metastore.compactor.history.retention.attempted": "metastore.compactor.history.retention.did.not.initiate",
    "mapreduce.job.queuename": "hive.compactor.job.queue",
    "mapred.job.queue.name": "hive.compactor.job.queue",
}
HADOOP_NAMES = frozenset({"mapreduce.job.queuename", "mapred.job.queue.name"})
"""Names that mean a compaction only as properties of a table or request; in a site file they mean all of Hadoop."""
_SAYS_NOTHING_HERE = frozenset(  # Hive's own services read these
    {
        "initiator.on",
        "initiator.tablecache.on",
        "initiator.duration.update.interval",
        "cleaner.run.interval",
        "cleaner.threads.num",
        "cleaner.tablecache.on",
        "cleaner.duration.update.interval",
        "worker.threads",
        "worker.pool.timeout",
        "worker.sleep.time",
        "worker.max.sleep.time",
        "check.interval",
        "request.queue",
        "crud.query.based",
        "gather.stats",
        "wait.timeout",
        "enable.stats.compression",
        "history.reaper.interval",
        "connectionPool.maxPoolSize",
        "use.custom.pool",
        "worker.detect.multiple.versions.threshold",
        "hive.compaction.merge.enabled",
        "hive.mr.compactor.gather.stats",
        "hive.split.grouping.mode",
    }
)
_POOL_THREADS = re.compile(r"worker\.[^.]+\.threads")
_METRICS = re.compile(  # when Hive's metrics of compaction raise an alarm
    r"acid\.metrics\.logger\.frequency|(?:active|obsolete|small)\.delta\.dir\.threshold"
    r"|(?:failed\.compaction\.ratio|number\.of\.disabled\.compaction\.tables|tables\.with\.aborted\.txn)\.threshold"
    r"|(?:completed\.txn\.components\.record|txn\.to\.writeid\.record|long\.running\.initiator"
    r"|oldest\.[a-z.]+)\.threshold(?:\.(?:error|warning))?"
)


def find_key(name: str) -> Key | None:
    """The key of a name, or of one of its other names; None for any other name."""
    candidates = [name, _OTHER_NAMES.get(name, name)]
    for one, other in (("hive.", "metastore."), ("metastore.", "hive.")):
        if name.startswith(f"{one}compactor."):
            swapped = other + name.removeprefix(one)
            candidates += [swapped, _OTHER_NAMES.get(swapped, swapped)]
    return next((BY_NAME[candidate] for candidate in candidates if candidate in BY_NAME), None)


def is_hives(name: str) -> bool:
    """Whether a name is a setting of Hive's own compactor services that says nothing to this engine."""
    ending = re.sub(r"^(?:hive|metastore)\.compactor\.", "", name)
    return ending in _SAYS_NOTHING_HERE or any(form.fullmatch(ending) for form in (_POOL_THREADS, _METRICS))
