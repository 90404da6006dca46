"""What is not understood is refused by name: encryption, and versions and kinds that do not exist yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from compaction import MAJOR, compact_directory
from judges import mutants
from judges import orc_tail as o
from judges.java_files import Options
from judges.java_orc import JavaOrc

from acidlib.errors import RefusedError
from acidlib.model.units import RewriteSettings
from conformance.java_tables import one_delta_each

pytestmark = pytest.mark.java

COLUMNS = "struct<a:int,b:string,c:float>"
ROWS = [(i, f"s:{i}", "f:3ff0000000000000") for i in range(1100)]
SETTINGS = [pytest.param(RewriteSettings(copy_bytes=0), id="copy"), pytest.param(RewriteSettings(), id="recode")]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("column", ["b", "c"])
def test_an_encrypted_column_is_refused(column: str, settings: RewriteSettings, java: JavaOrc, tmp_path: Path) -> None:
    location = tmp_path / "table"
    batches = [(ROWS, Options()), (ROWS, Options(encrypt=column))]
    deltas = one_delta_each(java, location, COLUMNS, batches, delete=False)
    path = deltas[1] / "bucket_00000"
    assert o.read_orc(path).footer[10]
    with pytest.raises(RefusedError, match="encrypted") as caught:
        compact_directory(location, MAJOR, generation=4, settings=settings)
    assert str(path) in str(caught.value)
    assert sorted(location.iterdir()) == deltas


def postscript(field: int, value: object) -> Callable[[o.OrcFile], bytes]:
    def change(orc: o.OrcFile) -> bytes:
        changed = o.encode({**orc.postscript, field: [value]})
        return orc.data[: len(orc.data) - 1 - orc.tail_lengths[2]] + changed + bytes([len(changed)])

    return change


def type_kind(column: int, kind: int) -> Callable[[o.OrcFile], bytes]:
    def change(orc: o.OrcFile) -> bytes:
        types = list(orc.footer[4])
        types[column] = o.encode({**o.parse(types[column]), 1: [kind]})
        return o.with_tail(orc, {**orc.footer, 4: types})

    return change


def in_stripe_footer(field: int, place: int, number: int, value: int) -> Callable[[o.OrcFile], bytes]:
    """One number of one entry of a repeated field of the second stripe's footer."""

    def edit(footer: o.Message) -> o.Message:
        entries = list(footer[field])
        entries[place] = o.encode({**o.parse(entries[place]), number: [value]})
        return {**footer, field: entries}

    return lambda orc: mutants.change_stripe_footer(orc, 1, edit)


def stream_of(column: int, kind: int, new_kind: int) -> Callable[[o.OrcFile], bytes]:
    def change(orc: o.OrcFile) -> bytes:
        [place] = [n for n, s in enumerate(orc.stripes[1].streams) if (s.column, s.kind) == (column, kind)]
        return in_stripe_footer(1, place, 1, new_kind)(orc)

    return change


def encrypted_stripe(orc: o.OrcFile) -> bytes:
    stripes = list(orc.footer[3])
    stripes[1] = o.encode({**o.parse(stripes[1]), 6: [7]})
    return o.with_tail(orc, {**orc.footer, 3: stripes})


CHANGES: dict[str, tuple[Callable[[o.OrcFile], bytes], str]] = {
    "file version": (postscript(4, bytes([0, 13])), "file version 0.13"),
    "writer version": (postscript(6, 99), "writer version 99"),
    "codec": (postscript(2, 77), "compression kind 77"),
    "type": (type_kind(8, 40), "column 8 of .*: type kind 40"),
    "encoding of an id column": (in_stripe_footer(2, 4, 1, 9), "column 4 in stripe 1 of .* encoding 9"),
    "encoding of a string": (in_stripe_footer(2, 8, 1, 9), "column 8 in stripe 1 of .* encoding 9"),
    "encoding of a float": (in_stripe_footer(2, 9, 1, 9), "column 9 in stripe 1 of .* encoding 9"),
    "encoding of a struct": (in_stripe_footer(2, 6, 1, 9), "column 6 in stripe 1 of .* encoding 9"),
    "data stream": (stream_of(9, o.DATA, 55), "column 9 in stripe 1 of .* stream kind 55"),
    "index stream": (stream_of(7, o.ROW_INDEX, 55), "column 7 in stripe 1 of .* stream kind 55"),
    "encrypted stripe": (encrypted_stripe, "stripe 1 of .* encrypted"),
}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("what", CHANGES)
def test_what_is_not_known_is_refused(what: str, settings: RewriteSettings, java: JavaOrc, tmp_path: Path) -> None:
    """Whether the stripe would be copied or rewritten: under our footer nobody would look for it."""
    location = tmp_path / "table"
    batches = [(ROWS, Options(stripe_rows=512)), (ROWS[:20], Options())]
    deltas = one_delta_each(java, location, COLUMNS, batches, delete=False)
    path = deltas[0] / "bucket_00000"
    change, message = CHANGES[what]
    orc = o.read_orc(path)
    assert len(orc.stripes) > 1
    path.write_bytes(change(orc))
    with pytest.raises(RefusedError, match=message) as caught:
        compact_directory(location, MAJOR, generation=4, settings=settings)
    assert str(path) in str(caught.value)
    assert sorted(location.iterdir()) == deltas
