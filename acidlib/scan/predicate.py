"""A predicate on the rows of a table: which files can hold rows that match it, and which rows of a batch do.

It is a part of SQL that Hive and Spark understand alike: comparisons (`=`, `==`, `<>`, `!=`, `<=>`, `<`, `<=`, `>`,
`>=`, BETWEEN, IN, LIKE, IS [NOT] NULL, IS [NOT] TRUE or FALSE) of a column with literals, BOOLEAN columns, TRUE and
FALSE, joined by AND, OR, NOT and parentheses. Literals are numbers, texts in quotes, DATE '...', TIMESTAMP '...', and
CASTs of these that lose nothing. Readers of a time without zone see microseconds, and so do predicates.

What Hive and Spark understand in different ways is refused, with a hint at how to write it: a text compared with a
number, 0.1 with a FLOAT, a time zone that only the session knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from acidlib.scan.conditions import HIVE_TYPE, Bounds, Condition, Rows, all_of, columns_of

__all__ = ["HIVE_TYPE", "Bounds", "Predicate", "parse_predicate", "pushed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """A condition on the columns of a row; it can be pickled.

    columns  the lower-case names of the columns that it names
    """

    text: str
    columns: frozenset[str]
    condition: Condition

    def may_match(self, bounds: Mapping[str, Bounds]) -> bool:
        """Return False only if no row within these bounds matches; a column without bounds may hold anything."""
        return self.condition.outcomes(bounds).true

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return true for each row that matches; false and null for the others.

        The batch has all columns of the predicate, under their names in any case. Raises DefectError for one that it
        has not.
        """
        return self.condition.mask(Rows(batch))


def parse_predicate(text: str, schema: pa.Schema) -> Predicate:
    """Parse a predicate on columns of a schema, whose names are compared without case.

    A field whose metadata has `HIVE_TYPE` `char(n)` is compared without the blanks at its end.

    Raises UsageError with the text and the part for what does not parse, is not supported, or names no column.

    >>> schema = pa.schema([("ds", pa.date32()), ("amount", pa.decimal128(9, 2))])
    >>> predicate = parse_predicate("ds = '2026-01-03' and amount > 10", schema)
    >>> sorted(predicate.columns)
    ['amount', 'ds']
    """
    # tasks only evaluate predicates: the import of sqlglot would cost each of their processes 0.15 seconds
    from acidlib.scan.sql_text import conjuncts, unusable

    parts = conjuncts(text, columns_of(schema), dialect="hive")
    conditions: list[Condition] = []
    for part in parts:
        if part.condition is None:
            raise unusable(text, part.reason)
        conditions.append(part.condition)
    return Predicate(
        text=text, columns=frozenset().union(*(part.columns for part in parts)), condition=all_of(conditions)
    )


def pushed(text: str, schema: pa.Schema) -> Predicate | None:
    """Return what can be understood of a condition that Spark applies itself: every row that it selects matches.

    These are parts between its outermost ANDs; None when none is understood. Spark's settings say what backslashes and
    double quotes are, so a text with one of them is not understood.

    Raises UsageError for a text that does not parse, or that compares a name that is no column or a date without
    quotes.
    """
    from acidlib.scan.sql_text import conjuncts  # as in `parse_predicate`

    parts = conjuncts(text, columns_of(schema), dialect="spark")
    known = [(part.columns, part.condition) for part in parts if part.condition is not None]
    if not known or "\\" in text or '"' in text:
        return None
    return Predicate(
        text=text,
        columns=frozenset().union(*(columns for columns, _ in known)),
        condition=all_of([condition for _, condition in known]),
    )
