"""Compaction requests: kinds, states, what the queue knows of each, and what this library notes of one.

Maps of strings are kept in the metastore's database as text. Source: Hive `StringableMap`: the number of entries and a
colon, then for each string its length, a colon and the string, with nothing between. Lengths count UTF-16 units, as
Java's do; -1 is a null.

What this library notes is typed here; in the queue's tables it is properties of the request. Only `split_properties`
and `RequestFacts.properties` know the names and texts that are stored. Hive copies properties along with a request and
reads none of these names.

Source of the letters and names of kinds and states: Hive `TxnStore` and `CompactionType`, columns of COMPACTION_QUEUE
and COMPLETED_COMPACTIONS. Beware: minor is `i` and major is `a`, easily taken for the states initiated and attempted.
"""

from __future__ import annotations

import enum
import json
import re
import sys
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

from acidlib.errors import AcidError, RefusedError
from acidlib.model.location import Location, parse_location
from acidlib.model.names import Generation
from acidlib.model.snapshots import ValidWriteIdList
from acidlib.model.tables import TableRef
from acidlib.wording import parse_flag

_NATIVE = f"utf-16-{sys.byteorder[0]}e"


def format_map(entries: Mapping[str | None, str | None]) -> str:
    """Return the text of a map, in the map's own order; an empty map is `0:`."""

    def string(value: str | None) -> str:
        if value is None:
            return "-1:"
        return f"{len(value) if value.isascii() else len(_units(value)) // 2}:{value}"

    return f"{len(entries)}:" + "".join(string(part) for entry in entries.items() for part in entry)


def parse_map(text: str) -> dict[str | None, str | None]:
    """Return the map of a text; raises RefusedError, naming the text and the place, when it does not parse."""
    # each character is one UTF-16 unit
    units = text if text.isascii() else "".join(map(chr, array("H", text.encode(_NATIVE, "surrogatepass"))))
    at = 0

    def wrong(what: str) -> RefusedError:
        return RefusedError(f"Cannot read {text!r}: {what} at character {at}")

    def number() -> int:
        nonlocal at
        end = units.find(":", at)
        digits = units[at:end] if end >= 0 else ""
        if digits != "-1" and not (digits.isascii() and digits.isdigit()):
            raise wrong("there is no length")
        at = end + 1
        return int(digits)

    def string() -> str | None:
        nonlocal at
        length = number()
        if length < 0:
            return None
        if at + length > len(units):
            raise wrong("a string is cut off")
        value = units[at : at + length]
        at += length
        return value if value.isascii() else _units(value).decode("utf-16-le", "surrogatepass")

    count = number()
    if count < 0 or count > len(text):
        raise RefusedError(f"Cannot read {text!r}: its number of entries, {count}, is impossible")
    result = {string(): string() for _ in range(count)}
    if at != len(units):
        raise wrong("something follows the last entry")
    return result


def _units(value: str) -> bytes:
    return value.encode("utf-16-le", "surrogatepass")


