"""Rows of the queue's tables as `CompactionRequest` values, and back."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row, Table

from acidlib.errors import AcidError, CorruptError
from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.stringable import format_map, parse_map
from acidlib.queue.schema import COMPACTION_QUEUE, SHARED_FIELDS

_QUEUE_FIELDS = {f"CQ_{end}": field for end, field in SHARED_FIELDS.items()} | {
    "CQ_CLEANER_START": "cleaner_start_ms",
    "CQ_RETRY_RETENTION": "retry_retention_ms",
}
_HISTORY_FIELDS = {f"CC_{end}": field for end, field in SHARED_FIELDS.items()} | {"CC_END": "end_ms"}


def from_row(row: Row[Any], table: Table) -> CompactionRequest:
    """The request of a row; raises `CorruptError` for a state, kind or property text that is not known."""
    fields = _QUEUE_FIELDS if table is COMPACTION_QUEUE else _HISTORY_FIELDS
    values = {field: row._mapping[column] for column, field in fields.items()}
    try:
        values["type"] = CompactionType.parse(values["type"])
        values["state"] = State.parse(values["state"])
        properties = parse_map(values["properties"]) if values["properties"] else {}
    except AcidError as error:
        raise CorruptError(
            f"Cannot read request {values['id']} of {table.name}: because of this row: {error}"
        ) from error
    values["properties"] = tuple(
        (key, value) for key, value in properties.items() if key is not None and value is not None
    )
    return CompactionRequest(**values)


def queue_values(request: CompactionRequest) -> dict[str, object]:
    """The columns of COMPACTION_QUEUE for a request."""
    return _values(request, _QUEUE_FIELDS)


def history_values(request: CompactionRequest) -> dict[str, object]:
    """The columns of COMPLETED_COMPACTIONS for a request."""
    return _values(request, _HISTORY_FIELDS)


def properties_text(properties: tuple[tuple[str, str], ...]) -> str | None:
    """The text of CQ_TBLPROPERTIES; none for no properties, as Hive stores it."""
    entries: Mapping[str | None, str | None] = dict(properties)
    return format_map(entries) if entries else None


def columns_of(table: Table) -> list[str]:
    """The columns that make a request, by name: others may be there and are not read."""
    return list(_QUEUE_FIELDS if table is COMPACTION_QUEUE else _HISTORY_FIELDS)


def _values(request: CompactionRequest, fields: Mapping[str, str]) -> dict[str, object]:
    values = {column: getattr(request, field) for column, field in fields.items()}
    for column, field in fields.items():
        if field == "properties":
            values[column] = properties_text(request.properties)
        elif field in ("type", "state"):
            values[column] = values[column].value
    return values
