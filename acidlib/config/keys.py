"""The definitions of the settings. Each states everything about one: its names, its values, the layers that may set it.

conf/acidlib.toml and the table in docs/options.md are generated from them (`python -m acidlib.documents`).
Source: Hive HiveConf and MetastoreConf; the defaults are theirs.
"""

import enum
import re
from dataclasses import dataclass
from functools import partial

from acidlib.memory import DEFAULT_MEMORY, TASK_MEMORY

OZONE_HTTPFS = "acidlib.ozone.httpfs"


class SettingKind(enum.Enum):
    """The form of a setting's text; durations become whole milliseconds, sizes bytes."""

    COUNT = "a whole number"
    NUMBER = "a number"
    DURATION = "a duration such as 12h"
    SIZE = "a size such as 256m"
    FLAG = "true or false"
    TEXT = "a text"


class Spelling(enum.Enum):
    """The prefix of a setting's name as a property of databases and tables.

    Hive Initiator reads `compactorthreshold.`, Hive CompactorMR.overrideMRProps `compactor.`. PLAIN: no prefix is
    needed, and `compactor.` is allowed.
    """

    COMPACTOR = "compactor."
    THRESHOLD = "compactorthreshold."
    PLAIN = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingKey:
    """A setting. Site files, acidlib.toml and `--set` may state it; properties only if it has a `spelling`.

    name          Hive's, or ours beginning with `acidlib.`
    kind          the form of its text
    default       the built-in value, as text
    meaning       sentences for people; of an inert setting the reason why it has no effect, to follow a colon
    aliases       further names in Hive, besides `hive.compactor.x` for `metastore.compactor.x` and vice versa
    spelling      its prefix as a property of a database or table; None: it is the same for all tables
    of_readers    the table's own readers obey a table property of this name; `Place.matching` says when
    unit          of a duration without a unit
    least         the lowest value allowed; None: any
    choices       the only texts allowed; none: any
    is_threshold  the initiator's decision uses it
    inert         it is accepted without effect: only Hive's services use it, or would use it
    """

    name: str
    kind: SettingKind
    default: str
    meaning: str
    aliases: tuple[str, ...] = ()
    spelling: Spelling | None = None
    of_readers: bool = False
    unit: str = "s"
    least: float | None = 0
    choices: tuple[str, ...] = ()
    is_threshold: bool = False
    inert: bool = False


_count, _number, _duration, _size, _flag, _text = (
    partial(SettingKey, kind=kind)
    for kind in (
        SettingKind.COUNT,
        SettingKind.NUMBER,
        SettingKind.DURATION,
        SettingKind.SIZE,
        SettingKind.FLAG,
        SettingKind.TEXT,
    )
)
_any_count, _any_number = partial(_count, least=None), partial(_number, least=None)
_any_hours = partial(_duration, unit="h", least=None)