UNVERIFIED = "acidlib.unverified"
"""The key of the fact that says what is not verified; it stands wherever something was to be."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Evidence:
    """The highest transaction and lock ids that existed at a moment after a publication; `ms` is that moment.

    The later of two is the greater one. The ids tell it, for the clocks of two hosts may differ.
    """

    txn: int
    lock: int
    ms: int


def _fact(key: str, read: Callable[[str], Any] = str, write: Callable[[Any], str] = str, **default: Any) -> Any:
    """Return the field of a fact that is stored as the property `key`, in the text that `write` returns."""
    return field(metadata={"key": key, "read": read, "write": write}, **default or {"default": None})


def _names_of(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _times_of(text: str) -> dict[str, float]:
    return {str(name): float(seconds) for name, seconds in json.loads(text).items()}


def _evidence_of(text: str) -> dict[str, Evidence]:
    found = json.loads(text)
    return {str(name): Evidence(txn=int(txn), lock=int(lock), ms=int(ms)) for name, (txn, lock, ms) in found.items()}


def _format_evidence(evidence: Mapping[str, Evidence]) -> str:
    return json.dumps({name: [one.txn, one.lock, one.ms] for name, one in evidence.items()}, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """Facts of one request; a field with its default is not stated. Times are epoch milliseconds unless said otherwise.

    location        where the table or partition lies; without a metastore it tells places of one name apart
    write_ids       the readers' list of what is committed there
    generation      whose names and rules hold there
    table_kind      "full" or "insert-only", where the caller said it
    columns         the table's as Hive's text `struct<name:type,...>`, where the caller said them
    visibility_txn  the transaction in the names of the results
    witness         a file by which the place is known again, see `stores.listing`; empty where there was none
    metastore       the URIs of the metastore that a request in our own queue was made for
    process         of the run that made the request for itself: if it waits, that run has ended
    deltas, bytes   what the initiator counted, and `reason`, why it queued the request
    lock_tries      how often two renames could not be made because readers held the table
    outputs         the directories that were published; empty where only something had to be cleaned
    published_ms    when they were
    inputs          a digest of what they were made of, see `planning.results`
    undone          the directory of the place in which they lie since they were taken back
    evidence        by directory, which transactions and locks existed when it was published or first seen (Hive 3.1);
                    the empty name stands for the publication itself, where it left nothing
    table_id        which table, at which place, the evidence is of
    first_seen      by directory, when the cleaner first saw it, epoch seconds (without a metastore)
    files           the fingerprint of the place of a request that was not carried out, see `service.attempts`
    conflict        that request ended by a conflict, which says nothing of the place
    unverified      the directories that readers see of a result that is to be verified and is not yet; empty where
                    they see none of it, and once it is verified
    differs         the result was compared and is not what it was made of, or that could not be told
    problems        why a stored fact is not understood, by the name of its field here, which has its default then
    """

    location: Location | None = _fact("location", parse_location, attrgetter("stored_text"))
    write_ids: ValidWriteIdList | None = _fact("acidlib.write.ids", ValidWriteIdList.parse, ValidWriteIdList.format)
    generation: Generation | None = _fact("acidlib.hive.version", lambda text: Generation(int(text)), "{:d}".format)
    table_kind: str | None = _fact("acidlib.table.kind")
    columns: str | None = _fact("acidlib.columns")
    visibility_txn: int | None = _fact("acidlib.visibility.txn", int)
    witness: str | None = _fact("acidlib.witness")
    metastore: str | None = _fact("acidlib.metastore")
    process: str | None = _fact("acidlib.process")
    deltas: int | None = _fact("acidlib.deltas", int)
    bytes: int | None = _fact("acidlib.bytes", int)
    reason: str | None = _fact("acidlib.reason")
    lock_tries: int = _fact("acidlib.lock.tries", int, default=0)
    outputs: tuple[str, ...] | None = _fact("acidlib.outputs", _names_of, ",".join)
    published_ms: int | None = _fact("acidlib.published.ms", int)
    inputs: str | None = _fact("acidlib.inputs")
    undone: str | None = _fact("acidlib.undone")
    evidence: Mapping[str, Evidence] = _fact("acidlib.evidence", _evidence_of, _format_evidence, default_factory=dict)
    table_id: str | None = _fact("acidlib.table.id")
    first_seen: Mapping[str, float] = _fact("acidlib.first.seen", _times_of, json.dumps, default_factory=dict)
    files: str | None = _fact("acidlib.files")
    conflict: bool = _fact("acidlib.conflict", parse_flag, lambda flag: str(flag).lower(), default=False)
    unverified: tuple[str, ...] | None = _fact(UNVERIFIED, _names_of, ",".join)
    differs: bool = _fact("acidlib.differs", parse_flag, lambda flag: str(flag).lower(), default=False)
    problems: Mapping[str, str] = field(default_factory=dict)

    def updated(self, newer: RequestFacts) -> RequestFacts:
        """Return these facts, with what `newer` states in place of what they state."""
        stated = newer._stated()
        return replace(self, **stated) if stated else self

    def properties(self) -> dict[str, str]:
        """Return what is stated, as it is stored."""
        return {_STORED[name]["key"]: _STORED[name]["write"](value) for name, value in self._stated().items()}

    def _stated(self) -> dict[str, Any]:
        if self is NO_FACTS:
            return {}
        return {name: value for name, default in _DEFAULTS.items() if (value := getattr(self, name)) != default}


NO_FACTS = RequestFacts()
_STORED = {fact.name: fact.metadata for fact in fields(RequestFacts) if fact.metadata}
_DEFAULTS = {name: getattr(NO_FACTS, name) for name in _STORED}


def split_properties(properties: Mapping[str, str]) -> tuple[RequestFacts, dict[str, str]]:
    """Return the facts among the properties of a request, and all other properties.

    What is not understood stays among the others, as it is stored, and `RequestFacts.problems` tells it.
    """
    found: dict[str, Any] = {}
    others = dict(properties)
    problems = {}
    for name, stored in _STORED.items():
        key = stored["key"]
        if key not in properties:
            continue
        try:
            found[name] = stored["read"](properties[key])
        except (AcidError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            problems[name] = f"its {key} is {properties[key]!r}: {error}"
        else:
            del others[key]
    return RequestFacts(**found, problems=problems), others


_FILES = re.compile(r"(.*) \[files (.*?)(, conflict)?\]", re.DOTALL)
_DIFFERS = " [not verified]"


def message_with_facts(reason: str, noted: RequestFacts) -> str:
    """Return why a request ended, with the facts `files`, `conflict` and `differs` behind it.

    Hive 4 keeps nothing else of a request that was not carried out; `facts_in_message` reads it.
    """
    files = "" if noted.files is None else f" [files {noted.files}{', conflict' if noted.conflict else ''}]"
    return f"{reason}{files}{_DIFFERS if noted.differs else ''}"


def facts_in_message(error_message: str | None) -> tuple[str, RequestFacts]:
    """Return the reason and the facts that `message_with_facts` made the message of."""
    text = error_message or ""
    reason = text.removesuffix(_DIFFERS)
    differs = reason != text
    stated = _FILES.fullmatch(reason)
    if stated is None:
        return reason, RequestFacts(differs=differs)
    return stated[1], RequestFacts(files=stated[2], conflict=stated[3] is not None, differs=differs)


class CompactionType(enum.Enum):
    """The kind of a compaction; the value is the letter in the queue's tables. All but the last are done here."""

    MINOR = "i"
    MAJOR = "a"
    REBALANCE = "r"
    ABORT_TXN_CLEANUP = "c"

    @property
    def label(self) -> str:
        """`MINOR` or `MAJOR`, as SHOW COMPACTIONS prints it."""
        return self.name

    @property
    def makes_base(self) -> bool:
        """Whether it reads all rows and makes a base of them."""
        return self in (CompactionType.MAJOR, CompactionType.REBALANCE)

    @classmethod
    def parse(cls, text: str) -> CompactionType:
        """Return the kind of a letter or a label in any case; raises RefusedError for anything else."""
        for kind in cls:
            if text == kind.value or text.upper() == kind.name:
                return kind
        raise RefusedError(f"Cannot handle a compaction of type {text!r}: there is no such type")


