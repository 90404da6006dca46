"""Earlier attempts at places: which requests were refused or failed there, and for which files.

A request that is refused for a reason that only the owner can remove, or that fails, notes a fingerprint of its place.
As long as the place has the same fingerprint, the initiator does not queue a refused compaction again, and a run on
selected places begins with the others. A conflict is noted, too: it says nothing of the place, so only the order of a
run depends on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from acidlib.acid.listing import has_hidden_part
from acidlib.config.settings import Settings
from acidlib.model.requests import CompactionRequest, CompactionType, State, facts_in_message
from acidlib.model.tables import Storage, TableRef
from acidlib.places.place import ListedPlace, Place
from acidlib.version import __version__

COUNTED = (State.REFUSED, State.FAILED, State.READY_FOR_CLEANING)
"""The states of requests that were not carried out at a place, or that await its cleaning."""

# properties that Hive's statements and statistics change while the table stays the same (StatsSetupConst,
# hive_metastoreConstants)
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


def fingerprint(listed: ListedPlace, settings: Settings) -> str:
    """Return a short digest of everything at a place that decides how its compaction ends.

    That is: the files that readers see (path, length, modification), those of them that the list of write ids lets a
    compaction read, the columns and properties of the table if a metastore has them, the caller's interpretation of
    the table, how its readers match columns by the `settings` of the run, and the version of this library, as the next
    one may do more.
    """
    place, listing, state = listed.place, listed.listing, listed.state
    table_facts: Any = None
    if place.facts is not None:
        table, partition = place.facts.table, place.facts.partition
        properties = sorted((key, value) for key, value in table.properties.items() if key not in _VOLATILE)
        table_facts = [_storage(table.storage), None if partition is None else _storage(partition.storage), properties]
    parts = [
        __version__,
        sorted((file.path, file.length, file.modified) for file in listing.files if not has_hidden_part(file.path)),
        sorted(path for path in listing.directories if not has_hidden_part(path)),
        [
            (int(listed.hive.names), int(listed.hive.reader)),
            None if state.base is None else state.base.path,
            [(delta.path, delta.wholly_aborted) for delta in state.deltas],
            state.aborted,
            list(state.ignored),
        ],
        repr(place.matching(settings, listed.hive.reader)),
        place.interpretation.table_kind,
        place.interpretation.columns,
        table_facts,
        sorted(place.request_properties.items()),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _storage(storage: Storage) -> Any:
    columns = [(column.name, column.type) for column in storage.columns]
    return [columns, storage.input_format, storage.serde, storage.buckets, storage.bucket_columns, storage.sort_columns]


def awaited_marks(rows: Iterable[CompactionRequest]) -> tuple[int, ...]:
    """Return the marks of a place's requests that are ready for cleaning after a compaction.

    A request without a mark merged nothing but original files, whose mark 0 reads like none.
    """
    return tuple(
        row.highest_write_id or 0
        for row in rows
        if row.state is State.READY_FOR_CLEANING and row.type is not CompactionType.ABORT_TXN_CLEANUP
    )


class Attempts:
    """The requests of a queue and its history in the states of `COUNTED`, by place."""

    def __init__(self, rows: Iterable[CompactionRequest], settings: Settings) -> None:
        self._settings = settings
        self._rows: dict[Any, list[CompactionRequest]] = {}
        for row in rows:
            # without a metastore another run may have called the same place by another name
            self._rows.setdefault(row.facts.location or row.ref, []).append(row)

    @property
    def failed(self) -> set[TableRef]:
        """The tables and partitions whose requests failed."""
        return {row.ref for rows in self._rows.values() for row in rows if row.state is State.FAILED}

    def last(self, listed: ListedPlace, kind: CompactionType) -> CompactionRequest | None:
        """Return the newest request of a kind that was not carried out at the place as it still is, or None."""
        ended = self._ended(listed, kind)
        return ended[-1] if ended else None

    def refusal(self, listed: ListedPlace, kind: CompactionType) -> str | None:
        """Return the reason if a compaction would be refused as it was before; else, or if that is unknown, None."""
        ended = [row for row in self._ended(listed, kind) if not row.facts.conflict]
        if not ended or ended[-1].state is not State.REFUSED:
            return None
        last = ended[-1]
        message = last.error_message or ""
        reason, facts = facts_in_message(message)
        if facts.files != last.facts.files:  # only a metastore of Hive 4 keeps the facts in the message
            reason = message
        return f"request {last.id} was refused, and nothing has changed there since: {reason}"

    def awaited_marks(self, place: Place) -> tuple[int, ...]:
        """Return the marks up to which a place awaits cleaning."""
        return awaited_marks(self._at(place))

    def _ended(self, listed: ListedPlace, kind: CompactionType) -> list[CompactionRequest]:
        """Return the requests that were not carried out at the place as it still is, oldest first."""
        ended = [
            row
            for row in self._at(listed.place)
            if row.type is kind and row.state in (State.REFUSED, State.FAILED) and row.facts.files is not None
        ]
        if not ended:
            return []
        files = fingerprint(listed, self._settings)
        return sorted((row for row in ended if row.facts.files == files), key=lambda row: row.id)

    def _at(self, place: Place) -> list[CompactionRequest]:
        return self._rows.get(place.location, []) + self._rows.get(place.ref, [])
