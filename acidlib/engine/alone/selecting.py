"""Targets among directories."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from acidlib.engine.backend import Selected
from acidlib.engine.selection import Selection
from acidlib.engine.services import Services
from acidlib.engine.target import Interpretation, Target
from acidlib.errors import MissingError, RefusedError, UsageError
from acidlib.model.partitions import matches
from acidlib.storage.discover import TableLocation, discover_location, discover_warehouse, name_at

Entity = tuple[str, str, str | None]


def select_targets(
    services: Services,
    selection: Selection,
    interpretation: Interpretation,
    *,
    may_be_empty: bool = False,
    known: Collection[Entity] = (),
) -> Selected:
    """The targets in path order, and notes about what was passed over.

    may_be_empty  what is known of the named location explains that nothing is in it
    known         to the queue: it may have been dropped since

    Raises RefusedError when a named location or table is no ACID table, MissingError where it, a table or partitions
    that are named do not exist, UsageError when the only write-id list that is stated is another table's, or no
    directory is named.
    """
    notes: list[str] = []
    if selection.location is not None:
        try:
            only = discover_location(services.fs(selection.location), selection.location, may_be_empty=may_be_empty)
        except MissingError as error:
            return Selected(targets=(), notes=(str(error) if known else selection.note_of(error),))
        if interpretation.write_ids is not None:
            interpretation.write_ids.require_of(only.database, only.table)
        tables: Sequence[TableLocation] = (only,)
    else:
        if selection.warehouse is None:
            raise UsageError("Cannot choose tables: because no directory is named in which to look for them")
        found = discover_warehouse(services.fs(selection.warehouse), selection.warehouse)
        tables = found.tables
        for skipped in found.skipped:
            name = name_at(skipped.location)
            if selection.names_table(name):
                raise RefusedError(f"Cannot compact {name}: {skipped.reason}")
        notes += [f"{skipped.location} is skipped: {skipped.reason}" for skipped in found.skipped]
    chosen = [table for table in tables if selection.wants_table(table.database, table.table)]
    names = [(table.database, table.table) for table in chosen] + [(one[0], one[1]) for one in known]
    notes += selection.absent(names, "no ACID table there")
    targets = [
        Target(
            database=table.database,
            table=table.table,
            partition=None if place.name is None else place.name.path,
            location=place.location,
            interpretation=interpretation,
        )
        for table in chosen
        for place in table.partitions
        if not selection.partitions or (place.name is not None and matches(place.name, selection.partitions))
    ]
    if selection.partitions and chosen and not (targets or known):
        notes.append(selection.note_of(selection.no_partition([f"{one.database}.{one.table}" for one in chosen])))
    return Selected(targets=tuple(targets), notes=tuple(notes))
