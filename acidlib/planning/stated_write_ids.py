"""The write ids that the caller states to be committed where there is no metastore; without them a job refuses.

Files do not say it: a delta of an open transaction looks like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from acidlib.acid.listing import Listing, highest_write_id
from acidlib.acid.names import ANY_NAMES, BaseDir, is_side_file, parse_directory
from acidlib.acid.write_ids import ValidWriteIdList, all_committed
from acidlib.arguments import ALL_COMMITTED, COMMITTED, DRY_RUN, WITHOUT_DRY_RUN, WRITE_IDS, WRITE_IDS_FILE, YES
from acidlib.errors import UsageError
from acidlib.model.tables import TableRef

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedWriteIds:
    """The caller's statement: one list for the table at hand, a list per table, or that everything is committed.

    everything  all write ids are committed
    of_each     that holds for each of several tables
    """

    single: ValidWriteIdList | None = None
    by_table: Mapping[str, ValidWriteIdList] = field(default_factory=dict)
    everything: bool = False
    of_each: bool = False

    def of(self, ref: TableRef, listing: Listing) -> ValidWriteIdList:
        """Return the list of a table, with a real high-water mark even when everything is committed.

        Raises UsageError when nothing was stated for this table, or the one list is another table's.
        """
        name = str(ref.whole_table)
        self.require_of(ref)
        stated = self.single if self.single is not None else self.by_table.get(name)
        if stated is not None:
            return stated
        if self.everything:
            # never 0, which means no mark to Hive
            return all_committed(name, max(1, highest_write_id(listing, ANY_NAMES)))
        raise UsageError(
            f"Cannot work on {name}: nothing says which of its transactions are committed; give {COMMITTED}"
        )

    def require_of(self, ref: TableRef) -> None:
        """Raise UsageError when the one stated list is another table's."""
        name = str(ref.whole_table)
        if self.single is not None and self.single.table not in (None, name, ref.table):
            raise UsageError(f"Cannot use the write-id list of {self.single.table}: the table is {name}")


def list_per_table_error(tables: Sequence[str]) -> UsageError:
    """Return the error where one option states that everything is committed in several tables."""
    shown = ", ".join(tables[:_SHOWN]) + (f" and {len(tables) - _SHOWN} more" if len(tables) > _SHOWN else "")
    return UsageError(
        f"Cannot take everything as committed in {len(tables)} tables, {shown}: where a transaction was rolled "
        f"back its rows would come back; give {WRITE_IDS_FILE} with a line for each table, or {YES} where nothing "
        f"was rolled back in any of them ({DRY_RUN} names what hints at it)"
    )


def question_of_run(tables: int) -> str:
    """Return the note of a dry run whose run asks for a list per table."""
    return (
        f"{WITHOUT_DRY_RUN} asks for {WRITE_IDS_FILE} with a line for each table, or for {YES}: everything is taken as "
        f"committed in {tables} tables"
    )


def directory_ids(listing: Listing) -> Iterable[tuple[int, int]]:
    """Yield the first and the last write id that each base and delta of a listing covers."""
    for path in listing.top_directories():
        name = parse_directory(path, ANY_NAMES)
        if name is not None:
            yield (1, name.write_id) if isinstance(name, BaseDir) else (name.min_write_id, name.max_write_id)


def side_files(listing: Listing) -> list[str]:
    """Return the paths of side files, in which a streaming writer notes how much of another file may be read."""
    return [file.path for file in listing.files if is_side_file(file.name)]


def signs_of_aborts(ids: Iterable[tuple[int, int]], notes_of_streams: Sequence[str]) -> list[str]:
    """Return hints, as sentences, at transactions of a table that were rolled back or are open.

    ids               `directory_ids` of all directories of the table
    notes_of_streams  paths of `side_files`

    Without any hint transactions may have been rolled back all the same: their deltas look like any others.
    """
    signs = []
    end: int | None = None
    gaps: list[tuple[int, int]] = []
    for low, high in sorted(ids):
        if end is not None and low > end + 1 and len(gaps) <= _SHOWN:
            gaps.append((end + 1, low - 1))
        end = high if end is None else max(end, high)
    if gaps:
        shown = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in gaps[:_SHOWN])
        more = " and more" if len(gaps) > _SHOWN else ""
        signs.append(f"no directory has write ids {shown}{more}, as after a transaction that was rolled back")
    if notes_of_streams:
        others = len(notes_of_streams) - 1
        more = f", and {others} more," if others else ""
        signs.append(
            f"{notes_of_streams[0]}{more} is of a streaming writer that may have been rolled back, or still writes"
        )
    return signs


def stated_write_ids(*, text: str | None, file_text: str | None, everything: bool) -> StatedWriteIds | None:
    """Return the statement of the three options, or None.

    Raises UsageError when they contradict each other, RefusedError for a list that does not parse.
    """
    options = {
        WRITE_IDS: text is not None,
        WRITE_IDS_FILE: file_text is not None,
        ALL_COMMITTED: everything,
    }
    given = [name for name, is_given in options.items() if is_given]
    if len(given) > 1:
        raise UsageError(f"Cannot take {' and '.join(given)} together: they may contradict each other; give one")
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
            raise UsageError(
                f"Cannot use the write-id list {line.strip()!r}: its table is missing or repeated; each line begins "
                "with another <database.table>"
            )
        lists[parsed.table] = parsed
    if not lists:
        raise UsageError(
            "Cannot use the file of write-id lists: it has no line for any table; a line is, for example, "
            "default.sales:120:9223372036854775807::17,44"
        )
    return lists
