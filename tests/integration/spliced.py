"""A table of whose major compaction a bucket copies most bytes itself."""

from __future__ import annotations

import random
from typing import Any

from judges.tables import Layout, Transaction

_ROWS, _BYTES = 350, 8000
# stripes of 5.6 MB, so that a bucket can copy them: a part has 5 MiB or more
LAYOUT = Layout(compression="none", stripe_size=5_600_000, batch=50)


def transactions() -> tuple[Transaction, ...]:
    """A file of three stripes, the second of which loses two rows, and a small one."""
    chance = random.Random(1)
    values = tuple((number, chance.randbytes(_BYTES).hex()) for number in range(3 * _ROWS))
    return (
        Transaction(inserts=values),
        Transaction(deletes=(_ROWS + 100, _ROWS + 101)),
        Transaction(inserts=((-1, "small"),)),
    )


def was_spliced(entry: dict[str, Any], sent: int) -> bool:
    """Whether of a compaction only the second stripe and what is small went to the store: so many bytes were sent."""
    return (entry["stripes_copied"], entry["stripes_rewritten"]) == (3, 1) and sent < 6_000_000
