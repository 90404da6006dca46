"""What came of withdrawing requests: as values, JSON and text."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from acidlib.report.results import EXIT_DONE, EXIT_NOT_DONE, EXIT_SOME_FAILED
from acidlib.report.text import wrapped


class CancelState(enum.Enum):
    """The `state` of a cancellation."""

    PLANNED = "planned"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """One request that was named, and whether it is withdrawn. Unknown is None."""

    id: int
    database: str | None = None
    table: str | None = None
    partition: str | None = None
    type: str | None = None
    state: CancelState
    reason: str

    def document(self) -> dict[str, Any]:
        """An entry of `cancellations` in the JSON document."""
        return asdict(self) | {"state": self.state.value}

    def lines(self) -> list[str]:
        """For people."""
        name = ".".join(part for part in (self.database, self.table, self.partition) if part)
        about = f"request {self.id}" + (f", {self.type} of {name}" if name else "")
        return wrapped(f"{about}: {self.state.value}, {self.reason}", "", "    ")


def cancellations_text(found: Sequence[Cancellation]) -> str:
    """A line or more for each, in the order in which they were named."""
    return "\n".join(line for one in found for line in one.lines())


def cancellations_document(found: Sequence[Cancellation]) -> dict[str, Any]:
    """What the JSON document says of them."""
    states = {state.value: sum(one.state is state for one in found) for state in CancelState}
    return {
        "cancellations": [one.document() for one in found],
        "totals": {"cancellations": len(found), "states": states},
    }


def exit_status(found: Sequence[Cancellation]) -> int:
    """0 when all are withdrawn; else 1 where one is named, and 3 where several are."""
    if all(one.state in (CancelState.PLANNED, CancelState.CANCELLED) for one in found):
        return EXIT_DONE
    return EXIT_NOT_DONE if len(found) == 1 else EXIT_SOME_FAILED
