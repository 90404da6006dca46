"""Files whose container is odd: what is missing from it, where its stripes lie, and which writer it was made for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acid_inputs import without_key_index
from compaction import MAJOR, bucket_files, compact_directory
from judges import java_files, mutants, tables
from judges import orc_tail as o
from judges.java_files import Options
from judges.java_orc import JavaOrc
from judges.merge import bucket_property

from acidlib.errors import RefusedError
from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings
from conformance.checks import java_problems
from conformance.java_tables import visible
from conformance.odd import COPY, KINDS, SETTINGS, compact_judged

Transform = Callable[[bytes], bytes]

COLUMNS = "struct<a:int,s:string,ts:timestamp,n:decimal(12,3),l:array<string>,d:double>"
LAYOUT = tables.Layout(stripe_size=1, stride=5, batch=10, compression="none")
NO_INDEX = dataclasses.replace(LAYOUT, stride=0)


def row(i: int) -> tuple[Any, ...]:
    if i % 11 == 3:
        return (i, None, None, None, None, None)
    return (i, f"text {i % 5}", (i * 1000 - 9000, i * 1000), f"{i}.{i % 10}", [f"x{i}", None][: i % 3], i / 7)


def without_stripe_statistics(data: bytes) -> bytes:
    orc = o.read_orc(data)
    return o.with_tail(orc, orc.footer, {})


def without_file_statistics(data: bytes) -> bytes:
    orc = o.read_orc(data)
    return o.with_tail(orc, {number: values for number, values in orc.footer.items() if number != 7})


def without_writer_timezone(data: bytes) -> bytes:
    """As before Hive 0.14: timestamps are of the reader's zone, whichever that is."""
    for number in range(len(o.read_orc(data).stripes)):
        data = mutants.change_stripe_footer(
            o.read_orc(data), number, lambda footer: {field: footer[field] for field in footer if field != 3}
        )
    return data


def padded(data: bytes) -> bytes:
    """Every stripe begins at a multiple of 4096 bytes, as for blocks of that size with orc.block.padding."""
    orc = o.read_orc(data)
    body, stripes = bytearray(b"ORC"), []
    for stripe, raw in zip(orc.stripes, orc.footer[3], strict=True):
        body += bytes(-len(body) % 4096)
        stripes.append(o.encode({**o.parse(raw), 1: [len(body)]}))
        size = stripe.index_length + stripe.data_length + stripe.footer_length
        body += orc.data[stripe.offset : stripe.offset + size]
    tail = orc.data[len(orc.data) - 1 - sum(orc.tail_lengths) :]
    moved = dataclasses.replace(orc, data=bytes(body) + tail)
    return o.with_tail(moved, {**orc.footer, 2: [len(body)], 3: stripes})


def old(data: bytes) -> bytes:
    return without_key_index(without_stripe_statistics(without_file_statistics(data)))


ODD: dict[str, tuple[Transform, tables.Layout]] = {
    "no key index": (without_key_index, LAYOUT),
    "no stripe statistics": (without_stripe_statistics, LAYOUT),
    "no file statistics": (without_file_statistics, LAYOUT),
    "no statistics, no key index": (old, LAYOUT),
    "no row index": (bytes, NO_INDEX),
    "no row index, statistics or key index": (old, NO_INDEX),
    "no time zone": (without_writer_timezone, LAYOUT),
    "padding": (padded, LAYOUT),
    "padding, no statistics": (lambda data: padded(old(data)), LAYOUT),
}


def odd_table(location: Path, what: str, *, every: int) -> None:
    """A base of three stripes, two deltas and deletes in two of the stripes; every so many of the files are odd."""
    change, layout = ODD[what]
    batches = [(1, 30), (2, 12), (3, 9)]
    for place, (write_id, count) in enumerate(batches):
        events = tables.inserts(write_id, [row(write_id * 100 + i) for i in range(count)])
        used = layout if place % every == 0 else LAYOUT
        if write_id == 1:
            directory = tables.write_base(location, 1, COLUMNS, events, used)
        else:
            directory = tables.write_dir(location, tables.delta_name(write_id, write_id), COLUMNS, events, used)
        if place % every == 0:
            path = directory / "bucket_00000"
            path.write_bytes(change(path.read_bytes()))
    for write_id, keys in ((4, [(1, 3), (1, 9)]), (5, [(1, 4), (3, 1)])):
        events = tables.deletes(write_id, [(key[0], bucket_property(0, 0), key[1]) for key in keys])
        name = tables.delta_name(write_id, write_id, delete=True)
        path = tables.write_dir(location, name, COLUMNS, events, layout) / "bucket_00000"
        path.write_bytes(change(path.read_bytes()))


@pytest.mark.java
@pytest.mark.parametrize("what", ODD)
def test_java_reads_the_odd_files(what: str, java: JavaOrc, tmp_path: Path) -> None:
    """The premise: these are files that readers take."""
    odd_table(tmp_path / "t", what, every=1)
    odd_table(tmp_path / "plain", "no key index", every=9)
    for path in sorted((tmp_path / "t").glob("*/bucket_*")):
        assert java.differences(path) == []
        assert java.rows(path) == java.rows(tmp_path / "plain" / path.parent.name / path.name)


