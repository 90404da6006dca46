"""Reading a finished file back: its tail, and the id columns of every stripe that was not copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acidlib.model.rowid import Key
from acidlib.model.units import DataFile
from acidlib.orc.source import DataFiles
from acidlib.orc.tail import Tail, read_tail
from acidlib.rewrite.acid_footer import key_index
from acidlib.rewrite.deletes import DeleteEvents
from acidlib.rewrite.inputs import OpenInput
from acidlib.rewrite.keys import Keys
from acidlib.rewrite.stripe_keys import StripeKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """What the file itself says."""

    rows: int
    stripes: int
    index_entries: int
    ascending: bool
    found_again: int


def read_back(
    path: str,
    length: int,
    data: DataFiles,
    copied: set[int],
    last_keys: Sequence[Key],
    first_keys: Sequence[Key],
    deleted: Keys,
    *,
    events: DeleteEvents | None = None,
) -> ReadBack:
    """Read a result of this run.

    Of a copied stripe the bounds of its keys are compared, of others every key: against the one before, against the
    delete set, and the last one against its key-index entry. For delete events every key has to be the expected one.
    """
    source = data.open(path, length)
    try:
        tail = read_tail(source)
        entries = key_index(tail) or ()
        directory = "delete_delta_" if events is not None else ""
        file = OpenInput(
            file=DataFile(path=path, directory=directory, length=length, bucket=0),
            source=source,
            tail=tail,
            acid=True,
            first_row=0,
            ranges_true=False,
        )
        ascending = entries == tuple(last_keys)
        found_again = 0
        before: Key | None = None
        offset = 0
        for number, stripe in enumerate(tail.stripes):
            if number in copied:
                ascending &= before is None or before < first_keys[number]
            else:
                keys, current = _stripe(file, number)
                if events is not None:
                    part = slice(offset, offset + stripe.rows)
                    ascending &= _same(keys, current, events, part)
                else:
                    ascending &= keys.ascending() and (before is None or before < keys.key(0))
                    found_again += int(np.count_nonzero(keys.matches(deleted)))
                ascending &= keys.key(-1) == last_keys[number]
            before = last_keys[number]
            offset += stripe.rows
        return ReadBack(
            rows=_rows(tail),
            stripes=len(tail.stripes),
            index_entries=len(entries),
            ascending=bool(ascending),
            found_again=found_again,
        )
    finally:
        source.close()


def _stripe(file: OpenInput, number: int) -> tuple[Keys, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    ids = StripeKeys(file, number).ids()
    return ids.keys, ids.current


def _same(keys: Keys, current: np.ndarray[tuple[int], np.dtype[np.int64]], events: DeleteEvents, part: slice) -> bool:
    wanted = events.keys.select(part)
    return all(
        np.array_equal(found, expected)
        for found, expected in (
            (keys.write_ids, wanted.write_ids),
            (keys.buckets, wanted.buckets),
            (keys.row_ids, wanted.row_ids),
            (current, events.current[part]),
        )
    )


def _rows(tail: Tail) -> int:
    return sum(stripe.rows for stripe in tail.stripes)
