"""The plan of a compaction: which tails the driver reads, and which it leaves to tasks."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compaction import MAJOR, MINOR, REBALANCE, plan_of, prepared
from located import at
from orc_memory import file_options, tree, written

from acidlib.errors import CorruptError, RefusedError
from acidlib.execute.tasks import TailFacts
from acidlib.memory import DRIVER_MEMORY, Memory
from acidlib.model.requests import CompactionType
from acidlib.model.units import DataFile, RewriteSettings
from acidlib.orc.columns import Column
from acidlib.orc.proto import Kind
from acidlib.runs.plan import LargeTailError, Tails, with_tails
from acidlib.stores.stores import Stores

FIXTURES = Path(__file__).parents[2] / "fixtures"
ROWS = Column(kind=Kind.LONG, slots=3, values=np.ones(3, dtype=np.int64))


def file(path: Path, footer: int) -> DataFile:
    """A file of three rows with a footer of so many bytes."""
    root = Column(kind=Kind.STRUCT, slots=3, children=(ROWS,))
    path.write_bytes(written([root], file_options(tree("struct<a:bigint>")), {"filler": bytes(footer)}))
    return DataFile(path=path.name, directory="", length=path.stat().st_size, bucket=0)


def test_tasks_read_the_tails_that_are_too_large_for_the_driver(tmp_path: Path) -> None:
    small, large = file(tmp_path / "small", 1000), file(tmp_path / "large", DRIVER_MEMORY.limit // 8)
    assert large.length < 20_000
    steps: Any = with_tails(Stores(), at(tmp_path), lambda tails: [tails.of(one).rows for one in (small, large)])
    (task,) = steps.send(None)
    assert (task.step, task.work("attempt")) == ("look", TailFacts(acid=False, rows=3, row=tree("struct<a:bigint>")))
    with pytest.raises(StopIteration) as ended:
        steps.send([task.work("attempt")])
    assert ended.value.value == [3, 3]


def test_a_tail_that_no_task_may_read_is_refused_there(tmp_path: Path) -> None:
    large, damaged = file(tmp_path / "large", 1 << 20), file(tmp_path / "damaged", 10)
    stores = Stores(memory=Memory(1 << 20))
    tails = Tails.in_driver(stores, at(tmp_path), {})
    with pytest.raises(LargeTailError, match="Cannot read large in the driver"):
        tails.of(large)
    steps: Any = with_tails(stores, at(tmp_path), lambda tails: tails.of(large))
    (task,) = steps.send(None)
    with pytest.raises(RefusedError, match=r"the footer of \S*/large: .* acidlib\.task\.memory is 1,048,576"):
        task.work("attempt")
    (tmp_path / "damaged").write_bytes(bytes(damaged.length))
    with pytest.raises(CorruptError, match="damaged"):
        tails.of(damaged)


@pytest.mark.parametrize("kind", [MAJOR, MINOR, REBALANCE])
def test_a_plan_is_a_value(tmp_path: Path, kind: CompactionType) -> None:
    place = shutil.copytree(FIXTURES / "hive3/a_crud/before", tmp_path / "t")
    first, second = (
        plan_of(prepared(place, kind, generation=4, visibility_txn=7), RewriteSettings(part_bytes=500), buckets=3)
        for _ in range(2)
    )
    assert first == second == pickle.loads(pickle.dumps(first))
    (place / "delta_0000005_0000005").mkdir()
    shutil.copy(place / "delta_0000001_0000001_0000/bucket_00000", place / "delta_0000005_0000005")
    assert plan_of(prepared(place, kind, generation=4, visibility_txn=7)) != first


SHOWN = {
    MAJOR: """
  output       base_0000004_v0000007
  write ids    1 to 4, high-water mark 4
  publication  commit
  base_0000004_v0000007/bucket_00000: 3 files, 2.1 KiB, in parts""",
    REBALANCE: """
  output       base_0000004_v0000007
  write ids    1 to 4, high-water mark 4
  publication  commit
  base_0000004_v0000007/bucket_00000: 3 files, 2.1 KiB
  its rows are dealt out to 3 buckets""",
}


@pytest.mark.parametrize("kind", SHOWN)
def test_a_plan_prints_itself_with_its_second_stage(tmp_path: Path, kind: CompactionType) -> None:
    place = shutil.copytree(FIXTURES / "hive3/a_crud/before", tmp_path / "t")
    found = prepared(place, kind, generation=4, visibility_txn=7)
    text = str(plan_of(found, RewriteSettings(part_bytes=500), buckets=3))
    assert text.startswith(f"default.t: {kind.label.lower()}, planned\n")
    assert text.endswith(SHOWN[kind])