@pytest.mark.pairs
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("every", [1, 2], ids=["all", "some"])
@pytest.mark.parametrize("what", ODD)
def test_odd_containers(
    what: str, every: int, kind: CompactionType, generation: int, settings: RewriteSettings, tmp_path: Path
) -> None:
    location = tmp_path / "t"
    odd_table(location, what, every=every)
    made = compact_judged(location, kind, generation=generation, settings=settings)
    copied = sum(result.stripes_copied for result in made.results)
    if settings is COPY and what in ("no key index", "padding", "no time zone"):
        assert copied > 0
    # statistics of stripes are believed, and copied, where those of the file bear them out
    if every == 1 and ("statistics" in what or "no row index" in what):
        assert copied == 0


@pytest.mark.java
@pytest.mark.parametrize("settings", SETTINGS)
def test_stripes_without_a_time_zone_stay_without(settings: RewriteSettings, java: JavaOrc, tmp_path: Path) -> None:
    """A reader in another zone sees other instants in them, and they are not joined with those that have one."""
    location, zones = tmp_path / "t", ("UTC", "America/New_York")
    odd_table(location, "no time zone", every=2)
    before = [visible(java, sorted(location.iterdir()), zone=zone) for zone in zones]
    assert before[0] != before[1]
    made = compact_judged(location, MAJOR, generation=4, settings=settings)
    [path] = bucket_files(location, made.directories)
    assert {stripe.timezone for stripe in o.read_orc(path).stripes} == {"", "UTC"}
    assert [visible(java, [path.parent], zone=zone) for zone in zones] == before


# --- what Java pads and writes for old readers ------------------------------------------------------------------------


def java_table(java: JavaOrc, location: Path, *options: Options) -> list[Path]:
    """Deltas of 3000 rows each, one with each of the options, and deletes in the middle of the first."""
    columns = "struct<a:bigint,s:string,ts:timestamp>"
    made = []
    for write_id, used in enumerate(options, 1):
        rows = [(i * i * 7919 % 10**9, f"s:{i * 31 % 977}", f"t:{i * 10**6}:{i}") for i in range(3000)]
        events = tables.inserts(write_id, rows)
        name = tables.delta_name(write_id, write_id)
        made.append(java_files.write_dir(java, location, name, columns, events, used))
    last = len(options) + 1
    events = tables.deletes(last, [(1, bucket_property(0, 0), i) for i in (1500, 1501)])
    name = tables.delta_name(last, last, delete=True)
    made.append(java_files.write_dir(java, location, name, columns, events, options[0]))
    return made


PADDED = Options(
    compression="none",
    stripe_rows=1024,
    stripe_size=32 << 10,
    conf={"orc.block.size": str(24 << 10), "orc.block.padding": "true", "orc.block.padding.tolerance": "0.9"},
)


@pytest.mark.java
@pytest.mark.pairs
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_stripes_that_java_padded_to_blocks(
    kind: CompactionType, settings: RewriteSettings, java: JavaOrc, tmp_path: Path
) -> None:
    location = tmp_path / "t"
    first, *_ = java_table(java, location, PADDED, PADDED)
    stripes = o.read_orc(first / "bucket_00000").stripes
    ends = [s.offset + s.index_length + s.data_length + s.footer_length for s in stripes]
    assert any(end < stripe.offset for end, stripe in zip(ends, stripes[1:], strict=False))
    made = compact_judged(location, kind, generation=4, settings=settings)
    assert (sum(result.stripes_copied for result in made.results) > 0) is (settings is COPY)
    for path in bucket_files(location, made.directories):
        assert java_problems(java, path, max_groups=1) == []


@pytest.mark.java
@pytest.mark.pairs
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_version_0_11_beside_newer_ones(
    kind: CompactionType, settings: RewriteSettings, java: JavaOrc, tmp_path: Path
) -> None:
    """Of one codec and stride, so that only the version forbids to copy, and old and new stripes are joined."""
    location = tmp_path / "t"
    java_table(java, location, Options(version="0.11"), Options(), Options(version="0.11", dictionary=0.0))
    made = compact_judged(location, kind, generation=3, settings=settings)
    [rewritten] = [result for result in made.results if result.rows_out]
    assert rewritten.stripes_copied == (1 if settings is COPY else 0)
    reasons = " ".join(action.reason for action in rewritten.actions)
    assert "file version 0.11" in reasons
    for path in bucket_files(location, made.directories):
        assert o.packed(o.read_orc(path).postscript[4]) == [0, 12]
        assert java_problems(java, path, max_groups=1) == []


# --- tables from before split update ----------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [bytes, without_stripe_statistics], ids=["statistics", "decoded"])
@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("operation", "said"), [(tables.UPDATE, "0 to 1"), (tables.DELETE, "0 to 2")])
def test_updates_and_deletes_inside_a_plain_delta_are_refused(
    operation: int, said: str, kind: CompactionType, generation: int, change: Transform, tmp_path: Path
) -> None:
    location = tmp_path / "t"
    for write_id in (1, 2, 3):
        events = tables.inserts(write_id, [row(i) for i in range(30)])
        if write_id == 2:
            _, *key, _, values = tables.inserts(1, [row(7)], first=7)[0]
            events.append((operation, key[0], key[1], key[2], 2, None if operation == tables.DELETE else values))
        path = tables.write_dir(location, tables.delta_name(write_id, write_id), COLUMNS, events, LAYOUT)
        (path / "bucket_00000").write_bytes(change((path / "bucket_00000").read_bytes()))
    before = sorted(location.rglob("*"))
    with pytest.raises(RefusedError) as caught:
        compact_directory(location, kind, generation=generation)
    assert str(caught.value) == (
        f"Cannot read stripe 0 of {location}/delta_0000002_0000002_0000/bucket_00000: it holds events of "
        f"operation {said} where only 0 belongs; tables written before split update are not supported"
    )
    assert sorted(location.rglob("*")) == before
