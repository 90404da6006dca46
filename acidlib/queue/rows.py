"""Rows of the queue's tables as `CompactionRequest` values, and back.

A table of Hive 3.1 lacks columns that ours have. What has no column is not kept: when a request was enqueued or
committed, who initiated it, its pool, when its cleaning began and how long that waits for a next try are read back as
None or 0. Only why a request ended is kept, as the property `acidlib.error`, cut to the space there is: Hive copies
properties along and reads none of that name. META_INFO is Hive's own and is copied as it is.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Row, Select, Table, select

from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.model.location import Location
from acidlib.model.requests import CompactionRequest, CompactionType, State, format_map, parse_map, split_properties
from acidlib.model.tables import TableRef
from acidlib.queue.schema import ENTITY, ENTITY_WIDTH, HISTORY_FIELDS, PLACE, PLACE_WIDTH, QUEUE_FIELDS

ERROR = "acidlib.error"
"""The property that keeps why a request ended where the table has no column for it."""

_ELLIPSIS = "..."
_SHORTEST_ERROR = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A row that another tool wrote and that is not understood; its state if at least that is."""

    id: int
    table: str
    state: State | None
    reason: str


class RequestTable:
    """COMPACTION_QUEUE or COMPLETED_COMPACTIONS as a database has it.

    limits   the most characters of a column, by its upper-case name
    of_hive  the table is a metastore's: others write to it as well
    """

    def __init__(self, table: Table, *, limits: Mapping[str, int], of_hive: bool = False) -> None:
        self.table = table
        self.of_hive = of_hive
        self._limits = limits
        self._prefix = "CQ" if "CQ_ID" in table.c else "CC"
        known = QUEUE_FIELDS if self._prefix == "CQ" else HISTORY_FIELDS
        self._fields = {end: field for end, field in known.items() if self.has(end)}
        self._keeps_errors, self._has_place = self.has("ERROR_MESSAGE"), self.has(PLACE)

    def has(self, end: str) -> bool:
        """Whether there is a column of this name after its prefix."""
        return f"{self._prefix}_{end}" in self.table.c

    def column(self, end: str) -> Column[Any]:
        """A column by its name after the prefix."""
        return self.table.c[f"{self._prefix}_{end}"]

    def select(self) -> Select[Any]:
        """The columns that make a request, by name: others may be there and are not read."""
        kept = [self.column("META_INFO")] if self.has("META_INFO") else []
        return select(*(self.column(end) for end in self._fields), *kept)

    def request(self, row: Row[Any]) -> CompactionRequest:
        """The request of a row that `select` gave.

        Raises `CorruptError` for a state, kind or property text that is not known.
        """
        values: dict[str, Any] = dict(zip(self._fields.values(), row, strict=False))  # as `select` orders them
        try:
            values["type"] = CompactionType.parse(values["type"])
            values["state"] = State.parse(values["state"])
            properties = parse_map(values["properties"]) if values["properties"] else {}
        except AcidError as error:
            raise CorruptError(
                f"Cannot read request {values['id']} of {self.table.name}: because of this row: {error}"
            ) from error
        if not self._keeps_errors:
            values["error_message"] = properties.pop(ERROR, None)
        if self.of_hive:
            # Hive writes 0 for what it does not know
            values |= {field: values[field] or None for field in ("start_ms", "highest_write_id")}
        facts, others = split_properties(
            {key: value for key, value in properties.items() if key is not None and value is not None}
        )
        ref = TableRef(*(values.pop(name) for name in TableRef._fields))
        return CompactionRequest(ref=ref, **values | {"properties": tuple(others.items()), "facts": facts})

    def unreadable(self, row: Row[Any]) -> Unreadable | None:
        """What is known of a row that is not understood; None for any other."""
        try:
            self.request(row)
        except CorruptError as error:
            try:
                state = State.parse(row._mapping[self.column("STATE")])
            except AcidError:
                state = None
            return Unreadable(id=row._mapping[self.column("ID")], table=self.table.name, state=state, reason=str(error))
        return None

    def values(self, request: CompactionRequest, *fields: str) -> dict[str, object]:
        """The columns, by key, of a request's fields (all of them unless some are named), as far as there are any.

        Raises RefusedError when one is longer than its column.
        """
        wanted = set(fields) or set(self._fields.values())
        if "facts" in wanted:
            wanted.add("properties")
        if not self._keeps_errors and "error_message" in wanted:
            wanted.add("properties")
        values = {
            f"{self._prefix}_{end}": self._value(request, end, field)
            for end, field in self._fields.items()
            if field in wanted
        }
        location = request.facts.location
        if self._has_place and (not fields or ("properties" in wanted and location is not None)):
            values[f"{self._prefix}_{PLACE}"] = None if location is None else place_key(location)
        if not fields and self.has(ENTITY):
            values[f"{self._prefix}_{ENTITY}"] = entity_key(request)
        return values

    def meta_info(self, row: Row[Any]) -> dict[str, object]:
        """Hive's own note on a row of the queue, as a value for the history."""
        return {"CC_META_INFO": row._mapping[self.column("META_INFO")]} if self.has("META_INFO") else {}

    def _value(self, request: CompactionRequest, end: str, field: str) -> object:
        if field == "properties":
            value = self._properties_text(request)
        elif field in ("type", "state"):
            value = getattr(request, field).value
        else:
            value = getattr(request.ref if field in TableRef._fields else request, field)
        limit = self._limits.get(f"{self._prefix}_{end}")
        if limit is not None and isinstance(value, str) and len(value) > limit:
            raise RefusedError(
                f"Cannot queue a compaction of {request.ref}: because its {field.replace('_', ' ')} "
                f"({len(value)} characters) is longer than the {limit} that {self._prefix}_{end} holds"
            )
        return value

    def _properties_text(self, request: CompactionRequest) -> str | None:
        """The text of properties and facts; none where there is neither, as Hive stores it."""
        entries: dict[str | None, str | None] = dict([*request.properties, *request.facts.properties().items()])
        if request.error_message is not None and not self._keeps_errors:
            limit = self._limits.get(f"{self._prefix}_TBLPROPERTIES")
            error = _fitting(entries, request.error_message, limit)
            if error is not None:
                entries[ERROR] = error
        return format_map(entries) if entries else None


def place_key(location: Location) -> str:
    """What stands for a location in an index; the same for equal ones only."""
    return hashlib.sha256(location.stored_text.encode("utf-8", "surrogateescape")).hexdigest()[:PLACE_WIDTH]


def entity_key(request: CompactionRequest) -> str:
    """What stands for a request's table or partition in an index; the same for equal names only."""
    names = json.dumps(request.ref)
    return hashlib.sha256(names.encode()).hexdigest()[:ENTITY_WIDTH]


def _fitting(entries: Mapping[str | None, str | None], error: str, limit: int | None) -> str | None:
    """The text of an error, cut so that all properties have at most `limit` characters; None when too little is left.

    It is in ASCII, as a metastore's tables in MySQL are in Latin-1.
    """
    plain = error.encode("ascii", "backslashreplace").decode("ascii")
    if limit is None:
        return plain
    room = limit - len(format_map({**entries, ERROR: ""})) - len(str(limit))
    if len(plain) <= room:
        return plain
    return plain[: room - len(_ELLIPSIS)] + _ELLIPSIS if room >= _SHORTEST_ERROR else None
