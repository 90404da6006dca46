"""Damaged ORC files given to the engine in memory: which unit of work they are part of, and what may come of them.

A damaged file is an error of the engine's own that says why, or its result shows the rows that pyorc reads from it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyorc
from fuzzing import Phase, resident
from judges import mutants, orc_mutations, random_orc, tables
from judges import orc_tail as o
from judges.merge import bucket_property, writer_of
from judges.tables import Event, Layout
from judges.values import canonical_form, open_orc
from located import at
from orc_memory import MemoryFiles, root_column, tail_of

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.errors import AcidError, CorruptError, RefusedError
from acidlib.model.units import ColumnMatching, DataFile, FileForm, JoinUnit, JoinWay, RewriteSettings, Unit
from acidlib.rewrite.bucket import run_unit
from acidlib.rewrite.join import join_facts, run_join
from acidlib.rows.deletes import event_buckets
from acidlib.rows.files import InputFiles

ROWS = 60
READING = "pyorc reads the input"
COPIED = "made with a copy of what cannot be decoded"
_MAX_MEMORY = 256 << 20
OUT = "/t/base_0000009/bucket_00000"
GROUPS = {
    "ints": "struct<a:bigint,b:int,c:smallint,d:tinyint,e:boolean,f:date>",
    "texts": "struct<s:string,v:varchar(9),c:char(5),b:binary>",
    "numbers": "struct<f:float,d:double,n:decimal(9,2),w:decimal(38,10)>",
    "times": "struct<t:timestamp,i:timestamp with local time zone>",
    "nested": "struct<l:array<int>,m:map<string,double>,s:struct<x:int,y:array<string>>>",
    "unions": "struct<u:uniontype<int,string>,l:array<uniontype<bigint,string,boolean,double>>>",
}
Written = Callable[[str, Sequence[Any], bool], bytes]
"""Writes an ORC file: its schema, rows in canonical form, whether it is an ACID file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Small files of one set of columns. Every trial damages one of them."""

    name: str
    columns: str
    events: tuple[tuple[Event, ...], ...]
    acid: tuple[bytes, ...]
    plain: tuple[bytes, ...]
    deletes: tuple[bytes, ...]
    gone: tuple[tuple[Event, ...], ...]


def pyorc_writer(layout: Layout) -> Written:
    """A writer of samples by pyorc."""

    def write(schema: str, rows: Sequence[Any], acid: bool) -> bytes:
        kind = pyorc.TypeDescription.from_string(schema)
        raw = [random_orc.raw(row, kind) for row in rows]
        if not acid:
            data = tables.orc_bytes(schema, raw, layout)
            return mutants.with_user_metadata(o.read_orc(data), {"a.name": b"a value", "another.name": b""})
        return tables.acid_bytes(str(kind.fields["row"]), raw, layout)

    return write


def sample(name: str, columns: str, write: Written, seed: int) -> Sample:
    """Two files of rows with and without ACID columns, and two of deletes of some of them."""
    rng = random.Random(seed)
    events = []
    for write_id in (1, 2):
        rows = random_orc.rows(rng, columns, ROWS)
        events.append(tuple(tables.inserts(write_id, rows)))
    bucket = bucket_property(0, 0)
    gone = []
    for current in (3, 4):
        keys = [(write_id, bucket, row) for write_id in (1, 2) for row in sorted(rng.sample(range(ROWS), 7))]
        gone.append(tuple(tables.deletes(current, keys)))
    schema = tables.acid_schema(columns)
    return Sample(
        name=name,
        columns=columns,
        events=tuple(events),
        acid=tuple(write(schema, part, True) for part in events),
        plain=tuple(write(columns, [event[5] for event in part], False) for part in events),
        deletes=tuple(write(schema, part, True) for part in gone),
        gone=tuple(gone),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One damaged file in one unit of work."""

    scene: str
    damage: str
    original: bytes
    damaged: bytes
    files: MemoryFiles
    work: Callable[[], None]
    expected: Callable[[], tuple[list[Any], list[Any]]]