# The values at which a figure of the status is a warning or an error; Hive's metastore uses the same.
STATUS_KEYS: tuple[SettingKey, ...] = (
    _any_hours(
        name="metastore.compactor.oldest.initiated.compaction.time.threshold.warning",
        default="1h",
        meaning="status: a request has waited so long to start; 0 or less: never, as in all limits of time.",
    ),
    _any_hours(
        name="metastore.compactor.oldest.initiated.compaction.time.threshold.error",
        default="12h",
        meaning="status: a request has waited so long to start; 0 or less: never, as in all limits of time.",
    ),
    _duration(
        name="acidlib.status.working.threshold",
        default="12h",
        meaning="status: a request has been working for so long; error after `hive.compactor.worker.timeout`.",
        unit="h",
    ),
    _any_hours(
        name="metastore.compactor.oldest.uncleaned.compaction.time.threshold",
        default="24h",
        meaning="status: a request has been ready for cleaning for so long, or waits for a transaction or lock so old.",
    ),
    _any_number(
        name="metastore.compactor.failed.compaction.ratio.threshold",
        default="0.01",
        meaning="status: this share of places, and more than one, whose last compaction failed or was not initiated.",
    ),
    _count(
        name="acidlib.status.refused.threshold",
        default="2",
        meaning="status: so many refusals in a row at a place.",
    ),
    _any_hours(
        name="metastore.compactor.oldest.open.txn.threshold.warning",
        default="24h",
        meaning="status: a transaction has been open for so long.",
    ),
    _any_hours(
        name="metastore.compactor.oldest.open.txn.threshold.error",
        default="72h",
        meaning="status: a transaction has been open for so long.",
    ),
    _any_hours(
        name="metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.warning",
        default="24h",
        meaning="status: the metastore has kept an aborted transaction for so long.",
    ),
    _any_hours(
        name="metastore.compactor.oldest.uncleaned.aborted.txn.time.threshold.error",
        default="48h",
        meaning="status: the metastore has kept an aborted transaction for so long.",
    ),
    _any_count(
        name="metastore.acidmetrics.table.aborted.txns.threshold",
        default="1500",
        meaning="status: a table has more aborted write ids than this.",
        aliases=("hive.metastore.acidmetrics.table.aborted.txns.threshold",),
    ),
    _any_count(
        name="metastore.compactor.tables.with.aborted.txn.threshold",
        default="1",
        meaning="status: so many such tables are an error.",
    ),
    _any_count(
        name="hive.compactor.active.delta.dir.threshold",
        default="200",
        meaning="status: readers of a place have to merge more deltas than this.",
    ),
    _any_count(
        name="hive.compactor.obsolete.delta.dir.threshold",
        default="200",
        meaning="status: a place has more obsolete directories than this.",
    ),
    _any_count(
        name="hive.compactor.small.delta.dir.threshold",
        default="200",
        meaning="status: a place has more small deltas than this.",
    ),
    _any_number(
        name="metastore.deltametrics.delta.pct.threshold",
        default="0.01",
        meaning="status: a delta with a smaller share of its base's bytes than this is small.",
        aliases=("hive.txn.acid.metrics.delta.pct.threshold",),
    ),
    _number(
        name="acidlib.status.delta.ratio.threshold",
        default="1",
        meaning="status: deltas have more bytes than so many times their base.",
    ),
    _size(
        name="acidlib.status.obsolete.bytes.threshold",
        default="0",
        meaning="status: so many bytes wait for cleaning at a place; 0: never.",
    ),
    _count(
        name="acidlib.status.metrics.tables",
        default="100",
        meaning="status: how many tables, the worst first, have metrics of their own.",
    ),
)

