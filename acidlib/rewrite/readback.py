"""Reading a finished file back: its tail, and the id columns of every stripe that was not copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from acidlib.model.rowid import Key
from acidlib.model.units import DataFile
from acidlib.orc.column import Longs
from acidlib.orc.source import DataFiles, SourceFile
from acidlib.orc.tail import Tail, read_tail
from acidlib.rewrite.acid_footer import key_index
from acidlib.rewrite.deletes import DeleteEvents
from acidlib.rewrite.inputs import OpenInput
from acidlib.rewrite.keys import Keys
from acidlib.rewrite.stripe_keys import StripeIds, StripeKeys


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
        file = _opened(source, tail, directory="delete_delta_" if events is not None else "")
        ascending = entries == tuple(last_keys)
        found_again = 0
        before: Key | None = None
        offset = 0
        for number, stripe in enumerate(tail.stripes):
            if number in copied:
                ascending &= before is None or before < first_keys[number]
            else:
                ids = StripeKeys(file, number).ids()
                keys, current = ids.keys, ids.current
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


def ids_of_stripes(source: SourceFile, tail: Tail) -> Iterator[StripeIds]:
    """The id columns of each stripe of a result of rows, decoded."""
    file = _opened(source, tail, directory="")
    return (StripeKeys(file, number).ids() for number in range(len(tail.stripes)))


def _opened(source: SourceFile, tail: Tail, *, directory: str) -> OpenInput:
    return OpenInput(
        file=DataFile(path=source.name, directory=directory, length=source.length, bucket=0),
        source=source,
        tail=tail,
        acid=True,
        first_row=0,
        ranges_true=False,
    )


def _same(keys: Keys, current: Longs, events: DeleteEvents, part: slice) -> bool:
    return keys.equals(events.keys.select(part)) and np.array_equal(current, events.current[part])


def _rows(tail: Tail) -> int:
    return sum(stripe.rows for stripe in tail.stripes)
