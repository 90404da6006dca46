"""What one major compaction of one bucket of nine files meets on its way: functions, modules, listings, tails.

    cd tests; PYTHONPATH=.. ../.venv/bin/python -m bench.trace_of_compaction [TABLE]

Runs `major_compact --location` on a copy of a table of real Hive, in this process and without Spark, once to warm up
and once under a profiler. Counts what is the project's own: functions called, modules they stand in, dataclasses made,
calls of the functions that list a place, compute its state and read a tail; and shows the frames between the command
and the rename that publishes.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import types
from collections import Counter
from pathlib import Path
from typing import Any

import click
import pytest
from conformance.hive_tables import HiveTable, hive_table
from integration.harness import Jobs

import acidlib

ROOT = str(Path(acidlib.__file__).parent)
COUNTED = ("list_location", "acid_state", "read_tail")


class Trace:
    """Counts calls by their code."""

    def __init__(self) -> None:
        self.calls: Counter[types.CodeType] = Counter()
        self.made: set[type] = set()
        self.tails: Counter[str] = Counter()
        self.frames: list[str] = []

    def keep_frames(self, frame: types.FrameType | None) -> None:
        """Keep the project's own frames of this stack, the command first."""
        while frame is not None:
            code = frame.f_code
            if code.co_filename.startswith(ROOT):
                self.frames.insert(0, f"{code.co_filename.removeprefix(ROOT + '/')}: {code.co_qualname}")
            frame = frame.f_back

    def __call__(self, frame: types.FrameType, event: str, argument: Any) -> None:
        """See sys.setprofile."""
        code = frame.f_code
        if event != "call":
            return
        if code.co_name in ("__init__", "__post_init__") and "self" in frame.f_locals:
            kind = type(frame.f_locals["self"])
            if dataclasses.is_dataclass(kind) and kind.__module__.startswith("acidlib."):
                self.made.add(kind)
        if not code.co_filename.startswith(ROOT) or code.co_name.startswith("<"):
            return
        self.calls[code] += 1
        paths = [Path(value) for value in frame.f_locals.values() if isinstance(value, str)]
        publishes = any(path.name.startswith("base_") and not path.parent.name.startswith("_") for path in paths)
        if "renameat2" in code.co_name and publishes and not self.frames:
            self.keep_frames(frame)
        if code.co_name == "read_tail":
            self.tails[str(getattr(frame.f_locals.get("source"), "name", "?"))] += 1

    def figures(self) -> dict[str, int]:
        """By what is counted."""
        modules = {code.co_filename for code in self.calls}
        named = {name: sum(n for code, n in self.calls.items() if code.co_name == name) for name in COUNTED}
        return {
            "functions": len(self.calls),
            "modules": len(modules),
            "dataclasses": len(self.made),
            **{f"calls of {name}": count for name, count in named.items()},
            "files whose tail was read": len(self.tails),
            "frames at the rename": len(self.frames),
        }


def compact(place: Path, table: HiveTable) -> None:
    """One run of the job on a copy of the table."""
    copy = table.copy(place / table.name)
    jobs = Jobs(queue_url=f"sqlite:///{place}/queue.db")
    ran = jobs.good("major_compact", "--location", copy, "--write-ids", table.write_ids)
    assert ran.states == ["ready for cleaning"], ran


@click.command()
@click.argument("table", default="hive3/f_abort")
def main(table: str) -> None:
    """Print the figures."""
    trace = Trace()
    with tempfile.TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patch:
        for name in ("HIVE_CONF_DIR", "ACIDLIB_QUEUE_URL"):
            patch.delenv(name, raising=False)
        patch.setenv("ACIDLIB_HOME", made)
        for number in range(2):
            place = Path(made) / str(number)
            place.mkdir()
            sys.setprofile(trace if number else None)
            try:
                compact(place, hive_table(table))
            finally:
                sys.setprofile(None)
    for what, count in trace.figures().items():
        click.echo(f"{what:28}{count:6}")
    click.echo("\n".join(f"  {frame}" for frame in trace.frames))


if __name__ == "__main__":
    main()
