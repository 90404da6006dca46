"""Compactions of random tables: any schema, any history, any layout. The oracle is a naive merge of rows."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from compaction import MAJOR, MINOR, REBALANCE, Compacted, RefusedPlanError, bucket_files, compact_directory
from conformance.checks import java_problems, statistics_problems
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judges import merge, strategies, tables
from judges.java_orc import JavaOrc, shared
from long_runs import amount
from rebalancing import renumbered

from acidlib.model.requests import CompactionType
from acidlib.model.units import RewriteSettings

SIZES = st.builds(
    RewriteSettings,
    copy_bytes=st.sampled_from([0, 300, 1 << 40]),
    stripe_bytes=st.sampled_from([1, 2000, 64 << 20]),
    stride=st.sampled_from([2, 10_000]),
)
KINDS = st.sampled_from([MAJOR, MINOR])


def bounded(examples: int) -> settings:
    count = amount(examples, long=examples * 10)
    return settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A random table to build: what `judges.tables.build` takes."""

    columns: str
    history: list[tables.Transaction]
    layouts: list[tables.Layout]
    writers: int
    generation: int

    def build(self, location: Path) -> tables.Built:
        return tables.build(location, self.columns, self.history, writers=self.writers, layouts=self.layouts)

    def compact(
        self,
        built: tables.Built,
        kind: CompactionType,
        sizes: RewriteSettings,
        txn: int = 100,
        buckets: int | None = None,
    ) -> Compacted:
        visibility = txn if self.generation == 4 else None
        return compact_directory(
            built.location, kind, built.write_ids, self.generation, visibility, settings=sizes, buckets=buckets
        )

    def rows(self, built: tables.Built) -> list[merge.Row]:
        return merge.read(built.location, built.write_ids, generation=self.generation, strict=True)

    def check_files(self, built: tables.Built, compacted: Compacted) -> list[Path]:
        """Exact statistics of every file of the result."""
        paths = bucket_files(built.location, compacted.directories)
        copied = any(result.stripes_copied for result in compacted.results)
        for path in paths:
            assert statistics_problems(path, self.generation, copied=copied) == []
        return paths


@st.composite
def random_tables(draw: Any, *, compression: tuple[str, ...] = tuple(tables.KINDS)) -> Table:
    columns = draw(strategies.schemas())
    # two transactions with rows, so that there is something to merge
    batch = st.lists(strategies.rows(columns), min_size=2, max_size=9).map(tuple)
    first = [tables.Transaction(inserts=draw(batch)) for _ in range(2)]
    layout = strategies.layouts().filter(lambda found: found.compression in compression)
    return Table(
        columns=columns,
        history=first + draw(strategies.histories(columns, max_transactions=4)),
        layouts=draw(st.lists(layout, min_size=1, max_size=3)),
        writers=draw(st.integers(1, 2)),
        generation=draw(st.sampled_from([3, 4])),
    )


@pytest.fixture(scope="module")
def java() -> JavaOrc:
    return shared()


@pytest.mark.slow
@bounded(40)
@given(table=random_tables(), kind=KINDS, sizes=SIZES)
def test_a_compaction_changes_nothing_that_a_reader_sees(
    table: Table, kind: CompactionType, sizes: RewriteSettings
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        built = table.build(Path(folder) / "table")
        try:
            compacted = table.compact(built, kind, sizes)
        except RefusedPlanError:
            return
        assert table.rows(built) == list(built.expected)
        table.check_files(built, compacted)


@pytest.mark.slow
@bounded(20)
@given(table=random_tables(), first=SIZES, second=SIZES)
def test_a_major_over_our_minor_changes_nothing(table: Table, first: RewriteSettings, second: RewriteSettings) -> None:
    with tempfile.TemporaryDirectory() as folder:
        built = table.build(Path(folder) / "table")
        try:
            table.compact(built, MINOR, first)
            compacted = table.compact(built, MAJOR, second, txn=101)
        except RefusedPlanError:
            return
        assert table.rows(built) == list(built.expected)
        table.check_files(built, compacted)


@pytest.mark.slow
@bounded(25)
@given(
    table=random_tables(),
    writers=st.integers(1, 3),
    before=st.none() | st.tuples(KINDS, SIZES),
    sizes=SIZES,
    buckets=st.integers(1, 4),
)
def test_a_rebalance_gives_new_ids_and_changes_nothing_else(
    table: Table,
    writers: int,
    before: tuple[CompactionType, RewriteSettings] | None,
    sizes: RewriteSettings,
    buckets: int,
) -> None:
    """After a major each stripe has rows of many write ids, between which those of other buckets come to stand."""
    table = replace(table, writers=writers, generation=4)
    with tempfile.TemporaryDirectory() as folder:
        built = table.build(Path(folder) / "table")
        if before is not None:
            with suppress(RefusedPlanError):
                table.compact(built, *before)
        compacted = table.compact(built, REBALANCE, sizes, txn=101, buckets=buckets)
        assert table.rows(built) == renumbered(built.expected, buckets)
        table.check_files(built, compacted)


@pytest.mark.java
@pytest.mark.slow
@bounded(12)
@given(table=random_tables(compression=("zlib", "snappy", "lz4", "zstd")), sizes=SIZES)
def test_java_reads_seeks_and_prunes_in_any_result(table: Table, sizes: RewriteSettings, java: JavaOrc) -> None:
    with tempfile.TemporaryDirectory() as folder:
        built = table.build(Path(folder) / "table")
        try:
            compacted = table.compact(built, MAJOR, sizes)
        except RefusedPlanError:
            return
        for path in table.check_files(built, compacted):
            assert java_problems(java, path) == []


@pytest.mark.java
@bounded(15)
@given(table=random_tables(compression=("none",)))
def test_java_reads_any_uncompressed_result_that_was_rewritten(table: Table, java: JavaOrc) -> None:
    """Copies are left out: Java cannot prune in some uncompressed files of pyorc."""
    with tempfile.TemporaryDirectory() as folder:
        built = table.build(Path(folder) / "table")
        try:
            compacted = table.compact(built, MAJOR, RewriteSettings(copy_bytes=1 << 40))
        except RefusedPlanError:
            return
        if not any(result.stripes_copied for result in compacted.results):
            for path in table.check_files(built, compacted):
                assert java_problems(java, path) == []
