"""The plan of a compaction: which tails the driver reads, and which it leaves to tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from located import at
from orc_memory import file_options, tree, written

from acidlib.errors import CorruptError, RefusedError
from acidlib.memory import DRIVER_MEMORY, Memory
from acidlib.model.units import DataFile
from acidlib.orc.columns import Column
from acidlib.orc.proto import Kind
from acidlib.service.plan import LargeTailError, Tails, with_tails
from acidlib.service.tasks import TailFacts
from acidlib.stores.stores import Stores

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
