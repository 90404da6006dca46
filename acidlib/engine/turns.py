"""In which order the places of a run are begun, and how many of them: no more is listed and kept than that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

from acidlib.engine.attempts import Attempts
from acidlib.engine.selection import (
    PORTION,
    Doubts,
    ListingOutcome,
    Order,
    PassedOver,
    Spending,
    Unlisted,
    look_at,
    look_in_portions,
    ordered,
    urgency,
)
from acidlib.engine.services import Services
from acidlib.engine.target import ListedPlace, Target
from acidlib.model.requests import CompactionRequest, CompactionType

LISTINGS_KEPT = 4096
"""Listings that are kept; of more places they are made twice where an order needs figures of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A place when it is its turn.

    done   why there is nothing to merge, where there is not: it costs no budget and goes first
    tried  the request that was not carried out before for what the place still is: it goes last, the oldest first
    """

    looked: ListingOutcome
    done: str | None = None
    tried: CompactionRequest | None = None

    @property
    def key(self) -> tuple[bool, bool, int]:
        """Orders the turns of places that are listed together."""
        later = self.tried is not None or isinstance(self.looked, Unlisted) or self.looked.is_claimed
        return self.done is None, later, 0 if self.tried is None else self.tried.id


class Asked(Protocol):
    """What a run is asked for: places by name, or requests of a queue."""

    def noted(self, target: Target) -> int | None:
        """A figure of a place that the order goes by, the largest first; None where nobody has noted one."""

    def is_automatic(self, target: Target) -> bool:
        """Whether an initiator asked for a place, not a person."""

    def settles(self, turn: Turn) -> bool:
        """Whether it is over with a turn now: then it costs no budget."""

    def pass_over(self, one: PassedOver) -> None:
        """A place is left alone."""


class Turns:
    """The places of a run in their order: repeated, it gets further each time whatever its budget.

    What always fails comes last. Where it is known what comes first, or the order goes by names, places are listed in
    portions while others are compacted, and not at all once the budget is spent.

    idle_seconds  a place that has changed within them is passed over
    doubts        look at what is listed
    """

    def __init__(
        self,
        services: Services,
        attempts: Attempts,
        targets: Sequence[Target],
        asked: Asked,
        spending: Spending,
        *,
        kind: CompactionType,
        order: Order,
        idle_seconds: float | None,
        doubts: Doubts,
    ) -> None:
        self._services = services
        self._doubts = doubts
        self._attempts = attempts
        self._targets = targets
        self._asked = asked
        self._spending = spending
        self._kind = kind
        self._order = order
        self._idle_seconds = idle_seconds
        self._places = self._fresh = self._tried = 0

    def within_the_budget(self, begin: Callable[[], None]) -> Iterator[Turn]:
        """As many turns as it lets start; `begin` is called before the first, when the listing of all is over.

        Those with nothing to merge cost none of it.
        """
        return takewhile(
            lambda turn: self._spending.lets_start(turn.looked.bytes, is_free=turn.done is not None),
            self._all(begin),
        )

    def left(self) -> list[str]:
        """Return a note when, of many places, none was left that had not been done or tried before."""
        self._doubts.end()
        if self._places < 2 or self._fresh:
            return []
        tried = f" but {self._tried} that could not be done before, and have not changed since" if self._tried else ""
        return [f"nothing is left to do of {self._places:,} places{tried}"]

    def _all(self, begin: Callable[[], None]) -> Iterator[Turn]:
        last: list[Turn] = []
        for number, looked in enumerate(self._portions()):
            if number == 0:
                begin()
            for turn in self._in_turn(looked):
                if self._asked.settles(turn):
                    continue
                if turn.tried is not None:
                    last.append(turn)
                else:
                    yield turn
        yield from sorted(last, key=lambda turn: turn.key)

    def _portions(self) -> Iterator[list[ListingOutcome]]:
        """What is listed together, the most urgent first."""
        targets = self._targets
        figures = [0 if self._order is Order.NAME else self._asked.noted(target) for target in targets]
        known = [figure for figure in figures if figure is not None]
        if len(known) < len(targets):
            if len(targets) <= LISTINGS_KEPT:
                looked = []
                for found, passed_over in look_in_portions(self._services, targets, self._idle_seconds):
                    self._doubts.look(found)
                    looked += found
                    self._pass_over(passed_over)
                yield looked
                return
            ranked = self._by_first_look()
        else:
            ranked = sorted(zip(known, targets, strict=True), key=lambda one: (-one[0], one[1].name))
        for start in range(0, len(ranked), PORTION):
            if start and not self._spending.lets_look_on():
                return
            some = [target for _, target in ranked[start : start + PORTION]]
            found, passed_over = look_at(self._services, some, self._idle_seconds)
            self._doubts.look(found)
            self._pass_over(passed_over)
            yield found

    def _by_first_look(self) -> list[tuple[float, Target]]:
        """The places in their order, of which a look that is not kept tells the figures."""
        figures: list[tuple[float, Target]] = []
        plain = {(target.name, target.location): target for target in self._targets}
        for found, passed_over in look_in_portions(self._services, self._targets, self._idle_seconds):
            self._doubts.look(found)
            figures += [(urgency(self._order, one), plain[one.target.name, one.target.location]) for one in found]
            self._pass_over(passed_over)
        return sorted(figures, key=lambda one: (-one[0], one[1].name))

    def _in_turn(self, looked: Sequence[ListingOutcome]) -> list[Turn]:
        found = [self._turn(one) for one in ordered(looked, self._order)]
        return sorted(found, key=lambda turn: turn.key)

    def _turn(self, one: ListingOutcome) -> Turn:
        done = tried = None
        if isinstance(one, ListedPlace):
            done = one.nothing_to_merge(self._kind, automatic=self._asked.is_automatic(one.target))
            tried = None if done else self._attempts.last(one, self._kind)
            self._places += 1
            self._tried += tried is not None
            self._fresh += done is None and tried is None
        return Turn(looked=one, done=done, tried=tried)

    def _pass_over(self, some: Sequence[PassedOver]) -> None:
        for one in some:
            self._asked.pass_over(one)
