"""What this library notes of a compaction request, typed; in the queue's tables they are properties of the request.

Only `split_properties` and `RequestFacts.properties` know the names and texts that are stored. Hive copies properties
along with a request and reads none of these names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from acidlib.errors import AcidError
from acidlib.model.generation import Generation
from acidlib.model.location import Location, parse_location
from acidlib.model.writeids import ValidWriteIdList

UNVERIFIED = "acidlib.unverified"
"""The key of the fact that says what is not verified; it stands wherever something was to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The highest transaction and lock ids that existed at a moment after a publication; `ms` is that moment."""

    txn: int
    lock: int
    ms: int

    def newer(self, other: Evidence | None) -> Evidence:
        """The later of two; ids tell, for the clocks of two hosts may differ."""
        return self if other is None or (self.txn, self.lock, self.ms) >= (other.txn, other.lock, other.ms) else other


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """Facts of one request; a field with its default is not stated. Times are epoch milliseconds unless said otherwise.

    location        where the table or partition lies; without a metastore it tells places of one name apart
    write_ids       the readers' list of what is committed there
    generation      whose names and rules hold there
    table_kind      "full" or "insert-only", where the caller said it
    columns         the table's as Hive's text `struct<name:type,...>`, where the caller said them
    visibility_txn  the transaction in the names of the results
    witness         a file by which the place is known again, see `storage.witness`; empty where there was none
    metastore       the URIs of the metastore that a request in our own queue was made for
    process         of the run that made the request for itself: if it waits, that run has ended
    deltas, bytes   what the initiator counted, and `reason`, why it queued the request
    lock_tries      how often two renames could not be made because readers held the table
    outputs         the directories that were published; empty where only something had to be cleaned
    published_ms    when they were
    inputs          a digest of what they were made of, see `planning.undo`
    undone          the directory of the place in which they lie since they were taken back
    evidence        by directory, which transactions and locks existed when it was published or first seen (Hive 3.1);
                    the empty name stands for the publication itself, where it left nothing
    table_id        which table, at which place, the evidence is of
    first_seen      by directory, when the cleaner first saw it, epoch seconds (without a metastore)
    files           what a request that was not carried out notes of the place, see `engine.attempts`
    unverified      the directories that readers see of a result that is to be verified and is not yet; empty where
                    they see none of it, and once it is verified
    problems        why a stored fact is not understood, by the name of its field here, which has its default then
    """

    location: Location | None = None
    write_ids: ValidWriteIdList | None = None
    generation: Generation | None = None
    table_kind: str | None = None
    columns: str | None = None
    visibility_txn: int | None = None
    witness: str | None = None
    metastore: str | None = None
    process: str | None = None
    deltas: int | None = None
    bytes: int | None = None
    reason: str | None = None
    lock_tries: int = 0
    outputs: tuple[str, ...] | None = None
    published_ms: int | None = None
    inputs: str | None = None
    undone: str | None = None
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    table_id: str | None = None
    first_seen: Mapping[str, float] = field(default_factory=dict)
    files: str | None = None
    unverified: tuple[str, ...] | None = None
    problems: Mapping[str, str] = field(default_factory=dict)

    def updated(self, newer: RequestFacts) -> RequestFacts:
        """These facts, with what `newer` states in place of what they state."""
        stated = newer._stated()
        return replace(self, **stated) if stated else self

    def properties(self) -> dict[str, str]:
        """What is stated, as it is stored."""
        return {_STORED[name].key: _STORED[name].write(value) for name, value in self._stated().items()}

    def _stated(self) -> dict[str, Any]:
        if self is NO_FACTS:
            return {}
        return {name: value for name, default in _DEFAULTS.items() if (value := getattr(self, name)) != default}


NO_FACTS = RequestFacts()


def split_properties(properties: Mapping[str, str]) -> tuple[RequestFacts, dict[str, str]]:
    """The facts among the properties of a request, and all other properties.

    What is not understood stays among the others, as it is stored, and `RequestFacts.problems` tells it.
    """
    found: dict[str, Any] = {}
    others = dict(properties)
    problems = {}
    for name, stored in _STORED.items():
        if stored.key not in properties:
            continue
        try:
            found[name] = stored.read(properties[stored.key])
        except (AcidError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            problems[name] = f"its {stored.key} is {properties[stored.key]!r}: {error}"
        else:
            del others[stored.key]
    return RequestFacts(**found, problems=problems), others


def _generation_of(text: str) -> Generation:
    return Generation(int(text))


def _format_generation(generation: Generation) -> str:
    return str(int(generation))


def _evidence_of(text: str) -> dict[str, Evidence]:
    found = json.loads(text)
    return {str(name): Evidence(txn=int(txn), lock=int(lock), ms=int(ms)) for name, (txn, lock, ms) in found.items()}


def _format_evidence(evidence: Mapping[str, Evidence]) -> str:
    return json.dumps({name: [one.txn, one.lock, one.ms] for name, one in evidence.items()}, separators=(",", ":"))


def _times_of(text: str) -> dict[str, float]:
    return {str(name): float(seconds) for name, seconds in json.loads(text).items()}


def _names_of(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


@dataclass(frozen=True, slots=True)
class _Stored:
    """The key of a property, and how its text is read and written."""

    key: str
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str


_STORED = {
    "location": _Stored("location", parse_location, attrgetter("stored_text")),
    "write_ids": _Stored("acidlib.write.ids", ValidWriteIdList.parse, ValidWriteIdList.format),
    "generation": _Stored("acidlib.hive.version", _generation_of, _format_generation),
    "table_kind": _Stored("acidlib.table.kind"),
    "columns": _Stored("acidlib.columns"),
    "visibility_txn": _Stored("acidlib.visibility.txn", int),
    "witness": _Stored("acidlib.witness"),
    "metastore": _Stored("acidlib.metastore"),
    "process": _Stored("acidlib.process"),
    "deltas": _Stored("acidlib.deltas", int),
    "bytes": _Stored("acidlib.bytes", int),
    "reason": _Stored("acidlib.reason"),
    "lock_tries": _Stored("acidlib.lock.tries", int),
    "outputs": _Stored("acidlib.outputs", _names_of, ",".join),
    "published_ms": _Stored("acidlib.published.ms", int),
    "inputs": _Stored("acidlib.inputs"),
    "undone": _Stored("acidlib.undone"),
    "evidence": _Stored("acidlib.evidence", _evidence_of, _format_evidence),
    "table_id": _Stored("acidlib.table.id"),
    "first_seen": _Stored("acidlib.first.seen", _times_of, json.dumps),
    "files": _Stored("acidlib.files"),
    "unverified": _Stored(UNVERIFIED, _names_of, ",".join),
}
_DEFAULTS = {name: getattr(NO_FACTS, name) for name in _STORED}
