"""What the footer of an ACID file says of its keys: the metadata of Hive's writers, and the id columns' statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from acidlib.model.rowid import Key
from acidlib.orc.statistics import integer_range
from acidlib.orc.tail import Tail

KEY_INDEX = "hive.acid.key.index"
"""The name of the entry that has the last key of each stripe (Hive OrcRecordUpdater.KeyIndexBuilder)."""

_ID_COLUMNS = range(1, 6)
"""operation, originalTransaction, bucket, rowId, currentTransaction."""

IdRanges = tuple[tuple[int, int], ...]
"""Lowest and highest value of each of the columns 1 to 5."""


def id_ranges(statistics: Sequence[Any]) -> IdRanges | None:
    """What the statistics of a stripe or file say of the id columns; None unless all of it is there."""
    if not statistics:
        return None
    ranges = [integer_range(statistics[column]) for column in _ID_COLUMNS]
    found = tuple(found for found in ranges if found is not None)
    return found if len(found) == len(ranges) else None


def id_ranges_agree(tail: Tail) -> bool:
    """Whether the ranges of all stripes together are those of the file, as every writer makes them.

    Nothing covers statistics against damage, and a range that is too narrow would let deleted rows stay. This shows it
    in a file of one stripe and at the outer ends of others.
    """
    if not tail.stripe_statistics:
        return False
    pairs = zip(tail.stripes, tail.stripe_statistics, strict=True)
    stripes = [id_ranges(found) for stripe, found in pairs if stripe.rows]
    known = [found for found in stripes if found is not None]
    whole = id_ranges(tail.file_statistics)
    if whole is None or not known or len(known) < len(stripes):
        return False
    folded = tuple(
        (min(low for low, _ in column), max(high for _, high in column)) for column in zip(*known, strict=True)
    )
    return folded == whole


def key_index(tail: Tail) -> tuple[Key, ...] | None:
    """The entries of hive.acid.key.index, or None when there is not one per stripe (Hive OrcRecordUpdater)."""
    text = tail.user_metadata.get(KEY_INDEX)
    if text is None:
        return None
    try:
        parts = text.decode("ascii").split(";")
        entries = [tuple(int(number) for number in part.split(",")) for part in parts if part]
    except ValueError:
        return None
    if len(entries) != len(tail.stripes) or any(len(entry) != 3 for entry in entries):
        return None
    return tuple((entry[0], entry[1], entry[2]) for entry in entries)


def acid_metadata(last_keys: Iterable[Key], *, inserts: int, deletes: int) -> dict[str, bytes]:
    """The three entries that Hive's readers look for (Hive OrcRecordUpdater.KeyIndexBuilder, AcidStats)."""
    entries = "".join(f"{write_id},{bucket},{row_id};" for write_id, bucket, row_id in last_keys)
    return {
        "hive.acid.version": b"2",
        KEY_INDEX: entries.encode(),
        "hive.acid.stats": f"{inserts},0,{deletes}".encode(),
    }
