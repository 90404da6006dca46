"""Which write ids are committed where no metastore can be asked: the caller states it, or the job refuses.

What is committed cannot be known from files: a delta of an open transaction looks like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from acidlib.errors import RefusedError, UsageError
from acidlib.model.generation import Generation
from acidlib.model.listing import Listing, highest_write_id
from acidlib.model.writeids import ValidWriteIdList, all_committed


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedWriteIds:
    """What the caller stated: one list for the table at hand, a list per table, or that everything is committed."""

    single: ValidWriteIdList | None = None
    by_table: Mapping[str, ValidWriteIdList] = field(default_factory=dict)
    everything: bool = False

    def of(self, database: str, table: str, listing: Listing) -> ValidWriteIdList:
        """The list of a table, with a real high-water mark even when everything is committed.

        Raises UsageError when nothing was stated for this table, or when the one list is another's.
        """
        name = f"{database}.{table}"
        self.require_of(database, table)
        stated = self.single if self.single is not None else self.by_table.get(name)
        if stated is not None:
            return stated
        if self.everything:
            # never 0: Hive takes a mark of 0 for "no mark"
            return all_committed(name, max(1, highest_write_id(listing, Generation.HIVE4)))
        raise UsageError(
            f"Cannot work on {name}: because nothing says which of its transactions are committed; give --write-ids, "
            "--write-ids-file or --all-committed"
        )

    def require_of(self, database: str, table: str) -> None:
        """Raises UsageError when the one list that is stated is that of another table."""
        name = f"{database}.{table}"
        if self.single is not None and self.single.table not in (None, name, table):
            raise UsageError(f"Cannot use the write-id list of {self.single.table}: because the table is {name}")


def stated_write_ids(*, text: str | None, file_text: str | None, everything: bool) -> StatedWriteIds | None:
    """What the three options say; None when none is given. Raises RefusedError when they contradict or do not parse."""
    given = [name for name, value in _named(text, file_text, everything=everything) if value]
    if len(given) > 1:
        raise RefusedError(f"Cannot take {' and '.join(given)} together: because they may contradict each other")
    if text is not None:
        return StatedWriteIds(single=ValidWriteIdList.parse(text))
    if file_text is not None:
        return StatedWriteIds(by_table=_by_table(file_text))
    return StatedWriteIds(everything=True) if everything else None


def _named(text: str | None, file_text: str | None, *, everything: bool) -> list[tuple[str, bool]]:
    return [
        ("--write-ids", text is not None),
        ("--write-ids-file", file_text is not None),
        ("--all-committed", everything),
    ]


def _by_table(text: str) -> dict[str, ValidWriteIdList]:
    lists: dict[str, ValidWriteIdList] = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parsed = ValidWriteIdList.parse(line)
        if parsed.table is None or parsed.table in lists:
            raise RefusedError(
                f"Cannot use the write-id list {line.strip()!r}: because its table is missing or repeated"
            )
        lists[parsed.table] = parsed
    if not lists:
        raise RefusedError("Cannot use the file of write-id lists: because it has no line for any table")
    return lists
