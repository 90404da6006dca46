"""Messages of column statistics, and the types that they are of."""

from __future__ import annotations

from typing import Any

from acidlib.model.names import Generation
from acidlib.orc.proto import ColumnStatistics, Kind
from acidlib.orc.schema import TypeNode

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
INTS = {"minimum": 1, "maximum": 5, "sum": 6}


def node_of(kind: Kind, **more: Any) -> TypeNode:
    return TypeNode(column=1, kind=kind, **more)


def stats(values: int = 1, *, has_null: bool = False, **typed: dict[str, Any]) -> Any:
    message = ColumnStatistics(number_of_values=values, has_null=has_null)
    for name, fields in typed.items():
        getattr(message, name).SetInParent()
        for field, value in fields.items():
            if field == "count":
                getattr(message, name).count.extend(value)
            else:
                setattr(getattr(message, name), field, value)
    return message
