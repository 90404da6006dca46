"""What was counted in a bucket: rows and delete events, and a sum over them that their order does not change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from marshal import dumps
from typing import Any

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Rows and delete events: how many, and the sum of a hash of each, modulo 2 to the 64; `seconds` of the task."""

    rows: int = 0
    row_sum: int = 0
    events: int = 0
    event_sum: int = 0
    seconds: float = 0.0

    def with_more(self, other: Tally) -> Tally:
        """This one and another of other buckets, as one."""
        return Tally(
            rows=self.rows + other.rows,
            row_sum=(self.row_sum + other.row_sum) & _MASK,
            events=self.events + other.events,
            event_sum=(self.event_sum + other.event_sum) & _MASK,
            seconds=self.seconds + other.seconds,
        )

    def differs_from(self, other: Tally) -> str | None:
        """How this one, of before, differs from that of now; None where nothing does."""
        if (self.rows, self.row_sum) != (other.rows, other.row_sum):
            return _words(self.rows, other.rows, "rows")
        if (self.events, self.event_sum) != (other.events, other.event_sum):
            return _words(self.events, other.events, "delete events")
        return None


def _words(before: int, now: int, what: str) -> str:
    if before == now:
        return f"{now:,} {what}, as many as before, and not the same"
    return f"{before:,} {what} before and {now:,} now"


class Sum:
    """Adds up things, in whatever order they come."""

    def __init__(self) -> None:
        self.count = self.sum = 0

    def add_all(self, things: Iterable[Any]) -> None:
        """Add values that are made of numbers, texts, bytes, tuples, lists and dictionaries, each to its last bit."""
        count = total = 0
        for one in things:
            # version 2 writes floating point numbers as they are, and does not look at which objects are the same
            total += int.from_bytes(blake2b(dumps(one, 2), digest_size=8).digest())
            count += 1
        self.count += count
        self.sum = (self.sum + total) & _MASK
