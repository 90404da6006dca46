"""Targets among directories."""

from __future__ import annotations

from collections.abc import Sequence

from acidlib.engine.selection import Selection
from acidlib.engine.services import Services
from acidlib.engine.target import Target, Understanding
from acidlib.errors import RefusedError
from acidlib.model.partitions import matches
from acidlib.storage.discover import TableLocation, discover_location, discover_warehouse


def select_targets(
    services: Services, selection: Selection, understanding: Understanding, *, may_be_empty: bool = False
) -> tuple[list[Target], list[str]]:
    """The targets in path order, and what was passed over with the reason.

    may_be_empty: what is known of the named location explains that nothing is in it. Raises RefusedError when a named
    location is no ACID table, or nothing in the warehouse matches a table's name.
    """
    notes: list[str] = []
    if selection.location is not None:
        tables: Sequence[TableLocation] = (
            discover_location(services.fs, selection.location, may_be_empty=may_be_empty),
        )
    else:
        assert selection.warehouse is not None
        found = discover_warehouse(services.fs, selection.warehouse)
        tables = found.tables
        notes += [f"{skipped.location} is skipped: {skipped.reason}" for skipped in found.skipped]
    chosen = [table for table in tables if selection.wants_table(table.database, table.table)]
    if selection.tables and not chosen:
        raise RefusedError(f"Cannot find {', '.join(selection.tables)}: because no ACID table there has such a name")
    targets = [
        Target(
            database=table.database,
            table=table.table,
            partition=None if place.name is None else place.name.path,
            location=place.location,
            understanding=understanding,
        )
        for table in chosen
        for place in table.partitions
        if not selection.partitions or (place.name is not None and matches(place.name, selection.partitions))
    ]
    if selection.partitions and not targets and len(chosen) == 1:
        raise no_partition(chosen[0].database, chosen[0].table, selection)
    return targets, notes


def no_partition(database: str, table: str, selection: Selection) -> RefusedError:
    """Nothing matches the named partitions."""
    return RefusedError(
        f"Cannot find partitions of {database}.{table}: because none matches {', '.join(selection.partitions)}"
    )