class State(enum.Enum):
    """The state of a request; the value is the letter in the queue's tables."""

    INITIATED = "i"
    WORKING = "w"
    READY_FOR_CLEANING = "r"
    FAILED = "f"
    SUCCEEDED = "s"
    ATTEMPTED = "a"
    REFUSED = "c"
    ABORTED = "x"

    @property
    def label(self) -> str:
        """The name SHOW COMPACTIONS prints (for `a`, the name of Hive 4; see `label_of`)."""
        return _LABELS[self]

    def label_of(self, generation: Generation) -> str:
        """Return the name that Hive of a generation prints: `a` was `attempted` in Hive 3.1."""
        if self is State.ATTEMPTED and generation == Generation.HIVE3:
            return "attempted"
        return _LABELS[self]

    @classmethod
    def parse(cls, text: str) -> State:
        """Return the state of a letter or a shown name; raises RefusedError for anything else."""
        for state in cls:
            if text == state.value or text == _LABELS[state] or (text == "attempted" and state is State.ATTEMPTED):
                return state
        raise RefusedError(f"Cannot handle a compaction in state {text!r}: there is no such state")


_LABELS = {
    State.INITIATED: "initiated",
    State.WORKING: "working",
    State.READY_FOR_CLEANING: "ready for cleaning",
    State.FAILED: "failed",
    State.SUCCEEDED: "succeeded",
    State.ATTEMPTED: "did not initiate",
    State.REFUSED: "refused",
    State.ABORTED: "aborted",
}


