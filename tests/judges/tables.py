"""Builders of ACID directories for tests, written by pyorc: what Hive's writers leave behind, of any schema."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyorc

from judges import mutants
from judges import orc_tail as o
from judges.merge import Row, bucket_property, writer_of
from judges.values import CONVERTERS, canonical_form

Event = tuple[int, int, int, int, int, Any]
"""(operation, originalTransaction, bucket property, rowId, currentTransaction, row or None)."""

INSERT, UPDATE, DELETE = 0, 1, 2
KINDS = {
    "none": pyorc.CompressionKind.NONE,
    "zlib": pyorc.CompressionKind.ZLIB,
    "snappy": pyorc.CompressionKind.SNAPPY,
    "lz4": pyorc.CompressionKind.LZ4,
    "zstd": pyorc.CompressionKind.ZSTD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How files are written. A stripe ends with the first batch after ``stripe_size`` bytes; stride 0: no row index;
    ``bloom``: columns with bloom filters."""

    compression: str = "zlib"
    stripe_size: int = 64 << 20
    stride: int = 10_000
    block: int = 64 << 10
    batch: int = 1024
    timezone: str = "UTC"
    dictionary: float = 0.0
    metadata: bool = True
    attempt: str = ""
    bloom: tuple[int, ...] = ()


DEFAULT = Layout()


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One write id. ``updates`` and ``deletes`` name rows by their place among the rows visible to it.

    An update is a delete event plus an insert (split update). ``aborted``: the directories stay, nothing is visible.
    """

    inserts: tuple[Any, ...] = ()
    updates: tuple[tuple[int, Any], ...] = ()
    deletes: tuple[int, ...] = ()
    aborted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A table that was built: its valid write-id list and what a reader of it must see, sorted."""

    location: Path
    write_ids: str
    expected: tuple[Row, ...]


def acid_schema(columns: str) -> str:
    """The event struct around ``struct<…>`` of the table's columns."""
    ids = "operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint"
    return f"struct<{ids},row:{columns}>"


def orc_bytes(schema: str, rows: Iterable[Any], layout: Layout = DEFAULT) -> bytes:
    """An ORC file of raw values: timestamps (seconds, nanoseconds), days, decimals as text, structs as tuples."""
    out = io.BytesIO()
    with pyorc.Writer(
        out,
        schema,
        batch_size=layout.batch,
        stripe_size=layout.stripe_size,
        row_index_stride=layout.stride,
        compression=KINDS[layout.compression],
        compression_block_size=layout.block,
        memory_block_size=min(layout.block, 64 << 10),
        timezone=ZoneInfo(layout.timezone),
        struct_repr=pyorc.StructRepr.TUPLE,
        converters=CONVERTERS,
        dict_key_size_threshold=layout.dictionary,
        bloom_filter_columns=layout.bloom,
    ) as writer:
        writer.writerows(rows)
    return out.getvalue()


def event_key(event: Event) -> tuple[int, ...]:
    """The order of events in a file."""
    return event[1], event[2], event[3], -event[4], -event[0]


def acid_bytes(columns: str, events: Sequence[Event], layout: Layout = DEFAULT) -> bytes:
    """An ACID file of sorted events, with the three hive.acid keys in its footer unless the layout says no."""
    data = orc_bytes(acid_schema(columns), events, layout)
    if not layout.metadata:
        return data
    orc = o.read_orc(data)
    index, at = "", 0
    for stripe in orc.stripes:
        at += stripe.rows
        index += "{},{},{};".format(*events[at - 1][1:4])
    counts = [sum(1 for e in events if e[0] == op) for op in (INSERT, UPDATE, DELETE)]
    changes: dict[str, bytes | None] = {
        "hive.acid.version": b"2",
        "hive.acid.stats": ",".join(map(str, counts)).encode(),
        "hive.acid.key.index": index.encode(),
    }
    return mutants.with_user_metadata(orc, changes)


