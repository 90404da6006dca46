"""Hadoop's properties as a store reads them: their forms, and the refusal of a wrong one by its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from acidlib.errors import RefusedError
from acidlib.wording import parse_duration, parse_flag


class StoreProperties(ABC):
    """The properties that hold for one bucket or account, by their names without what all of them begin with."""

    def __init__(self, subject: str, properties: Mapping[str, str]) -> None:
        """Take all properties; `subject` is what they are about, for messages."""
        self.subject = subject
        self.properties = properties

    @abstractmethod
    def key(self, name: str) -> str:
        """Return the whole name of the property in force."""

    def text(self, name: str) -> str:
        """Return a text; empty for a property that is not set."""
        return self.properties.get(self.key(name), "").strip()

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a flag; RefusedError for another text."""
        text = self.text(name)
        try:
            return parse_flag(text) if text else default
        except ValueError:
            raise self.refused(name, f"is {text.lower()!r}, which is neither true nor false") from None

    def number(self, name: str, default: int) -> int:
        """Return a whole number that is not negative; RefusedError for another text."""
        text = self.text(name)
        if text and not text.isdecimal():
            raise self.refused(name, f"is {text!r}, which is no number")
        return int(text) if text else default

    def seconds(self, name: str, default: float) -> float:
        """Return the seconds of a duration in Hadoop's form: in milliseconds, or with its unit.

        RefusedError for another text. 0 is no limit to Hadoop, and the default here.
        """
        text = self.text(name)
        try:
            seconds = parse_duration(text or "0", "ms") / 1000
        except ValueError:
            seconds = -1.0
        if seconds < 0:
            raise self.refused(name, f"is {text.lower()!r}, which is no duration")
        return seconds or default

    def refused(self, name: str, why: str) -> RefusedError:
        """Return the error for a property; `why` begins with a verb."""
        return RefusedError(f"Cannot use {self.subject}: {self.key(name)} {why}")
