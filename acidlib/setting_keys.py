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
        meaning="older rows of these kinds go as soon as a newer compaction has succeeded",
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
)

BY_NAME = {key.name: key for key in KEYS}
MORE_THRESHOLDS = frozenset(
    {
        "hive.compactor.abortedtxn.threshold",
        "hive.compactor.aborted.txn.time.threshold",
        "hive.compactor.max.num.delta",
    }
)
NAMESPACES = ("hive.compactor.", "metastore.compactor.", "acidlib.")
_OTHER_NAMES = {
    "metastore.compactor.history.retention.attempted": "metastore.compactor.history.retention.did.not.initiate",
    "mapreduce.job.queuename": "hive.compactor.job.queue",
    "mapred.job.queue.name": "hive.compactor.job.queue",
}
_SAYS_NOTHING_HERE = frozenset(  # Hive's own services read these
    {
        "initiator.on",
        "initiator.tablecache.on",
        "initiator.duration.update.interval",
        "cleaner.on",
        "cleaner.run.interval",
        "cleaner.threads.num",
        "cleaner.tablecache.on",
        "cleaner.retention.time.seconds",
        "cleaner.duration.update.interval",
        "delayed.cleanup.enabled",
        "clean.aborts.using.cleaner",
        "worker.threads",
        "worker.pool.timeout",
        "worker.sleep.time",
        "worker.max.sleep.time",
        "check.interval",
        "request.queue",
        "compact.insert.only",
        "crud.query.based",
        "gather.stats",
        "wait.timeout",
        "fetch.size",
        "run.as.user",
        "enable.stats.compression",
        "history.reaper.interval",
    }
)
_POOL_THREADS = re.compile(r"worker\.[^.]+\.threads")


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
    return ending in _SAYS_NOTHING_HERE or _POOL_THREADS.fullmatch(ending) is not None