_COMMIT_NOTE = re.compile(r"acid:(\d+):(\d+)", re.ASCII)


def commit_note(next_txn_id: int, commit_ms: int) -> str:
    """Return the text that stands for the commit of a rebalance, of which Hive 4 notes nothing itself.

    It is kept as the id of the request's job, which holds 32 characters and is of no use otherwise. No transaction that
    was open at the commit is above `next_txn_id`, and `commit_ms` is no earlier than it was.
    """
    return f"acid:{next_txn_id}:{commit_ms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """One row of the queue or of the history. Times are epoch milliseconds; unknown is None.

    `properties` are key and value pairs in their order, as whoever asked for the compaction gave them; `facts` are what
    this library notes. `highest_write_id` is the high-water mark of the compaction, recorded with its result at the
    latest; the cleaner computes what is obsolete for it and nothing newer. `txn_id` is the transaction of the
    compaction, `next_txn_id` the highest id that existed when it committed (both Hive 4). `bucket_count` and `order_by`
    are of a rebalance, where they are stated: a metastore tells them of a request that it hands out, and of no other.
    Versions of worker and initiator are known to Hive 4 alone.
    """

    id: int
    ref: TableRef
    type: CompactionType
    state: State = State.INITIATED
    properties: tuple[tuple[str, str], ...] = ()
    facts: RequestFacts = NO_FACTS
    worker_id: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    enqueue_ms: int | None = None
    commit_ms: int | None = None
    cleaner_start_ms: int | None = None
    highest_write_id: int | None = None
    run_as: str | None = None
    error_message: str | None = None
    hadoop_job_id: str | None = None
    initiator_id: str | None = None
    pool: str | None = None
    retry_retention_ms: int = 0
    txn_id: int | None = None
    next_txn_id: int | None = None
    bucket_count: int | None = None
    order_by: str | None = None
    worker_version: str | None = None
    initiator_version: str | None = None

    @property
    def noted_commit(self) -> tuple[int, int] | None:
        """The values of the `commit_note` of a rebalance, where a cleaner left one."""
        found = _COMMIT_NOTE.fullmatch(self.hadoop_job_id or "")
        if found is None or self.type is not CompactionType.REBALANCE:
            return None
        return int(found[1]), int(found[2])

    def require_understood(self, action: str, *facts: str) -> None:
        """Raise RefusedError, "Cannot `action` ...", where one of these facts (of all, unless some are named) is
        stored and not understood.
        """
        problems = [why for name, why in self.facts.problems.items() if name in facts or not facts]
        if problems:
            listed = "; ".join(problems)
            raise RefusedError(
                f"Cannot {action} {self.ref}: request {self.id} is not understood, as one of a newer version may "
                f"be: {listed}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The answer to a request: its id, or that of the one it duplicates, that one's state and the reason.

    A metastore of Hive 4 tells neither id nor state of the other one (-1, refused): its reason names it. `working` is
    the new request where a worker has it from the beginning on.
    """

    id: int
    accepted: bool
    state: State | None = None
    reason: str | None = None
    working: CompactionRequest | None = None
