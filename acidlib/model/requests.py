"""Compaction requests: kinds, states, the columns of the queue, and the facts that this library stores with a request.

Maps of strings are kept in the metastore's database as text. Source: Hive `StringableMap`: the number of entries and a
colon, then for each string its length, a colon and the string, with nothing between. Lengths count UTF-16 units, as
Java's do; -1 is a null.

The facts of this library are typed here; in the queue's tables they are properties of the request. Only
`split_properties` and `RequestFacts.properties` know the names and texts that are stored. Hive copies properties along
with a request and reads none of these names.

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
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Self

from acidlib.acid.names import Calls, Generation
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.arguments import said
from acidlib.errors import AcidError, RefusedError
from acidlib.location import Location, parse_location
from acidlib.model.tables import TableRef
from acidlib.wording import parse_flag

_IDENTITY = re.compile(r"[^:]*:[0-9]+:[0-9]+")
_NATIVE = f"utf-16-{sys.byteorder[0]}e"


def format_map(entries: Mapping[str | None, str | None]) -> str:
    """Return the text of a map, in the map's own order; an empty map is `0:`."""

    def string(value: str | None) -> str:
        if value is None:
            return "-1:"
        return f"{len(value) if value.isascii() else len(_units(value)) // 2}:{value}"

    return f"{len(entries)}:" + "".join(string(part) for entry in entries.items() for part in entry)


def parse_map(text: str) -> dict[str | None, str | None]:
    """Return the map of a text; raises RefusedError, naming the text and the character, when it does not parse."""
    # each character is one UTF-16 unit
    units = text if text.isascii() else "".join(map(chr, array("H", text.encode(_NATIVE, "surrogatepass"))))
    at = 0

    def wrong(reason: str) -> RefusedError:
        return RefusedError(f"Cannot read {text!r}: {reason} at character {at}")

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
"""The key of `RequestFacts.unverified`, which every request with a result to verify has."""


class ActivityMark(NamedTuple):
    """The highest transaction and lock ids that existed after a publication, at `ms` (epoch milliseconds).

    ActivityMark is ordered by time: by the ids first, for the clocks of two hosts may differ.
    """

    txn: int
    lock: int
    ms: int


def _fact(key: str, read: Callable[[str], Any] = str, write: Callable[[Any], str] = str, **default: Any) -> Any:
    """Return the field of a fact that is stored as the property `key`, in the text that `write` makes of it."""
    return field(metadata={"key": key, "read": read, "write": write}, **default or {"default": None})


