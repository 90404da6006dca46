"""Every statistic of an ORC file recomputed from its values and compared exactly, and the bookkeeping of its tail.

Values come from pyorc, the tail from ``orc_tail``. A row group holds whole top-level rows; the group of a nested column
holds the values that belong to those rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judges import orc_tail as o
from judges.column_stats import Column, Policy, Problem, compare
from judges.values import open_orc, union_tag

ACID = ("operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")


@dataclass(slots=True, kw_only=True)
class Report:
    """What was found. ``checked``: statistics compared; ``absent``: of them, without their typed message."""

    problems: list[str] = field(default_factory=list)
    checked: int = 0
    absent: int = 0
    row_groups: int = 0
    stripes: int = 0
    rows: int = 0


class _Gatherer:
    """The values of some rows, spread over all columns of the type tree."""

    def __init__(self, orc: o.OrcFile) -> None:
        self.types = orc.types
        self.columns = [Column(t) for t in orc.types]

    def add(self, column: int, value: Any, kind: Any) -> None:
        target = self.columns[column]
        if value is None:
            target.nulls += 1
            return
        target.add(value)
        children = self.types[column].children
        code = self.types[column].kind
        if code == o.STRUCT:
            for child, item, sub in zip(children, value, kind.fields.values(), strict=True):
                self.add(child, item, sub)
        elif code == o.LIST:
            for item in value:
                self.add(children[0], item, kind.type)
        elif code == o.MAP:
            for key, item in value.items():
                self.add(children[0], key, kind.key)
                self.add(children[1], item, kind.value)
        elif code == o.UNION:
            tag = union_tag(value, kind)
            self.add(children[tag], value, kind.cont_types[tag])

    def merge(self, other: _Gatherer) -> None:
        for mine, theirs in zip(self.columns, other.columns, strict=True):
            mine.merge(theirs)


class _Check:
    def __init__(self, path: Path | bytes, policy: Policy) -> None:
        self.data = path.read_bytes() if isinstance(path, Path) else path
        self.orc = o.read_orc(self.data)
        self.policy = policy
        self.report = Report(stripes=len(self.orc.stripes), rows=self.orc.rows)
        self.last_rows: list[Any] = []
        self.operations = [0, 0, 0]

    def say(self, text: str) -> None:
        self.report.problems.append(text)

    def statistics(self, where: str, found: list[o.Message], columns: list[Column], *, timezone: str) -> None:
        if len(found) != len(columns):
            self.say(f"{where}: {len(found)} statistics for {len(columns)} columns")
            return
        for message, column in zip(found, columns, strict=True):
            self.one(f"{where}, column {column.type.column}", message, column, timezone)

    def one(self, where: str, message: o.Message, column: Column, timezone: str) -> None:
        self.report.checked += 1
        for problem in compare(message, column, self.policy, utc=timezone in ("", "UTC", "GMT")):
            if problem is Problem.ABSENT:
                self.report.absent += 1
                if not self.policy.may_be_absent:
                    self.say(f"{where}: no typed statistics")
            else:
                self.say(f"{where}: {problem}")

    def run(self) -> Report:
        orc, reader = self.orc, open_orc(self.data)
        kind = reader.schema  # a new tree at every access
        rows: Iterator[Any] = iter(reader)
        whole = _Gatherer(orc)
        zones = {s.timezone for s in orc.stripes}
        for stripe in orc.stripes:
            total = _Gatherer(orc)
            for group, size in enumerate(group_sizes(stripe.rows, orc.stride)):
                part = _Gatherer(orc)
                for _ in range(size):
                    row = next(rows)
                    part.add(0, row, kind)
                    self.note_event(row)
                self.row_group(stripe, group, part)
                total.merge(part)
            self.last_rows.append(row)
            name = f"stripe {stripe.number}"
            self.statistics(name, orc.stripe_statistics(stripe.number), total.columns, timezone=stripe.timezone)
            self.streams(stripe, total)
            whole.merge(total)
        if next(rows, None) is not None:
            self.say("the file holds more rows than its stripes say")
        zone = zones.pop() if len(zones) == 1 else ("other" if zones else "")
        self.statistics("file", orc.file_statistics(), whole.columns, timezone=zone)
        self.tail()
        self.acid()
        return self.report

    def row_group(self, stripe: o.Stripe, group: int, part: _Gatherer) -> None:
        if not self.orc.stride:
            return
        self.report.row_groups += 1
        for column in part.columns:
            number = column.type.column
            where = f"stripe {stripe.number}, row group {group}, column {number}"
            entries = stripe.row_index.get(number)
            if entries is None or group >= len(entries):
                self.say(f"{where}: no row index entry")
                continue
            entry = entries[group]
            if 2 in entry:
                self.one(where, o.parse(o.one(entry, 2)), column, stripe.timezone)
            else:
                self.say(f"{where}: no statistics")
            self.positions(where, stripe, number, o.packed(entry.get(1, [])))

    def positions(self, where: str, stripe: o.Stripe, column: int, found: list[int]) -> None:
        """The number of positions fits the streams, and each (chunk, offset) lies inside its stream."""
        expected = position_streams(self.orc, stripe, column)
        chunked = self.orc.compression != 0
        wanted = sum((1 + chunked) + extra for _, extra in expected)
        if len(found) != wanted:
            self.say(f"{where}: {len(found)} positions, {wanted} expected")
            return
        at = 0
        for kind, extra in expected:
            stream = stripe.stream(column, kind)
            length = stream.length if stream else 0
            if found[at] > length:
                self.say(f"{where}: position {found[at]} in stream {kind} of {length} bytes")
            if chunked and found[at + 1] > self.orc.block:
                self.say(f"{where}: offset {found[at + 1]} in a chunk of at most {self.orc.block} bytes")
            at += 1 + chunked + extra

    def streams(self, stripe: o.Stripe, total: _Gatherer) -> None:
        """PRESENT, lengths, order, encodings and the number of index entries of one stripe."""
        name = f"stripe {stripe.number}"
        for column in total.columns:
            number = column.type.column
            present = stripe.stream(number, o.PRESENT)
            if column.nulls and (present is None or present.length == 0):
                self.say(f"{name}, column {number}: {column.nulls} nulls and no PRESENT stream")
            if not column.nulls and present is not None and self.policy.suppress_present:
                self.say(f"{name}, column {number}: PRESENT stream though nothing is null")
            entries = stripe.row_index.get(number, [])
            groups = len(group_sizes(stripe.rows, self.orc.stride)) if self.orc.stride else 0
            if len(entries) != groups:
                self.say(f"{name}, column {number}: {len(entries)} row index entries, {groups} row groups")
        if len(stripe.encodings) != len(self.orc.types):
            self.say(f"{name}: {len(stripe.encodings)} encodings for {len(self.orc.types)} columns")
        index = sum(s.length for s in stripe.streams if s.kind in o.INDEX_STREAMS)
        data = sum(s.length for s in stripe.streams if s.kind not in o.INDEX_STREAMS)
        if (index, data) != (stripe.index_length, stripe.data_length):
            self.say(f"{name}: streams have {index} + {data} bytes, the footer says other")
        kinds = [s.kind in o.INDEX_STREAMS for s in stripe.streams]
        if kinds != sorted(kinds, reverse=True):
            self.say(f"{name}: an index stream after a data stream")
        if len({(s.column, s.kind) for s in stripe.streams}) != len(stripe.streams):
            self.say(f"{name}: a stream twice")

    def tail(self) -> None:
        orc = self.orc
        if sum(s.rows for s in orc.stripes) != orc.rows:
            self.say(f"{sum(s.rows for s in orc.stripes)} rows in stripes, {orc.rows} in the footer")
        at = 3
        for stripe in orc.stripes:
            if stripe.offset != at and self.policy.contiguous:
                self.say(f"stripe {stripe.number} begins at {stripe.offset}, not {at}")
            at = stripe.offset + stripe.index_length + stripe.data_length + stripe.footer_length
        metadata, footer, size = orc.tail_lengths
        header, content = o.one(orc.footer, 1, 0), o.one(orc.footer, 2, 0)
        body = len(orc.data) - 1 - size - footer - metadata
        if header != 3 or at != body:
            self.say(f"header of {header} bytes, stripes end at {at}, metadata begin at {body}")
        if content not in (body, body - 3):
            self.say(f"contentLength {content}, body of {body} bytes")

    def note_event(self, row: Any) -> None:
        if self.acid_file and row is not None and row[0] in (0, 1, 2):
            self.operations[row[0]] += 1

    @property
    def acid_file(self) -> bool:
        return tuple(n.lower() for n in self.orc.types[0].names) == ACID

    def acid(self) -> None:
        """Keys that Hive reads from the footer: version, counts of operations, last key of each stripe."""
        if not self.acid_file or not self.policy.acid_metadata:
            return
        user = self.orc.user
        keys = "".join(f"{row[1]},{row[2]},{row[3]};" for row in self.last_rows).encode()
        expected = {
            "hive.acid.version": b"2",
            "hive.acid.stats": ",".join(map(str, self.operations)).encode(),
            "hive.acid.key.index": keys,
        }
        for key, value in expected.items():
            if user.get(key) != value:
                self.say(f"{key} is {user.get(key)!r}, should be {value!r}")


def group_sizes(rows: int, stride: int) -> list[int]:
    """Rows of each row group of a stripe."""
    if not stride:
        return [rows]
    return [min(stride, rows - at) for at in range(0, rows, stride)]


def position_streams(orc: o.OrcFile, stripe: o.Stripe, column: int) -> list[tuple[int, int]]:
    """Streams with positions in a row index entry, in order: (kind, numbers after the byte position)."""
    kind = orc.types[column].kind
    found = [(o.PRESENT, 2)] if stripe.stream(column, o.PRESENT) is not None else []
    if kind in (o.STRING, o.VARCHAR, o.CHAR):
        dictionary = o.one(stripe.encodings[column], 1, 0) in (1, 3)
        return found + ([(o.DATA, 1)] if dictionary else [(o.DATA, 0), (o.LENGTH, 1)])
    simple: dict[int, list[tuple[int, int]]] = {
        o.BOOLEAN: [(o.DATA, 2)],
        o.FLOAT: [(o.DATA, 0)],
        o.DOUBLE: [(o.DATA, 0)],
        o.BINARY: [(o.DATA, 0), (o.LENGTH, 1)],
        o.DECIMAL: [(o.DATA, 0), (o.SECONDARY, 1)],
        o.TIMESTAMP: [(o.DATA, 1), (o.SECONDARY, 1)],
        o.TIMESTAMP_INSTANT: [(o.DATA, 1), (o.SECONDARY, 1)],
        o.LIST: [(o.LENGTH, 1)],
        o.MAP: [(o.LENGTH, 1)],
        o.STRUCT: [],
    }
    return found + simple.get(kind, [(o.DATA, 1)])


def check(path: Path | bytes, policy: Policy | None = None) -> Report:
    """Recompute and compare everything. Raises BadOrcError if the container cannot be parsed."""
    return _Check(path, policy or Policy()).run()
