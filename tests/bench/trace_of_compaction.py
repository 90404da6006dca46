"""What a reader of the code meets on the way of one compaction, one cleaning and one read, and how much code there is.

    cd tests; PYTHONPATH=.. ../.venv/bin/python -m bench.trace_of_compaction [--way] [TABLE]

Runs a major compaction of a place, its cleaning and a read of a snapshot on a copy of a table of real Hive, in this
process and without Spark, once to warm up and once under a profiler. Of each it counts what is the project's own:
functions called, modules they stand in, dataclasses made, calls of the functions that list a place, compute its state
and read a tail.

The way is what has to be read to know how one thing leads to the next: at each call of the operating system or of the
queue's database the functions that lead there from the verb, each where it is first met. Files are those that they
stand in; a turn back is a step on this way into a file that was left before. `--way` prints it.
"""

from __future__ import annotations

import ast
import dataclasses
import io
import itertools
import sys
import tempfile
import threading
import tokenize
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from conformance.hive_tables import HiveTable, hive_table
from integration.harness import Jobs

import acidlib

ROOT = Path(acidlib.__file__).parent
COUNTED = ("list_location", "acid_state", "read_tail")
OUTSIDE = ("posix", "_sqlite3")
"""Modules whose calls leave this process."""
LEFT_OUT = (
    *("api/", "cli/", "config/", "report/", "processes.py"),
    *("runs/environment.py", "runs/machine.py", "runs/open.py", "execute/spark", "execute/stopping.py"),
    *(
        "queue/database.py",
        "queue/tables.py",
        "stores/stores.py",
        "stores/renaming/local.py",
        "stores/renaming/tree.py",
    ),
)
"""What a reader of the way passes over: how arguments, settings and services come to be, and what stands behind the
interfaces of a file system and a database."""


class Trace:
    """Counts calls by their code, and keeps the way."""

    def __init__(self) -> None:
        self.calls: Counter[types.CodeType] = Counter()
        self.made: set[type] = set()
        self.tails: Counter[str] = Counter()
        self.way: list[types.CodeType] = []

    def __call__(self, frame: types.FrameType, event: str, argument: Any) -> None:
        """See sys.setprofile."""
        if event == "c_call" and getattr(argument, "__module__", None) in OUTSIDE:
            self.keep_way(frame)
        if event != "call":
            return
        code = frame.f_code
        if code.co_name in ("__init__", "__post_init__") and "self" in frame.f_locals:
            kind = type(frame.f_locals["self"])
            if dataclasses.is_dataclass(kind) and kind.__module__.startswith("acidlib."):
                self.made.add(kind)
        if _file(code) and not code.co_name.startswith("<"):
            self.calls[code] += 1
        if code.co_name == "read_tail":
            self.tails[str(getattr(frame.f_locals.get("source"), "name", "?"))] += 1

    def keep_way(self, frame: types.FrameType | None) -> None:
        """Keep the project's own frames of this stack that are new, the verb first."""
        stack = []
        while frame is not None:
            stack.append(frame.f_code)
            frame = frame.f_back
        ours = [code for code in reversed(stack) if _file(code) and not _file(code).startswith(LEFT_OUT)]
        self.way += [code for code in dict.fromkeys(ours) if code not in self.way]

    def figures(self) -> dict[str, int]:
        """By what is counted."""
        named = {name: sum(n for code, n in self.calls.items() if code.co_name == name) for name in COUNTED}
        return {
            "files of the way": len({_file(code) for code in self.way}),
            "turns back": _turns_back([_file(code) for code in self.way]),
            "functions": len(self.calls),
            "modules": len({_file(code) for code in self.calls}),
            "dataclasses": len(self.made),
            **{f"calls of {name}": count for name, count in named.items()},
            "files whose tail was read": len(self.tails),
        }


def _file(code: types.CodeType) -> str:
    """The file of a function, relative to the project's; empty for that of anybody else."""
    path = Path(code.co_filename)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""


def _turns_back(files: list[str]) -> int:
    left: set[str] = set()
    turns = 0
    for before, file in itertools.pairwise(files):
        if file != before:
            left.add(before)
            turns += file in left
    return turns


@contextmanager
def profiled(trace: Trace | None) -> Iterator[None]:
    """Have a trace see the calls of all threads that begin meanwhile, and of this one."""
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def verbs(place: Path, table: HiveTable) -> dict[str, Callable[[], object]]:
    """What is traced, in the order in which it can be done: each on what the one before has left."""
    copy = table.copy(place / table.folder.name)
    jobs = Jobs(queue_url=f"sqlite:///{place}/queue.db")
    named = ("--location", copy, "--write-ids", table.write_ids)

    def read() -> None:
        acidlib.directory(copy, write_ids=table.write_ids, queue=jobs.queue_url).snapshot().to_arrow()

    return {
        "read": read,
        "compaction": lambda: jobs.good("major_compact", *named),
        "cleaning": lambda: jobs.good("cleaner", "--retention", "0s"),
    }


def code_lines(source: str) -> int:
    """How many lines have code: neither blank nor only a comment or a docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    words = set()
    for node in ast.walk(ast.parse(source)):
        for statement in getattr(node, "body", ()) if isinstance(node, documented) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                words |= set(range(statement.lineno, (statement.end_lineno or 0) + 1))
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in nothing
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - words)


def shape() -> dict[str, int]:
    """What is counted of the code as it stands."""
    files = sorted(ROOT.rglob("*.py"))
    rooms = Counter(path.parent for path in files)
    room, most = rooms.most_common(1)[0]
    return {
        "files": len(files),
        "lines of code": sum(code_lines(path.read_text()) for path in files),
        f"files in the fullest room, {room.relative_to(ROOT)}/": most,
    }


@click.command()
@click.option("--way", is_flag=True, help="Print the functions of each way.")
@click.argument("table", default="hive3/f_abort")
def main(table: str, way: bool) -> None:
    """Print the figures."""
    traces: dict[str, Trace] = {}
    with tempfile.TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patch:
        for name in ("HIVE_CONF_DIR", "ACIDLIB_QUEUE_URL"):
            patch.delenv(name, raising=False)
        patch.setenv("ACIDLIB_HOME", made)
        for number in range(2):
            place = Path(made) / str(number)
            place.mkdir()
            for name, verb in verbs(place, hive_table(table)).items():
                traces[name] = Trace()
                with profiled(traces[name] if number else None):
                    verb()
    columns = {name: trace.figures() for name, trace in traces.items()}
    click.echo(f"{'':28}" + "".join(f"{name:>12}" for name in columns))
    for what in columns["compaction"]:
        click.echo(f"{what:28}" + "".join(f"{figures[what]:12}" for figures in columns.values()))
    for what, count in shape().items():
        click.echo(f"{what:52}{count:12}")
    for name, trace in traces.items() if way else ():
        click.echo(f"\n{name}")
        for code in trace.way:
            click.echo(f"  {_file(code)}: {code.co_qualname}")


if __name__ == "__main__":
    main()