SCENES = ("copy", "recode", "original", "deletes", "minor", "events", "join")
_IDS = ValidWriteIdList.parse("default.t:1000:9223372036854775807::").for_compactor()
_PLACES = ("/t/delta_0000001_0000001_0000/bucket_00000", "/t/delta_0000002_0000002_0000/bucket_00000")
_GONE = ("/t/delete_delta_0000003_0000003_0000/bucket_00000", "/t/delete_delta_0000004_0000004_0000/bucket_00000")
_PLAIN = ("/t/000000_0", "/t/000000_0_copy_1")


def trial(sample: Sample, rng: random.Random) -> Trial:
    """A random one."""
    scene = rng.choice(SCENES)
    place = rng.randrange(2)
    generation = Generation(rng.choice((3, 4)))
    settings = RewriteSettings(copy_bytes=0 if scene == "copy" else rng.choice((0, 1 << 40)))
    plain = scene in ("original", "join")
    rows = list(sample.plain if plain else sample.acid)
    deletes = list(sample.deletes)
    target = deletes if scene in ("deletes", "events") else rows
    original = target[place]
    target[place], damage = orc_mutations.mutate(target[place], rng)
    names = _PLAIN if plain else _PLACES
    files = MemoryFiles({**dict(zip(names, rows, strict=True)), **dict(zip(_GONE, deletes, strict=True))})
    inputs = tuple(_data_file(files, name, plain) for name in names)
    gone = tuple(_data_file(files, name, False) for name in _GONE)

    def unit(inputs: tuple[DataFile, ...], *, is_delete: bool = False) -> None:
        run_unit(
            Unit(
                location=at("/t"),
                directory=f"{'delete_' if is_delete else ''}delta_0000001_0000004",
                bucket=0,
                is_delete=is_delete,
                inputs=inputs,
                deletes=gone if scene in ("deletes", "copy", "recode", "original") else (),
                collapse=scene not in ("minor", "events"),
                schema=inputs[rng.randrange(2)],
                reader=generation,
                keep_empty=True,
                write_ids=_IDS,
                settings=settings,
                matching=ColumnMatching.of(generation),
            ),
            files,
            OUT,
        )

    def join() -> None:
        found = [join_facts(file, frozenset({JoinWay.STRIPES}), InputFiles("/t", files)) for file in inputs]
        if len({facts.group_key for facts in found}) == 1 and found[0].way is JoinWay.STRIPES:
            run_join(
                JoinUnit(
                    location=at("/t"),
                    directory="base_0000009",
                    file_name="bucket_00000",
                    bucket=0,
                    way=JoinWay.STRIPES,
                    inputs=inputs,
                    reader=generation,
                    settings=settings,
                ),
                files,
                OUT,
            )

    def work() -> None:
        if scene == "join":
            join()
        elif scene == "events":
            unit(gone, is_delete=True)
        else:
            for file in gone:
                event_buckets(file, InputFiles("/t", files))  # as planning does
            unit(inputs)

    def expected() -> tuple[list[Any], list[Any]]:
        """What pyorc reads from the inputs, merged: rows or events of the result, and rows that are deleted."""
        found = [read_rows(data) for data in target]
        if scene == "join":
            return [row for part in found for row in part], []
        if scene == "events":
            return list({event for part in found for event in part if writer_of(event[2]) == 0}), []
        if scene == "deletes":
            events, dropped = [list(part) for part in sample.events], {event[1:4] for part in found for event in part}
        else:
            events = found
            if scene == "original":
                rows = [row for part in found for row in part]
                events = [[(0, 0, bucket_property(0, 0), at, 0, row) for at, row in enumerate(rows)]]
            dropped = {event[1:4] for part in sample.gone for event in part} if scene != "minor" else set()
        merged = [event for part in events for event in part]
        return [e for e in merged if e[1:4] not in dropped], [e for e in merged if e[1:4] in dropped]

    return Trial(
        scene=scene, damage=damage, original=original, damaged=target[place], files=files, work=work, expected=expected
    )


