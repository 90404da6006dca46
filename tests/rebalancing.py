"""What Hive 4 makes of rows that are rebalanced: the same values of the same write ids, under ids counted anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from judges.merge import bucket_property

Row = TypeVar("Row", bound=tuple[Any, ...])


def renumbered(rows: Iterable[Row], buckets: int) -> list[Row]:
    """The rows (write id, bucket property, row id, ...) as they have to be in so many buckets, in the order of ids."""
    found = sorted(rows, key=lambda row: row[:3])
    each = -(-len(found) // buckets)
    return [(row[0], bucket_property(n // each, 0), n, *row[3:]) for n, row in enumerate(found)]  # type: ignore[misc]