def _names_of(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _identity_of(text: str) -> str:
    if not _IDENTITY.fullmatch(text):
        raise ValueError(f"{text!r} is not the identity of a directory")
    return text


def _map_of(text: str, read: Callable[[Any], Any]) -> dict[str, Any]:
    return {str(name): read(value) for name, value in json.loads(text).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """Facts of one request; a field with its default is not stated. Times are epoch milliseconds unless noted.

    location        location of the table or partition; without a metastore it distinguishes places of one name
    root            the part of a local location that is trusted, see `Location`
    directory       identity of the directory at a local location, see `Location`
    write_ids       the readers' list of write ids
    generation      of the Hive of the place, as `--hive-version` names it
    table_kind      "full" or "insert-only", where the caller stated it
    columns         columns of the table as Hive's text `struct<name:type,...>`, where the caller stated them
    visibility_txn  the transaction in the names of the results
    identity_file         a file by which the place is recognised, see `stores.listing`; empty where there was none
    metastore       the URIs of the metastore for which a request in our own queue was made
    process         identity of the run that made the request for itself: if the request waits, that run has ended
    deltas, bytes   figures of the initiator, and `reason`, why it queued the request
    lock_tries      number of times that two renames failed as readers held the table
    outputs         the published directories; empty where there was only something to clean
    published_ms    when they were published
    inputs          a digest of their inputs, see `planning.results`
    undone          the directory at the place to which they were moved when they were taken back
    evidence        by directory, the transactions and locks that existed when it was published or first seen (Hive
                    3.1); the empty name stands for a publication without a directory
    table_id        identity of the table and place of the evidence
    first_seen      by directory, epoch seconds at which the cleaner first saw it (without a metastore)
    files           the fingerprint of the place of a request that was not carried out, see `places.attempts`
    conflict        that request ended by a conflict, which says nothing of the place
    unverified      the directories that readers see of a result that is still to be verified; empty where they see
                    none, and once it is verified
    differs         the verification found a difference, or could not be done
    problems        why a stored fact cannot be read, by the name of its field here, which has its default then
    """

    location: Location | None = _fact("location", parse_location, attrgetter("stored_text"))
    root: str | None = _fact("acidlib.root")
    directory: str | None = _fact("acidlib.directory", _identity_of)
    write_ids: ValidWriteIdList | None = _fact("acidlib.write.ids", ValidWriteIdList.parse, ValidWriteIdList.format)
    generation: Generation | None = _fact("acidlib.hive.version", lambda text: Generation(int(text)), "{:d}".format)
    table_kind: str | None = _fact("acidlib.table.kind")
    columns: str | None = _fact("acidlib.columns")
    visibility_txn: int | None = _fact("acidlib.visibility.txn", int)
    identity_file: str | None = _fact("acidlib.witness")
    metastore: str | None = _fact("acidlib.metastore")
    process: str | None = _fact("acidlib.process")
    deltas: int | None = _fact("acidlib.deltas", int)
    bytes: int | None = _fact("acidlib.bytes", int)
    reason: str | None = _fact("acidlib.reason", str, said)
    lock_tries: int = _fact("acidlib.lock.tries", int, default=0)
    outputs: tuple[str, ...] | None = _fact("acidlib.outputs", _names_of, ",".join)
    published_ms: int | None = _fact("acidlib.published.ms", int)
    inputs: str | None = _fact("acidlib.inputs")
    undone: str | None = _fact("acidlib.undone")
    evidence: Mapping[str, ActivityMark] = _fact(
        "acidlib.evidence",
        lambda text: _map_of(text, lambda ids: ActivityMark(*map(int, ids))),
        partial(json.dumps, separators=(",", ":")),
        default_factory=dict,
    )
    table_id: str | None = _fact("acidlib.table.id")
    first_seen: Mapping[str, float] = _fact(
        "acidlib.first.seen", lambda text: _map_of(text, float), json.dumps, default_factory=dict
    )
    files: str | None = _fact("acidlib.files")
    conflict: bool = _fact("acidlib.conflict", parse_flag, lambda flag: str(flag).lower(), default=False)
    unverified: tuple[str, ...] | None = _fact(UNVERIFIED, _names_of, ",".join)
    differs: bool = _fact("acidlib.differs", parse_flag, lambda flag: str(flag).lower(), default=False)
    problems: Mapping[str, str] = field(default_factory=dict)

    def updated(self, newer: RequestFacts) -> RequestFacts:
        """Return these facts, with those that `newer` states in their place."""
        stated = newer._stated()
        return replace(self, **stated) if stated else self

    def properties(self) -> dict[str, str]:
        """Return the stated facts as properties, as they are stored."""
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

    A fact that cannot be read stays among the others, as it is stored, and `RequestFacts.problems` has the reason.
    """
    facts: dict[str, Any] = {}
    others = dict(properties)
    problems = {}
    for name, stored in _STORED.items():
        key = stored["key"]
        if key not in properties:
            continue
        try:
            facts[name] = stored["read"](properties[key])
        except (AcidError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            problems[name] = f"its {key} is {properties[key]!r}: {error}"
        else:
            del others[key]
    return RequestFacts(**facts, problems=problems), others


_FILES = re.compile(r"(.*) \[files (.*?)(, conflict)?\]", re.DOTALL)
_DIFFERS = " [not verified]"


def message_with_facts(reason: str, noted: RequestFacts) -> str:
    """Return why a request ended, with the facts `files`, `conflict` and `differs` behind it.

    Hive 4 stores nothing else of a request that was not carried out; `facts_in_message` reads the text.
    """
    files = "" if noted.files is None else f" [files {noted.files}{', conflict' if noted.conflict else ''}]"
    return f"{reason}{files}{_DIFFERS if noted.differs else ''}"


def facts_in_message(error_message: str | None) -> tuple[str, RequestFacts]:
    """Return the reason and the facts of a message of `message_with_facts`."""
    text = error_message or ""
    reason = text.removesuffix(_DIFFERS)
    differs = reason != text
    stated = _FILES.fullmatch(reason)
    if stated is None:
        return reason, RequestFacts(differs=differs)
    return stated[1], RequestFacts(files=stated[2], conflict=stated[3] is not None, differs=differs)


class CompactionType(enum.Enum):
    """The kind of a compaction; the value is the letter in the queue's tables. The last is left to Hive."""

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
        """Whether the compaction reads all rows and makes a base of them."""
        return self in (CompactionType.MAJOR, CompactionType.REBALANCE)

    @classmethod
    def parse(cls, text: str) -> CompactionType:
        """Return the kind of a letter or a label in any case; raises RefusedError for anything else."""
        for kind in cls:
            if text == kind.value or text.upper() == kind.name:
                return kind
        raise RefusedError(f"Cannot handle a compaction of type {text!r}: there is no such type")


class State(enum.Enum):
    """The state of a request; the value is the letter in the queue's tables.

    label  the name SHOW COMPACTIONS prints (for `a`, the name of Hive 4; see `label_of`)
    """

    INITIATED = "i", "initiated"
    WORKING = "w", "working"
    READY_FOR_CLEANING = "r", "ready for cleaning"
    FAILED = "f", "failed"
    SUCCEEDED = "s", "succeeded"
    ATTEMPTED = "a", "did not initiate"
    REFUSED = "c", "refused"
    ABORTED = "x", "aborted"

    _value_: str
    label: str

    def __new__(cls, letter: str, label: str) -> Self:
        state = object.__new__(cls)
        state._value_, state.label = letter, label
        return state

    def label_of(self, calls: Calls) -> str:
        """Return the name that Hive prints: `a` was `attempted` in Hive 3.1."""
        if self is State.ATTEMPTED and calls == Generation.HIVE3:
            return "attempted"
        return self.label

    @classmethod
    def parse(cls, text: str) -> State:
        """Return the state of a letter or a shown name; raises RefusedError for anything else."""
        for state in cls:
            if text == state.value or text == state.label or (text == "attempted" and state is State.ATTEMPTED):
                return state
        raise RefusedError(f"Cannot handle a compaction in state {text!r}: there is no such state")


_COMMIT_NOTE = re.compile(r"acid:(\d+):(\d+)", re.ASCII)


_BUCKET_NOTE = re.compile(r"acid:buckets:(\d+)", re.ASCII)


def bucket_note(buckets: int | None) -> str:
    """Return the text that records the stated number of buckets of a rebalance, which Hive 4 tells its worker alone.

    It is stored as the id of the request's job until the commit is noted there: see `commit_note`.
    """
    return f"acid:buckets:{buckets or 0}"


def commit_note(next_txn_id: int, commit_ms: int) -> str:
    """Return the text that records the commit of a rebalance, which Hive 4 itself does not record.

    It is stored as the id of the request's job, which holds 32 characters and is not used otherwise. No transaction
    that was open at the commit is above `next_txn_id`, and `commit_ms` is no earlier than the commit.
    """
    return f"acid:{next_txn_id}:{commit_ms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """One row of the queue or of the history. Times are epoch milliseconds; unknown is None.

    properties        key and value pairs in their order, from the request's maker; `facts` are this library's
    highest_write_id  high-water mark of the compaction, recorded with its result at the latest; the cleaner removes
                      what is obsolete for it and nothing newer
    txn_id            transaction of the compaction; `next_txn_id` is the highest id at its commit (both Hive 4)
    bucket_count, order_by  of a rebalance, where stated; a metastore gives them only with a request that it hands out
    worker_version, initiator_version  known to Hive 4 alone
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

    def __post_init__(self) -> None:
        """Have the message, which is stored, name arguments in the words of the command line."""
        if self.error_message is not None:
            object.__setattr__(self, "error_message", said(self.error_message))

    @property
    def noted_commit(self) -> tuple[int, int] | None:
        """The values of the `commit_note` of a rebalance, where a cleaner left one."""
        match = _COMMIT_NOTE.fullmatch(self.hadoop_job_id or "")
        if match is None or self.type is not CompactionType.REBALANCE:
            return None
        return int(match[1]), int(match[2])

    @property
    def noted_buckets(self) -> int | None:
        """The number of the `bucket_note` of a rebalance, 0 where none was stated; None without the note."""
        match = _BUCKET_NOTE.fullmatch(self.hadoop_job_id or "")
        return None if match is None else int(match[1])

    def require_understood(self, action: str, *facts: str) -> None:
        """Raise RefusedError, "Cannot `action` ...", where one of the named facts (any, if none is named) is stored and
        cannot be read.
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
    """The answer to a new request: its id, or id and state of the request that it duplicates, with the reason.

    A metastore of Hive 4 gives neither id nor state of the other request (-1, refused), but names it in the reason.
    `working` is the new request if a worker has it from the beginning on.
    """

    id: int
    accepted: bool
    state: State | None = None
    reason: str | None = None
    working: CompactionRequest | None = None
