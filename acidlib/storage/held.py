"""A claim that this process holds, whatever its store: renewed until it is released."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from acidlib.errors import AcidError, ConflictError
from acidlib.model.location import Location
from acidlib.storage.beats import BEATS

BEAT_SECONDS = 30.0


class Claim(ABC):
    """Use it as a context manager. Call `assert_mine` right before anything becomes visible or is deleted."""

    def __init__(self, location: Location, token: str, beat_seconds: float) -> None:
        """Begins to renew: what `renew` needs has to be there.

        location  the place that is claimed
        token     what tells this claim from all others
        """
        self.location = location
        self.token = token
        self._lock = threading.Lock()
        self._lost: str | None = None
        BEATS.add(self, beat_seconds)

    @abstractmethod
    def renew(self) -> bool:
        """Tell the store that the owner lives; False if the claim is no longer ours. One thread at a time calls it."""

    @abstractmethod
    def give_up(self) -> None:
        """Tell the store that nobody holds the claim any more, unless it is another's."""

    def assert_mine(self) -> None:
        """Renews the claim; raises `ConflictError` if somebody else has taken it over or it is gone."""
        with self._lock:
            if self._lost is None and not self.renew():
                self._lost = "somebody else has taken it over or removed it"
            if self._lost is not None:
                raise ConflictError(
                    f"Cannot go on in {self.location}: our claim on it is lost, {self._lost}; call again"
                )

    def release(self) -> None:
        """Stops renewing and gives the claim up, unless it is no longer ours. May be called again."""
        BEATS.remove(self)
        with self._lock:  # a renewal that is under way ends before
            if self._lost is None:
                self._lost = "it was released"
                self.give_up()

    def __enter__(self) -> Self:
        """The claim itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Releases it."""
        try:
            self.release()
        except AcidError:
            if error is None:
                raise  # else the first error is the one to report; the claim goes stale by itself

    def beat(self) -> bool:
        """Renews it; False once it is lost or released."""
        try:
            self.assert_mine()
        except ConflictError:
            return False
        except AcidError:
            pass  # it may be out of reach for a while: the next renewal, or assert_mine, will show it
        return True