KEYS: tuple[SettingKey, ...] = (
    _count(
        name="hive.compactor.delta.num.threshold",
        default="10",
        meaning="More delta directories than this start a minor compaction, or a major one if there is no base.",
        spelling=Spelling.THRESHOLD,
        is_threshold=True,
    ),
    _number(
        name="hive.compactor.delta.pct.threshold",
        default="0.1",
        meaning="A larger ratio of delta bytes to base bytes than this starts a major compaction.",
        spelling=Spelling.THRESHOLD,
        is_threshold=True,
    ),
    _count(
        name="hive.compactor.abortedtxn.threshold",
        default="1000",
        meaning="More aborted write ids with a directory at a place than this start a major compaction; with Hive 4, "
        "by the settings of the run alone, a cleaning.",
        spelling=Spelling.COMPACTOR,
        is_threshold=True,
    ),
    _any_hours(
        name="hive.compactor.aborted.txn.time.threshold",
        default="12h",
        meaning="Hive 4: the cleaner also cleans a place whose oldest rolled back transaction began so long ago; "
        "negative: by their number alone.",
    ),
    _count(
        name="hive.compactor.max.num.delta",
        default="500",
        meaning="a compaction reads any number of deltas in one pass.",
        inert=True,
    ),
    _duration(
        name="hive.compactor.worker.timeout",
        default="86400s",
        meaning="A request that works for longer than this is given to another run. A run gives up at 90 % of it.",
    ),
    _text(
        name="hive.compactor.worker.pool",
        default="",
        meaning="Hive 4: the pool of requests; empty: the default pool.",
        spelling=Spelling.PLAIN,
    ),
    _text(
        name="hive.compactor.job.queue",
        default="",
        meaning="The YARN queue of the jobs.",
    ),
    _flag(
        name="hive.compactor.gather.stats",
        default="true",
        meaning="With a metastore: whether the basic statistics of a place are updated after its compaction.",
    ),
    _flag(
        name="hive.compactor.compact.insert.only",
        default="true",
        meaning="Whether insert-only tables are compacted.",
    ),
    _text(
        name="metastore.compactor.run.as.user",
        default="",
        meaning="The user that requests name; empty: the owner of the table's directory.",
    ),
    _count(
        name="metastore.compactor.fetch.size",
        default="1000",
        meaning="the initiator examines all places in each run.",
        least=1,
        inert=True,
    ),
    _flag(
        name="metastore.compactor.clean.aborts.using.cleaner",
        default="true",
        meaning="Hive 4: whether aborted transactions start a cleaning, not a compaction.",
    ),
    _flag(
        name="hive.compactor.cleaner.on",
        default="false",
        meaning="the cleaner asks a metastore of Hive 4 itself whether Hive's own cleaner is on.",
        inert=True,
    ),
    _flag(
        name="hive.compactor.delayed.cleanup.enabled",
        default="false",
        meaning="With a metastore: whether the cleaner waits before it removes obsolete files.",
    ),
    _duration(
        name="hive.compactor.cleaner.retention.time.seconds",
        default="300s",
        meaning="How long it then waits after the commit of the compaction.",
    ),
    _count(
        name="hive.compactor.cleaner.retry.maxattempts",
        default="5",
        meaning="After so many failed cleanings a request ends as failed.",
    ),
    _duration(
        name="metastore.compactor.cleaner.retry.retention.time",
        default="300s",
        meaning="How long a failed cleaning waits for its next attempt; doubled each time.",
        aliases=("metastore.compactor.cleaner.retry.retentionTime",),
    ),
    _count(
        name="metastore.compactor.initiator.failed.compacts.threshold",
        default="2",
        meaning="After so many failed compactions in a row a place is no longer queued automatically.",
        least=1,
    ),
    _duration(
        name="metastore.compactor.initiator.failed.retry.time",
        default="7d",
        meaning="How long after its last failure such a place is queued again; 0 or less, and with Hive 3.1's own "
        "queue: never.",
        unit="d",
        least=None,
    ),
    _count(
        name="metastore.compactor.history.retention.succeeded",
        default="3",
        meaning="How many requests that ended so are kept in the history of each place.",
    ),
    _count(
        name="metastore.compactor.history.retention.failed",
        default="3",
        meaning="How many requests that ended so are kept in the history of each place.",
    ),
    _count(
        name="metastore.compactor.history.retention.did.not.initiate",
        default="2",
        meaning="How many requests that ended so are kept in the history of each place.",
        aliases=("metastore.compactor.history.retention.attempted",),
    ),
    _count(
        name="metastore.compactor.history.retention.refused",
        default="3",
        meaning="How many requests that ended so are kept in the history of each place.",
    ),
    _duration(
        name="metastore.compactor.history.retention.timeout",
        default="7d",
        meaning="Older rows of the history are removed as soon as a newer compaction has succeeded.",
        unit="d",
    ),
    *STATUS_KEYS,
    _duration(
        name="hive.txn.timeout",
        default="300s",
        meaning="heartbeats use the timeout that the metastore itself reports.",
        aliases=("metastore.txn.timeout",),
        inert=True,
    ),
    _flag(
        name="orc.force.positional.evolution",
        default="true",
        meaning="Whether readers find columns in files by position, not by name. Hive 3.1: false unless it is set. "
        "Hive 4 ignores the table property.",
        of_readers=True,
    ),
    _flag(
        name="orc.schema.evolution.case.sensitive",
        default="true",
        meaning="Whether names of columns that differ only in case are different names to readers.",
        of_readers=True,
    ),
    _text(
        name="acidlib.reader.hive.version",
        default="",
        choices=("3", "4"),
        meaning="Which Hive's readers the tables have: 3 (ORC 1.5, columns by name) or 4 (ORC 1.8, columns by "
        "position). Needed for a fork.",
    ),
    _size(
        name="acidlib.minor.as.major.bytes",
        default="256m",
        meaning="A minor compaction of inserts and deletes runs as a major while the base is at most this large; 0: "
        "never.",
    ),
    _duration(
        name="acidlib.retention",
        default="1d",
        meaning="How long the cleaner keeps obsolete files, as `--retention`.",
    ),
    _count(
        name="acidlib.cleaner.files.per.second",
        default="0",
        meaning="How many files the cleaner removes in a second at most; 0: no limit.",
    ),
    _duration(
        name="acidlib.lock.timeout",
        default="30s",
        meaning="Hive 3.1: how long a publication by two renames waits for readers, as `--lock-timeout`.",
    ),
    # Hive's queries wait by hive.lock.numretries and hive.lock.sleep.between.retries, an hour and a half by default. A
    # read does not: its transaction is open while it waits, and keeps all cleaners of Hive 4 from their work.
    _duration(
        name="acidlib.read.lock.timeout",
        default="30s",
        meaning="How long a snapshot waits for programs that drop, change or overwrite the table.",
    ),
    _size(
        name="acidlib.part.bytes",
        default="64m",
        meaning="Input bytes of a task when several tasks, at most 64, share a large bucket; on more than 1,000 cores "
        "64 KiB for each core; 0: never shared.",
    ),
    _text(
        name="acidlib.verify",
        default="none",
        meaning="Which buckets a second reader compares: none, all, or a share such as sample=0.1, as `--verify`.",
    ),
    _duration(
        name="acidlib.step.timeout",
        default="10m",
        meaning="How long a run waits for one answer of a local disk, a mount or HDFS before the place fails; 0: as "
        "long as it takes.",
    ),
    _text(
        name=OZONE_HTTPFS,
        default="",
        meaning="Where Ozone's HttpFS answers: URLs such as http://host:14000, of which the first that does is taken; "
        "with SERVICE= before it, that of one service of several.",
    ),
    _count(
        name="acidlib.places.in.flight",
        default="0",
        meaning="How many places a run compacts at a time; 0: the sum of 32, 4 for each core of the executors (2 with "
        "many cores), and the places that have ended in the last 2 seconds.",
    ),
    _size(
        name=TASK_MEMORY,
        default=f"{DEFAULT_MEMORY.limit >> 30}g",
        meaning="How much memory a Python worker may take to decode a file, twice this with deletes. A file that would "
        "need more is refused.",
        least=1,
    ),
    _size(
        name="acidlib.in.process.bytes",
        default="256m",
        meaning="From Python without a Spark session: above so many input bytes a run starts a session, else processes "
        "on its machine.",
    ),
)

