"""Java's ORC reader (from pyspark's jars) as a judge: values, seeks by the row index, pruning by statistics.

One JVM serves a whole test session. It also writes files: see ``java_files``.
"""

from __future__ import annotations

import functools
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges import orc_tail as o
from judges.java_process import JavaProcess, JudgeError
from judges.values import canonical_rows, from_json

__all__ = ["JavaOrc", "JudgeError", "Pruning", "Seeks", "shared"]
ID_COLUMNS = ("operation_", "originalTransaction", "bucket", "rowId", "currentTransaction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeks:
    """Seeks tried and what was wrong."""

    tried: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """Search arguments on one column. ``rows_read`` of ``rows_total`` rows over all queries came back; ``lost``: wrong.

    ``skipped`` says why no query was made: Java compares text above U+D7FF in another order than ORC.
    """

    column: str
    queries: int
    rows_read: int
    rows_total: int
    lost: tuple[str, ...]
    skipped: str


def _bloom_column(path: Path) -> str:
    """The name of a top-level column, if it can be one with a bloom filter; nothing where the file has no filter."""
    orc = o.read_orc(path)
    filtered = {s.column for stripe in orc.stripes for s in stripe.streams if s.kind in (o.BLOOM, o.BLOOM_UTF8)}
    root = orc.types[0]
    top = orc.types[root.children[-1]] if root.names[-1:] == ("row",) else root
    names = [name for name, column in zip(top.names, top.children, strict=True) if column in filtered]
    return next(iter([*names, *top.names]), "") if filtered else ""


class JavaOrc(JavaProcess):
    """The JVM. Use as a context manager; every call raises JudgeError if Java cannot read the file."""

    def __init__(self) -> None:
        super().__init__("OrcJudge")

    def dump(self, path: Path) -> list[str]:
        """Every row as one JSON line of the form of ``values``, without the padding of CHAR."""
        return self.ask("dump", str(path))

    def dump_as(self, path: Path, schema: str) -> list[str]:
        """``dump`` by a reader whose table has the columns of ``schema`` now: ORC's schema evolution, by names."""
        return self.ask("dumpas", str(path), schema)

    def dump_in_zone(self, path: Path, zone: str) -> list[str]:
        """``dump`` by a reader whose default time zone is ``zone``; timestamps are seconds since 1970 in UTC."""
        return self.ask("dumplocal", str(path), zone)

    def rows(self, path: Path) -> list[Any]:
        """Every row in canonical form, without the padding of CHAR."""
        return [from_json(line) for line in self.dump(path)]

    def differences(self, path: Path) -> list[str]:
        """Where Java and pyorc read a file differently: at most ten."""
        java, other = self.rows(path), list(canonical_rows(path, trim_char=True))
        found = [f"Java reads {len(java)} rows, pyorc {len(other)}"] if len(java) != len(other) else []
        pairs = enumerate(zip(java, other, strict=False))
        found += [f"row {i}: Java {a}, pyorc {b}" for i, (a, b) in pairs if a != b and _one_zero(a) != _one_zero(b)][
            :10
        ]
        return found

    def seek_check(self, path: Path, *, random_rows: int = 50) -> Seeks:
        """Seek to the first row of every row group, its neighbours and some others; compare 64 rows from there.

        A file without row index is refused: Java's seeks only work with one.
        """
        tried, *problems = self.ask("seek", str(path), str(random_rows), _bloom_column(path))
        return Seeks(tried=int(tried), problems=tuple(problems))

    def sarg_check(self, path: Path, *, max_groups: int = 4, columns: tuple[str, ...] = ()) -> list[Pruning]:
        """Search arguments with literals at and around the extremes of some row groups, on each primitive column.

        The columns are those inside ``row`` of an ACID file, else those of the root; ``columns`` chooses some.
        """
        answers = [json.loads(line) for line in self.ask("sarg", str(path), str(max_groups), ",".join(columns))]
        return [
            Pruning(
                column=a["column"],
                queries=a.get("queries", 0),
                rows_read=a.get("rows_read", 0),
                rows_total=a.get("rows_total", 0),
                lost=tuple(a.get("lost", ())),
                skipped=a.get("skipped", ""),
            )
            for a in answers
        ]

    def rows_left(self, path: Path, column: str, text: str) -> int:
        """How many rows Java reads when it looks for a value in a column: row groups that may have it.

        ``text`` is the value in canonical form, without the letter and the colon before it.
        """
        return self.look_up(path, column, text)[0]

    def look_up(self, path: Path, column: str, text: str) -> tuple[int, int]:
        """``rows_left``, and how many of these rows have the value."""
        [found] = self.ask("lookup", str(path), column, text)
        left, matching = found.split("\t")
        return int(left), int(matching)

    def sarg_check_ids(self, path: Path, *, max_groups: int = 4) -> list[Pruning]:
        """``sarg_check`` for the five id columns of an ACID file.

        Java cannot name them in a search argument, so it is given a copy whose root field ``operation`` is called
        ``operation_``: for Java that is no ACID file.
        """
        orc = o.read_orc(path)
        root = o.parse(orc.footer[4][0])
        names = [*ID_COLUMNS, "row"]
        if len(root.get(3, [])) != len(names):
            raise ValueError(f"{path} is no ACID file")
        root = {**root, 3: [name.encode() for name in names]}
        footer = {**orc.footer, 4: [o.encode(root), *orc.footer[4][1:]]}
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "ids.orc"
            copy.write_bytes(o.with_tail(orc, footer))
            return self.sarg_check(copy, max_groups=max_groups, columns=ID_COLUMNS)


shared = functools.cache(JavaOrc)
"""The one JVM of this process, started by the first who asks."""


def _one_zero(row: object) -> str:
    """A row as text with zeros of one sign.

    Java's reader takes a batch for one repeated value by `==`, by which -0.0 is 0.0: a column that holds both reads as
    the first of them. The sign is pyorc's to judge.
    """
    return repr(row).replace("f:8000000000000000", "f:0000000000000000")
