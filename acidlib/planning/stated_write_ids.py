"""Which write ids are committed where no metastore can be asked: the caller states it, or the job refuses.

What is committed cannot be known from files: a delta of an open transaction looks like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from acidlib.errors import RefusedError, UsageError
from acidlib.model.listing import Listing, highest_write_id
from acidlib.model.names import BaseDir, Generation, is_side_file, parse_directory
from acidlib.model.snapshots import ValidWriteIdList, all_committed
from acidlib.model.tables import TableRef

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedWriteIds:
    """What the caller stated: one list for the table at hand, a list per table, or that everything is committed.

    of_each  that everything is, is said of each of several tables
    """

    single: ValidWriteIdList | None = None
    by_table: Mapping[str, ValidWriteIdList] = field(default_factory=dict)
    everything: bool = False
    of_each: bool = False

    def of(self, ref: TableRef, listing: Listing) -> ValidWriteIdList:
        """Return the list of a table, with a real high-water mark even when everything is committed.

        Raises UsageError when nothing was stated for this table, or when the one list is another's.
        """
        name = str(ref.whole_table)
        self.require_of(ref)
        stated = self.single if self.single is not None else self.by_table.get(name)
        if stated is not None:
            return stated
        if self.everything:
            # never 0: Hive takes a mark of 0 for "no mark"
            return all_committed(name, max(1, highest_write_id(listing, Generation.HIVE4)))
        raise UsageError(
            f"Cannot work on {name}: nothing says which of its transactions are committed; give --write-ids, "
            "--write-ids-file or --all-committed"
        )

    def require_of(self, ref: TableRef) -> None:
        """Raise UsageError when the one list that is stated is that of another table."""
        name = str(ref.whole_table)
        if self.single is not None and self.single.table not in (None, name, ref.table):
            raise UsageError(f"Cannot use the write-id list of {self.single.table}: the table is {name}")


def require_list_per_table(tables: Sequence[str]) -> None:
    """Raise RefusedError where all is stated to be committed in several tables by one word."""
    if len(tables) > 1:
        shown = ", ".join(tables[:_SHOWN]) + (f" and {len(tables) - _SHOWN} more" if len(tables) > _SHOWN else "")
        raise RefusedError(
            f"Cannot take all as committed in {len(tables)} tables, {shown}: where a transaction was rolled back its "
            "rows would come back; give --write-ids-file with a line for each table, or --yes where nothing was rolled "
            "back in any of them (--dry-run names what hints at it)"
        )


def directory_ids(listing: Listing) -> Iterable[tuple[int, int]]:
    """Return which write ids, from and to, each base and delta of a listing stands for."""
    for path in listing.top_directories():
        name = parse_directory(path, Generation.HIVE4)
        if name is not None:
            yield (1, name.write_id) if isinstance(name, BaseDir) else (name.min_write_id, name.max_write_id)


def side_files(listing: Listing) -> list[str]:
    """Return the paths of the files by which a streaming writer notes how much of another file may be read."""
    return [file.path for file in listing.files if is_side_file(file.name)]


def signs_of_aborts(ids: Iterable[tuple[int, int]], notes_of_streams: Sequence[str]) -> list[str]:
    """Return what hints at transactions of a table that were rolled back or are open.

    ids               of all directories of the table, see `directory_ids`
    notes_of_streams  paths of `side_files`

    Where neither is there, nothing says that none was rolled back: a whole delta of one looks like any other.
    """
    found = []
    end: int | None = None
    gaps: list[tuple[int, int]] = []
    for low, high in sorted(ids):
        if end is not None and low > end + 1 and len(gaps) <= _SHOWN:
            gaps.append((end + 1, low - 1))
        end = high if end is None else max(end, high)
    if gaps:
        shown = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in gaps[:_SHOWN])
        more = " and more" if len(gaps) > _SHOWN else ""
        found.append(f"no directory has write ids {shown}{more}, as after a transaction that was rolled back")
    if notes_of_streams:
        others = len(notes_of_streams) - 1
        more = f", and {others} more," if others else ""
        found.append(
            f"{notes_of_streams[0]}{more} is of a writer that streams and may have been rolled back, or writes"
        )
    return found


def stated_write_ids(*, text: str | None, file_text: str | None, everything: bool) -> StatedWriteIds | None:
    """Return what the three options say, or None; RefusedError when they contradict or do not parse."""
    options = {
        "--write-ids": text is not None,
        "--write-ids-file": file_text is not None,
        "--all-committed": everything,
    }
    given = [name for name, is_given in options.items() if is_given]
    if len(given) > 1:
        raise RefusedError(f"Cannot take {' and '.join(given)} together: they may contradict each other; give one")
    if text is not None:
        return StatedWriteIds(single=ValidWriteIdList.parse(text))
    if file_text is not None:
        return StatedWriteIds(by_table=_by_table(file_text))
    return StatedWriteIds(everything=True) if everything else None


def _by_table(text: str) -> dict[str, ValidWriteIdList]:
    lists: dict[str, ValidWriteIdList] = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parsed = ValidWriteIdList.parse(line)
        if parsed.table is None or parsed.table in lists:
            raise RefusedError(
                f"Cannot use the write-id list {line.strip()!r}: its table is missing or repeated; each line begins "
                "with another <database.table>"
            )
        lists[parsed.table] = parsed
    if not lists:
        raise RefusedError(
            "Cannot use the file of write-id lists: it has no line for any table; one is, for example, "
            "default.sales:120:9223372036854775807::17,44"
        )
    return lists