BY_NAME = {key.name: key for key in KEYS}
NAMESPACES = ("hive.compactor.", "metastore.compactor.", "acidlib.")
"""The prefixes of our names and of Hive's compactor: an unknown name with one of them is worth a warning."""
CONNECTION_NAMES = frozenset({"acidlib.metastore.ca.file", "acidlib.metastore.password.file"})
"""Names of ours that `metastore.options` reads in the site files; they are no settings of a compaction."""
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
_METRICS = re.compile(  # the limits of Hive's compaction metrics that have no counterpart in the status
    r"acid\.metrics\.logger\.frequency|number\.of\.disabled\.compaction\.tables\.threshold"
    r"|(?:completed\.txn\.components\.record|txn\.to\.writeid\.record|long\.running\.initiator"
    r"|oldest\.replication\.open\.txn)\.threshold\.(?:error|warning)"
)


def find_key(name: str) -> SettingKey | None:
    """Return the key with this name or alias; None for an unknown name."""
    candidates = [name]
    for prefix, other in (("hive.", "metastore."), ("metastore.", "hive.")):
        if name.startswith(f"{prefix}compactor."):
            candidates.append(other + name.removeprefix(prefix))
    return next((_BY_ANY_NAME[candidate] for candidate in candidates if candidate in _BY_ANY_NAME), None)


def is_hives(name: str) -> bool:
    """Return whether a name is a setting of Hive's own compactor services without effect on this engine."""
    ending = re.sub(r"^(?:hive|metastore)\.compactor\.", "", name)
    return ending in _READ_BY_HIVES_SERVICES or any(form.fullmatch(ending) for form in (_POOL_THREADS, _METRICS))
