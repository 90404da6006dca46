"""The lines that a run writes to standard error: bare words for a person, or each with time, level, run and place."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from acidlib.report.text import json_characters, one_line

INFO, NOTE, WARNING, ERROR = "info", "note", "warning", "error"
"""Levels; a note is about the run as a whole, and repeated in its JSON document."""


class LogFormat(enum.Enum):
    """How a line is written: as words, as words behind its circumstances, or as a JSON object."""

    WORDS = "words"
    FULL = "full"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLines:
    """Makes the lines of one run of a job; `clock` gives epoch seconds."""

    format: LogFormat = LogFormat.WORDS
    job: str = ""
    run_id: str = ""
    clock: Callable[[], float] = lambda: 0.0

    def line(self, text: str, *, level: str = INFO, place: str | None = None) -> str:
        """One line, without its end; `place` is a table or partition by name."""
        text = one_line(text)
        if self.format is LogFormat.WORDS:
            about = "" if place is None else f"{one_line(place)}: "
            return f"{'' if level == INFO else f'{level}: '}{about}{text}"
        time = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self.format is LogFormat.FULL:
            about = "-" if place is None else one_line(place)
            return f"{time} {level.upper():<7} {self.job} {self.run_id} {about}: {text}"
        fields = {
            "time": time,
            "level": level,
            "job": self.job,
            "run_id": self.run_id,
            "place": place,
            "message": text,
        }
        return json_characters(json.dumps(fields, ensure_ascii=False))
