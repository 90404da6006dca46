"""Which columns of a result have bloom filters, how large, and which stripes have to be rewritten for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from acid_inputs import COLUMNS, aligned, events, ids, opened, original, rows
from judges import tables
from orc_memory import file_options, tree

from acidlib.acid.names import Generation
from acidlib.model.units import FilterSize, RewriteSettings, StripeAction
from acidlib.orc.bloom import filter_size
from acidlib.orc.proto import Compression, StreamKind
from acidlib.orc.reader import JAVA_WRITER, StripeReader
from acidlib.orc.schema import TypeNode, acid_tree
from acidlib.rewrite.bucket import row_stripes
from acidlib.rewrite.output import InputFilter, InputStripe, filter_sizes, input_filters, named_columns, plan_filters
from acidlib.rows.files import OpenInputs
from acidlib.rows.row_ids import Keys

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
ROOT = acid_tree(tree(COLUMNS))
A, S = 7, 8
LAYOUT = tables.Layout(stride=1000)


class Maker:
    """Stripes of files that are open as long as a test runs, written by Java by the name in their footer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = ExitStack()

    def stripe(
        self, write_id: int, filtered: tuple[int, ...] = (), *, stride: int = 1000, writer: int = JAVA_WRITER
    ) -> InputStripe:
        layout = replace(LAYOUT, bloom=filtered, stride=stride)
        path = self.folder / tables.delta_name(write_id, write_id) / "bucket_00000"
        [found] = self.stack.enter_context(opened(events(path, tables.inserts(write_id, rows(2500)), layout)))
        found = replace(found, tail=replace(found.tail, writer=writer))
        options = file_options(ROOT, stride=1000, block_size=found.tail.block_size)
        inputs = OpenInputs(files=(aligned(found.row, found),), empty=())
        [stripe] = row_stripes(inputs, Keys.empty(), ids(), options)
        return stripe


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Maker]:
    maker = Maker(tmp_path)
    with maker.stack:
        yield maker


def planned(*stripes: InputStripe, root: TypeNode = ROOT, columns: str = "") -> tuple[list[str | None], set[int]]:
    found, wanted = plan_filters(stripes, root, RewriteSettings(bloom_columns=columns))
    return [facts.no_copy for facts in found], set(wanted)


NESTED = acid_tree(tree("struct<a:int,B:struct<c:int,d:array<string>>,`e.f`:int,row:int>"))
"""Columns 7: a, 8: B, 9: B.c, 10: B.d, 11: its elements, 12: e.f, 13: row."""


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        ("", set()),
        ("a", {7}),
        ("A, b.C", {7, 9}),
        ("b", {8, 9, 10, 11}),
        ("b.d", {10, 11}),
        ("b.d.whatever", {10, 11}),
        ("a.b", {7}),
        ("nothing,b.nothing,,", set()),
        ("row", {13}),
        ("row.a", {13}),
        ("operation", set()),
        ("*", set(range(14))),
    ],
)
def test_names_of_columns(names: str, columns: set[int]) -> None:
    assert named_columns(NESTED, names) == columns


def test_without_filters_there_is_nothing_to_do(make: Maker) -> None:
    assert planned(make.stripe(1), make.stripe(2)) == ([None, None], set())


def test_all_stripes_need_the_filters_of_any(make: Maker) -> None:
    both, one, none = make.stripe(1, (A, S)), make.stripe(2, (S,)), make.stripe(3)
    assert planned(both, both) == ([None, None], {A, S})
    reasons = ["no bloom filter of column a", None, "no bloom filter of column a"]
    assert planned(one, both, none) == (reasons, {A, S})
    assert planned(one, none) == ([None, "no bloom filter of column s"], {S})


def test_the_settings_ask_for_more(make: Maker) -> None:
    assert planned(make.stripe(1), make.stripe(2, (S,)), columns="S") == (["no bloom filter of column s", None], {S})


def test_another_reason_stays(make: Maker) -> None:
    stripe = make.stripe(1)
    other = replace(stripe, facts=replace(stripe.facts, no_copy="file version 0.11"))
    assert planned(other, columns="a")[0] == ["file version 0.11"]


def test_filters_of_id_columns_count_too(make: Maker) -> None:
    reasons = ["no bloom filter of column rowId", "no bloom filter of column a"]
    assert planned(make.stripe(1, (A,)), make.stripe(2, (4,))) == (reasons, {4, A})


def test_old_filters_and_those_of_the_c_writer_are_written_anew(make: Maker) -> None:
    stripe, faulty = make.stripe(1, (S,)), make.stripe(2, (S,), writer=1)
    assert planned(stripe, faulty) == ([None, "an unsafe bloom filter of column s"], {S})
    reader = StripeReader(stripe.file.source, stripe.file.tail, 0)
    reader.bloom_filters = lambda: {S: StreamKind.BLOOM_FILTER}  # type: ignore[method-assign]
    assert input_filters(reader, {S: A}) == {A: InputFilter(S, safe=False)}


def test_columns_of_original_files_are_those_of_the_row(tmp_path: Path) -> None:
    with opened(original(tmp_path / "000000_0", rows(20))) as [file]:
        options = file_options(ROOT, stride=5, compression=Compression.NONE)
        inputs = OpenInputs(files=(aligned(file.row, file),), empty=())
        stripes = row_stripes(inputs, Keys.empty(), ids(), options)
        assert len(stripes) == 2
        assert [stripe.facts.column_changes for stripe in stripes] == ["row ids that are added"] * 2
        assert planned(*stripes) == ([None, None], set())
        assert planned(*stripes, columns="s") == (["no bloom filter of column s"] * 2, {S})
        assert set(stripes[0].filters) == {6, A, S}


def sizes(
    *stripes: InputStripe,
    generation: Generation = HIVE4,
    fpp: float | None = None,
    copy: bool = False,
    stride: int = 1000,
) -> dict[int, FilterSize]:
    actions = [StripeAction(copy=copy, stripes=(stripe.facts,), reason="") for stripe in stripes]
    options, settings = file_options(ROOT, stride=stride), RewriteSettings(bloom_fpp=fpp)
    return filter_sizes(stripes, frozenset({A, S}), actions, options, generation, settings)


def test_sizes_are_those_of_the_inputs(make: Maker) -> None:
    found, default = filter_size(1000, 0.05), filter_size(1000, 0.01)  # pyorc's share, and Hive 4's
    assert found != default
    assert sizes(make.stripe(1), make.stripe(2, (S,))) == {A: default, S: found}
    assert sizes(make.stripe(3, (S,)), make.stripe(4, (A, S))) == {A: found, S: found}
    assert sizes(make.stripe(5, (A, S), stride=1250)) == {A: default, S: default}


def test_a_stride_beyond_the_usual_one_counts_as_far_as_there_are_rows(make: Maker) -> None:
    usual = filter_size(10_000, 0.01)
    assert usual.bits < 100_000
    assert sizes(make.stripe(1), stride=1 << 31) == {A: usual, S: usual}
    assert sizes(make.stripe(2), stride=9000) == dict.fromkeys((A, S), filter_size(9000, 0.01))


def test_copied_stripes_need_no_sizes(make: Maker) -> None:
    assert sizes(make.stripe(1, (S,)), copy=True) == {}


def test_sizes_without_inputs_to_go_by(make: Maker) -> None:
    assert set(sizes(make.stripe(1), generation=HIVE3).values()) == {filter_size(1000, 0.05)}
    assert set(sizes(make.stripe(2, (A, S)), fpp=0.3).values()) == {filter_size(1000, 0.3)}
