"""The `Store` of what is only looked at: nothing is held, staged or unfinished there, and every change is refused."""

from __future__ import annotations

from typing import NoReturn

from acidlib.errors import RefusedError
from acidlib.model.location import LISTED_ONLY, Location


def refusal(location: Location) -> RefusedError:
    """Why nothing is changed at a location."""
    return RefusedError(
        f"Cannot change anything in {location}: because of {LISTED_ONLY[location.kind]} only listings are supported: "
        "nothing here reads or writes data files there, and that two runs cannot claim one place has not been shown"
    )


class ListedOnlyStore:
    """`Store` of a location in `LISTED_ONLY`."""

    shows_at_once = True

    def claim(self, location: Location, **_: object) -> NoReturn:
        raise refusal(location)

    def holder(self, location: Location, *, now: float) -> None:
        """Nobody: nobody can."""

    def revoke_others(self, location: Location) -> NoReturn:
        raise refusal(location)

    def stage(self, location: Location, **_: object) -> NoReturn:
        raise refusal(location)

    def trash(self, location: Location, *_: object, **__: object) -> NoReturn:
        raise refusal(location)

    def trash_place(self, location: Location) -> NoReturn:
        raise refusal(location)

    def take_out_of_sight(self, location: Location, *_: object, **__: object) -> NoReturn:
        raise refusal(location)

    def make_durable(self, location: Location) -> NoReturn:
        raise refusal(location)

    def take_back(self, location: Location, *_: object, **__: object) -> NoReturn:
        raise refusal(location)

    def require_taking_back(self, location: Location) -> NoReturn:
        raise refusal(location)

    def remove(self, location: Location, *_: object, **__: object) -> NoReturn:
        raise refusal(location)

    def unfinished(self, location: Location) -> tuple[str, ...]:
        """None: nothing was ever begun."""
        del location
        return ()

    def roll_forward(self, location: Location, **_: object) -> NoReturn:
        raise refusal(location)
