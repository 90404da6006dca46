"""Tables of Hive 4 to rebalance, and what they have to be afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from judges.tables import Transaction, build
from rebalancing import renumbered

from integration.hive4_model import ABORTED, COLUMNS, Lake, Made, plain

WRITERS = 3
"""Into so many buckets `skewed` tables are rebalanced where nobody says a number."""


def skewed(lake: Lake, name: str, transactions: Sequence[Transaction] = ABORTED) -> Made:
    """A table of several writers, whose rows are spread unevenly."""
    made = lake.table(name, ())
    built = build(made.location, COLUMNS, transactions, writers=WRITERS, name=made.full)
    place = replace(made.place, expected=tuple(map(plain, built.expected)))
    lake.commit(made, transactions)
    return replace(made, places=(place,))


def rebalanced(made: Made, buckets: int = WRITERS) -> Made:
    """The same table as it has to be once it was rebalanced."""
    return replace(made, places=(replace(made.place, expected=tuple(renumbered(made.expected, buckets))),))
