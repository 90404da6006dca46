"""What was tried at places before: which requests were refused or failed there, and for which files.

A place that was refused for what only its owner can mend, or that failed, is the same place as long as nothing changes
there. So a request that ends like that notes a fingerprint of the place, and the next run can tell: the initiator
does not ask again for what was refused, and a run that is asked for places by name begins with the others. A conflict
is noted too: it may never end, but it says nothing of the place, so only the order of a run goes by it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from acidlib import __version__
from acidlib.config.settings import Settings
from acidlib.model.listing import has_hidden_part
from acidlib.model.requests import CompactionRequest, CompactionType, State, facts_in_message
from acidlib.model.tables import Storage, TableRef
from acidlib.service.places import ListedPlace, Target

COUNTED = (State.REFUSED, State.FAILED, State.READY_FOR_CLEANING)
"""The states of requests that tell what was tried at a place, and whether it awaits cleaning."""

_CONFLICT = ", conflict"
# what Hive's statements and statistics change in the properties of a table without changing what it is
# (StatsSetupConst, hive_metastoreConstants)
_VOLATILE = frozenset(
    {
        "COLUMN_STATS_ACCURATE",
        "DO_NOT_UPDATE_STATS",
        "STATS_GENERATED",
        "STATS_GENERATED_VIA_STATS_TASK",
        "last_modified_by",
        "last_modified_time",
        "numFiles",
        "numFilesErasureCoded",
        "numPartitions",
        "numRows",
        "rawDataSize",
        "totalSize",
        "transient_lastDdlTime",
    }
)


def fingerprint(place: ListedPlace, settings: Settings) -> str:
    """Return a short digest of all that decides how a compaction of a place ends, but for what surrounds it.

    The files that readers see (path, length, modification), which of them the list of write ids lets a compaction read,
    the columns and properties of the table where a metastore tells them, how the caller wants the table understood, how
    its readers find columns by the `settings` of the run, and the version of this library, as the next may do more.
    """
    target, listing, state = place.target, place.listing, place.state
    facts: Any = None
    if target.facts is not None:
        table, partition = target.facts.table, target.facts.partition
        properties = sorted((key, value) for key, value in table.properties.items() if key not in _VOLATILE)
        facts = [_storage(table.storage), None if partition is None else _storage(partition.storage), properties]
    seen = [
        __version__,
        sorted((file.path, file.length, file.modified) for file in listing.files if not has_hidden_part(file.path)),
        sorted(path for path in listing.directories if not has_hidden_part(path)),
        [
            int(place.generation),
            None if state.base is None else state.base.path,
            [(delta.path, delta.wholly_aborted) for delta in state.deltas],
            state.aborted,
            list(state.ignored),
        ],
        repr(target.matching(settings, place.generation)),
        target.interpretation.table_kind,
        target.interpretation.columns,
        facts,
        sorted(target.request_properties.items()),
    ]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:16]


def _storage(storage: Storage) -> Any:
    columns = [(column.name, column.type) for column in storage.columns]
    return [columns, storage.input_format, storage.serde, storage.buckets, storage.bucket_columns, storage.sort_columns]


def note_of(files: str, *, is_conflict: bool = False) -> str:
    """Return the note about a place of a request that was not carried out, by its fingerprint."""
    return files + _CONFLICT if is_conflict else files


def awaited_marks(rows: Iterable[CompactionRequest]) -> tuple[int, ...]:
    """Return the marks of those requests of a place that are ready for cleaning after a compaction.

    A request without a mark merged nothing but original files, whose mark 0 reads like none.
    """
    return tuple(
        row.highest_write_id or 0
        for row in rows
        if row.state is State.READY_FOR_CLEANING and row.type is not CompactionType.ABORT_TXN_CLEANUP
    )


class Attempts:
    """The requests of a queue and its history in the states that are `COUNTED`, by place."""

    def __init__(self, rows: Iterable[CompactionRequest], settings: Settings) -> None:
        self._settings = settings
        self._rows: dict[Any, list[CompactionRequest]] = {}
        for row in rows:
            # without a metastore another run may have called the same place by another name
            self._rows.setdefault(row.facts.location or row.ref, []).append(row)

    @property
    def failed(self) -> set[TableRef]:
        """The tables and partitions of requests that failed."""
        return {row.ref for rows in self._rows.values() for row in rows if row.state is State.FAILED}

    def last(self, place: ListedPlace, kind: CompactionType) -> CompactionRequest | None:
        """Return the newest request of a kind that was not carried out at a place, for what it still is, if any."""
        found = self._ended(place, kind)
        return found[-1] if found else None

    def refusal(self, place: ListedPlace, kind: CompactionType) -> str | None:
        """Return why a compaction would be refused as it was before; None when that is not known."""
        found = [row for row in self._ended(place, kind) if not (row.facts.files or "").endswith(_CONFLICT)]
        if not found or found[-1].state is not State.REFUSED:
            return None
        last = found[-1]
        reason = last.error_message or ""
        without_note, noted = facts_in_message(reason)
        if noted.files == last.facts.files:  # a metastore of Hive 4 keeps the note in the message
            reason = without_note
        return f"request {last.id} was refused, and nothing has changed there since: {reason}"

    def awaited_marks(self, target: Target) -> tuple[int, ...]:
        """Return up to which write ids a place awaits cleaning."""
        return awaited_marks(self._at(target))

    def _ended(self, place: ListedPlace, kind: CompactionType) -> list[CompactionRequest]:
        """Return the requests that were not carried out there for what it still is, oldest first."""
        found = [
            row
            for row in self._at(place.target)
            if row.type is kind and row.state in (State.REFUSED, State.FAILED) and row.facts.files is not None
        ]
        if not found:
            return []
        files = fingerprint(place, self._settings)
        notes = (note_of(files), note_of(files, is_conflict=True))
        return sorted((row for row in found if row.facts.files in notes), key=lambda row: row.id)

    def _at(self, target: Target) -> list[CompactionRequest]:
        return self._rows.get(target.location, []) + self._rows.get(target.ref, [])
