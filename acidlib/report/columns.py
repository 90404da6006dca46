"""The columns of results as tables of Arrow: the fields of an entry of each list (docs/json.md), whatever it holds."""

import pyarrow as pa

TEXT, NUMBER, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
TEXTS, NUMBERS = pa.list_(TEXT), pa.list_(NUMBER)

Columns = list[tuple[str, pa.DataType]]


def _of(kind: pa.DataType, *names: str) -> Columns:
    """Return columns of one type."""
    return [(name, kind) for name in names]


def _list(*columns: tuple[str, pa.DataType]) -> pa.DataType:
    """Return the type of a list of objects."""
    return pa.list_(pa.struct(columns))


_PLACE = _of(TEXT, "database", "table", "partition", "location")

_COMPACTIONS = [
    ("id", NUMBER),
    *_of(TEXT, "database", "table", "location", "partition", "type", "state", "reason", "publication"),
    ("write_ids", pa.struct(_of(NUMBER, "min", "max", "high_water_mark"))),
    *_of(TEXTS, "inputs", "empty_files", "notes", "output_directories"),
    *_of(NUMBER, "deltas_before", "deltas_after", "bytes_in", "bytes_out"),
    *_of(NUMBER, "rows_in", "rows_deleted", "rows_aborted", "rows_out"),
    *_of(NUMBER, "events_in", "events_aborted", "duplicate_events", "events_out"),
    *_of(NUMBER, "bytes_copied", "bytes_rewritten", "stripes_copied", "stripes_rewritten", "start_ms", "end_ms"),
    *_of(REAL, "seconds", "rewrite_seconds"),
    (
        "verification",
        pa.struct(
            [
                ("share", REAL),
                ("buckets", NUMBERS),
                *_of(NUMBER, "of_buckets", "rows", "events"),
                *_of(TEXTS, "before", "now"),
                *_of(REAL, "seconds", "ratio"),
            ]
        ),
    ),
    ("unverified", FLAG),
    ("statistics", pa.struct([("written", TEXTS), ("reason", TEXT), *_of(NUMBER, "files", "bytes", "rows")])),
    (
        "files",
        _list(
            *_of(TEXT, "directory", "file_name"),
            *_of(NUMBER, "bucket", "bytes", "rows_out", "events_out"),
            ("empty_files", TEXTS),
            (
                "actions",
                _list(
                    ("file", TEXT),
                    *_of(NUMBER, "first_stripe", "stripes"),
                    ("action", TEXT),
                    *_of(NUMBER, "bytes", "rows", "deleted", "aborted"),
                    ("reason", TEXT),
                ),
            ),
        ),
    ),
]
_DECISIONS = [
    *_PLACE,
    ("type", TEXT),
    ("queued", NUMBER),
    ("reason", TEXT),
    *_of(NUMBER, "base_bytes", "delta_bytes", "deltas"),
    *_of(REAL, "ratio", "threshold"),
    *_of(TEXT, "threshold_key", "threshold_source", "outcome"),
    ("failed", FLAG),
]
_CLEANINGS = [
    ("id", NUMBER),
    *_PLACE,
    *_of(TEXT, "state", "reason"),
    *_of(NUMBER, "bytes_removed", "bytes_moved"),
    ("removed", _list(("path", TEXT), ("bytes", NUMBER), *_of(TEXT, "reason", "moved_to"))),
    ("blocked", TEXTS),
    ("waiting", _list(*_of(TEXT, "subject", "reason"))),
]
_PLACES = [
    *_PLACE,
    *_of(NUMBER, "hive_version", "high_water_mark"),
    *_of(NUMBERS, "open_write_ids", "aborted_write_ids"),
    ("error", TEXT),
    (
        "parts",
        _list(
            *_of(TEXT, "path", "kind"),
            *_of(NUMBER, "first_write_id", "last_write_id"),
            *_of(TEXT, "reader", "why"),
            *_of(NUMBER, "files", "bytes", "rows"),
            ("damage", TEXT),
        ),
    ),
]
_REQUESTS = [
    ("id", NUMBER),
    *_of(TEXT, "database", "table", "partition", "type", "state", "worker_host", "worker"),
    *_of(NUMBER, "enqueue_ms", "start_ms", "duration_ms"),
    *_of(TEXT, "hadoop_job_id", "error_message", "initiator_host", "initiator", "pool"),
    *_of(NUMBER, "txn_id", "next_txn_id", "commit_ms", "highest_write_id"),
    ("location", TEXT),
]
_UNDO = [
    ("id", NUMBER),
    *_PLACE,
    *_of(TEXT, "type", "state", "reason"),
    ("result", TEXTS),
    ("moved_to", TEXT),
    *_of(TEXTS, "inputs", "originals"),
]
_CANCELLATIONS = [("id", NUMBER), *_of(TEXT, "database", "table", "partition", "type", "state", "reason")]
_CHECKS = _of(TEXT, "name", "state", "found", "advice")
_WORST_PLACES = _list(
    *_PLACE,
    *_of(NUMBER, "deltas", "small_deltas", "base_bytes", "delta_bytes"),
    ("ratio", REAL),
    *_of(NUMBER, "obsolete", "obsolete_bytes"),
)
_TABLES = [
    *_of(TEXT, "database", "table", "level"),
    ("findings", NUMBER),
    ("requests", _list(("state", TEXT), ("count", NUMBER), ("oldest_age", REAL), ("oldest_place", TEXT))),
    ("failed_in_a_row", NUMBER),
    ("failed_place", TEXT),
    ("refused_in_a_row", NUMBER),
    ("refused_place", TEXT),
    *_of(NUMBER, "blockers", "aborted_write_ids", "places", "looked_at"),
    *_of(_WORST_PLACES, "most_deltas", "worst_ratio", "most_obsolete"),
    ("obsolete_bytes", NUMBER),
]

SCHEMAS = {
    "cancellations": pa.schema(_CANCELLATIONS),
    "checks": pa.schema(_CHECKS),
    "cleanings": pa.schema(_CLEANINGS),
    "compactions": pa.schema(_COMPACTIONS),
    "decisions": pa.schema(_DECISIONS),
    "places": pa.schema(_PLACES),
    "requests": pa.schema(_REQUESTS),
    "tables": pa.schema(_TABLES),
    "undo": pa.schema(_UNDO),
}
"""Schemas by `shape` of a result."""