def _data_file(files: MemoryFiles, path: str, plain: bool) -> DataFile:
    return DataFile(
        path=path.removeprefix("/t/"),
        directory="" if plain else path.split("/")[2],
        length=len(files.files[path]),
        bucket=0,
        form=FileForm.ORIGINAL if plain else FileForm.EVENTS,
    )


def read_rows(data: bytes) -> list[Any]:
    """Every row as pyorc reads it, in canonical form."""
    reader = open_orc(data)
    return list(map(canonical_form(reader.schema), reader))


def run_engine(found: Trial) -> str:
    """What the engine made of it: "made", or the name of its error. Raises whatever else it raised."""
    try:
        found.work()
    except (CorruptError, RefusedError) as error:
        text = str(error)
        if not re.match(r"Cannot [^\n]+: \S", text) or "/" not in text:
            raise AssertionError(f"an error that does not say what and why: {text}") from error
        if OUT in found.files.made and found.files.made[OUT].content:
            raise AssertionError(f"a file is left behind by: {text}") from error
        return type(error).__name__
    except AcidError as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    return "made" if OUT in found.files.made else "not joined"


def judge(found: Trial, phase: Phase) -> str:
    """What came of a trial. Raises AssertionError for what may not, and whatever the engine raises beside its own."""
    before = resident()
    phase("engine", 20)
    made = run_engine(found)
    if resident() - before > _MAX_MEMORY:
        raise AssertionError(f"{(resident() - before) >> 20} MiB taken ({made})")
    if made != "made":
        return made
    phase(READING, 5)
    try:
        expected, deleted = found.expected()
    except Exception as error:  # whatever pyorc says
        return f"made, pyorc refuses the input: {type(error).__name__}"
    phase("result", 20)
    try:
        result = read_rows(bytes(found.files.made[OUT].content))
    except Exception:
        if _cannot_be_decoded(found.damaged):
            return COPIED
        raise
    if found.scene != "join":
        result.sort(key=repr)
        width = max((len(event[5]) for event in result if event[5] is not None), default=0)
        expected, deleted = _padded(expected, width), _padded(deleted, width)
    if result == expected:
        return "made right"
    missing = [row for row in expected if row not in result]
    more = [row for row in result if row not in expected]
    if not missing and all(row in deleted for row in more) and _ids_contradict_statistics(found.damaged):
        return "made with deleted rows, which their stripe's statistics deny"
    if _cannot_be_decoded(found.damaged):
        return COPIED
    if o.read_orc(found.original).types != o.read_orc(found.damaged).types:
        return "made, columns of another type converted"
    text = f"{len(result)} rows, expected {len(expected)}; missing {missing[:2]}, more {more[:2]}"
    raise AssertionError(text[:1500])


def _padded(events: list[Any], width: int) -> list[Any]:
    """Events with nulls in columns that came later, in order."""
    wider = [(*event[:5], event[5] and event[5] + (None,) * (width - len(event[5]))) for event in events]
    return sorted(wider, key=repr)


def _cannot_be_decoded(data: bytes) -> bool:
    """Whether the engine refuses to decode a file: it only copies such stripes; what pyorc reads there is chance."""
    try:
        for number in range(len(tail_of(data).stripes)):
            root_column(data, number)
    except AcidError:
        return True
    return False


def _ids_contradict_statistics(data: bytes) -> bool:
    """Whether a stripe has ids outside of what its statistics say: so no delete was looked for in its copy."""
    orc, rows = o.read_orc(data), iter(read_rows(data))
    for stripe in orc.stripes:
        part = list(islice(rows, stripe.rows))
        for column, message in enumerate(orc.stripe_statistics(stripe.number)[1:6]):
            typed, found = o.parse(o.one(message, 2, b"")), [row[column] for row in part]
            if o.signed(o.one(typed, 1, 0)) > min(found) or o.signed(o.one(typed, 2, 0)) < max(found):
                return True
    return False