def write_dir(location: Path, name: str, columns: str, events: Iterable[Event], layout: Layout = DEFAULT) -> Path:
    """A base, delta or delete_delta with a bucket file for each bucket of the events, and ``_orc_acid_version``."""
    directory = location / name
    directory.mkdir(parents=True)
    (directory / "_orc_acid_version").write_bytes(b"2")
    buckets: dict[int, list[Event]] = {}
    for event in sorted(events, key=event_key):
        buckets.setdefault(writer_of(event[2]), []).append(event)
    for number, part in buckets.items():
        path = directory / f"bucket_{number:05d}{layout.attempt}"
        path.write_bytes(acid_bytes(columns, part, layout))
    return directory


def delta_name(low: int, high: int, statement: int | None = 0, *, delete: bool = False) -> str:
    """``delta_0000001_0000001_0000`` and the like; ``statement`` None leaves the last part out."""
    suffix = "" if statement is None else f"_{statement:04d}"
    return f"{'delete_' if delete else ''}delta_{low:07d}_{high:07d}{suffix}"


def write_base(
    location: Path,
    write_id: int,
    columns: str,
    events: Iterable[Event],
    layout: Layout = DEFAULT,
    *,
    compacted: bool = True,
) -> Path:
    """A base as a compactor of Hive 3 leaves it, or (not compacted) as INSERT OVERWRITE does."""
    directory = write_dir(location, f"base_{write_id:07d}", columns, events, layout)
    if compacted:
        (directory / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    return directory


def inserts(write_id: int, rows: Iterable[Any], *, writer: int = 0, statement: int = 0, first: int = 0) -> list[Event]:
    """Insert events of one write id and one writer, row ids counted from ``first``."""
    bucket = bucket_property(writer, statement)
    return [(INSERT, write_id, bucket, first + i, write_id, row) for i, row in enumerate(rows)]


def deletes(write_id: int, keys: Iterable[Sequence[int]]) -> list[Event]:
    """Delete events by ``write_id`` of rows with these (write id, bucket property, row id) keys."""
    return [(DELETE, key[0], key[1], key[2], write_id, None) for key in keys]


def build(
    location: Path,
    columns: str,
    transactions: Sequence[Transaction],
    *,
    first_id: int = 1,
    writers: int = 1,
    layouts: Sequence[Layout] = (DEFAULT,),
    name: str = "default.t",
) -> Built:
    """A table after some transactions, one directory pair each; inserted rows go to the writers in turn.

    An update or delete whose place is beyond the visible rows is taken modulo their number; of several that name one
    row the first counts.
    """
    location.mkdir(parents=True, exist_ok=True)
    visible: dict[tuple[int, int, int], Any] = {}
    aborted: list[int] = []
    for number, transaction in enumerate(transactions):
        write_id = first_id + number
        layout = layouts[number % len(layouts)]
        gone, rows = _changes(visible, transaction)
        new: list[Event] = []
        for writer in range(writers):
            new += inserts(write_id, rows[writer::writers], writer=writer)
        if new:
            write_dir(location, delta_name(write_id, write_id), columns, new, layout)
        if gone:
            events = deletes(write_id, gone)
            write_dir(location, delta_name(write_id, write_id, delete=True), columns, events, layout)
        if transaction.aborted:
            aborted.append(write_id)
            continue
        for key in gone:
            del visible[key]
        visible.update({(e[1], e[2], e[3]): e[5] for e in new})
    form = canonical_form(pyorc.TypeDescription.from_string(columns))
    expected = [(*key, form(row)) for key, row in sorted(visible.items())]
    last = first_id + len(transactions) - 1
    write_ids = f"{name}:{last}:9223372036854775807::{','.join(map(str, aborted))}"
    return Built(location=location, write_ids=write_ids, expected=tuple(expected))


def _changes(
    visible: dict[tuple[int, int, int], Any], transaction: Transaction
) -> tuple[list[tuple[int, int, int]], list[Any]]:
    """Keys that a transaction deletes, and rows it inserts (of updates too)."""
    keys = sorted(visible)
    gone: list[tuple[int, int, int]] = []
    rows = list(transaction.inserts)
    for place, row in [*transaction.updates, *((place, None) for place in transaction.deletes)]:
        key = keys[place % len(keys)] if keys else None
        if key is None or key in gone:
            continue
        gone.append(key)
        if row is not None:
            rows.append(row)
    return gone, rows
