"""More deltas than hive.compactor.max.num.delta in one compaction, by a process that may open few files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from judges import merge, tables
from judges.merge import bucket_property
from judges.plain_rows import insert_only_rows

from conformance.checks import statistics_problems

COLUMNS = "struct<a:int,s:string>"
DELTAS = 520
"""Above the default of 500, at which Hive's compactor makes intermediate minor compactions."""

EVENTS = """
import resource, sys
from compaction import MAJOR, MINOR, compact_directory
from acidlib.model.units import RewriteSettings
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
settings = RewriteSettings(copy_bytes=int(sys.argv[3]))
made = compact_directory(sys.argv[1], {"major": MAJOR, "minor": MINOR}[sys.argv[2]], settings=settings)
print(*made.directories)
"""
PLAIN = """
import resource, sys
from pathlib import Path
from compaction import join_plain_files
from acidlib.model.units import RewriteSettings
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
location, made = Path(sys.argv[1]), Path(sys.argv[1], sys.argv[2], "000000_0")
made.parent.mkdir()
settings = RewriteSettings(copy_bytes=int(sys.argv[3]))
print(join_plain_files(sorted(location.glob("delta_*/000000_0")), made, settings=settings).rows_out)
"""


def child(program: str, *arguments: object) -> str:
    """What a program prints that ran in a process of its own."""
    tests = Path(__file__).parents[1]
    paths = os.pathsep.join([str(tests.parent), str(tests)])
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def rows(write_id: int) -> list[tuple[int, str | None]]:
    return [(write_id, f"row {write_id}"), (-write_id, None), (0, "x")]


def linked(made: Path, location: Path) -> Path:
    """A table of the same files."""
    return Path(shutil.copytree(made, location, copy_function=os.link))


@pytest.fixture(scope="module")
def deltas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every second transaction also deletes a row of the one before. Not to be changed."""
    location = tmp_path_factory.mktemp("deltas") / "t"
    layout = tables.Layout(compression="none")
    for write_id in range(1, DELTAS + 1):
        events = tables.inserts(write_id, rows(write_id))
        tables.write_dir(location, tables.delta_name(write_id, write_id), COLUMNS, events, layout)
        if write_id % 2 == 0:
            events = tables.deletes(write_id, [(write_id - 1, bucket_property(0, 0), write_id % 3)])
            name = tables.delta_name(write_id, write_id, delete=True)
            tables.write_dir(location, name, COLUMNS, events, layout)
    return location


@pytest.mark.parametrize(("kind", "copy_bytes"), [("minor", 0), ("major", 0), ("major", 1 << 40)])
def test_all_deltas_in_one_compaction(kind: str, copy_bytes: int, deltas: Path, tmp_path: Path) -> None:
    location = linked(deltas, tmp_path / "t")
    before = merge.read(location)
    assert len(before) == 3 * DELTAS - DELTAS // 2
    whole = f"delta_0000001_{DELTAS:07d}"
    made = child(EVENTS, location, kind, copy_bytes).split()
    assert made == ([f"base_{DELTAS:07d}"] if kind == "major" else [whole, f"delete_{whole}"])
    assert merge.read(location, strict=True) == before
    for path in (path for name in made for path in (location / name).glob("bucket_*")):
        assert statistics_problems(path, 3, copied=copy_bytes == 0) == []


@pytest.fixture(scope="module")
def plain_deltas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An insert-only table. Not to be changed."""
    location = tmp_path_factory.mktemp("plain") / "t"
    for write_id in range(1, DELTAS + 1):
        directory = location / tables.delta_name(write_id, write_id)
        directory.mkdir(parents=True)
        (directory / "000000_0").write_bytes(tables.orc_bytes(COLUMNS, rows(write_id)))
    return location


@pytest.mark.parametrize("copy_bytes", [0, 1 << 40], ids=["copy", "recode"])
def test_all_files_of_an_insert_only_table(copy_bytes: int, plain_deltas: Path, tmp_path: Path) -> None:
    location = linked(plain_deltas, tmp_path / "t")
    before = insert_only_rows(location)
    result = f"delta_0000001_{DELTAS:07d}"
    assert child(PLAIN, location, result, copy_bytes) == str(3 * DELTAS)
    assert insert_only_rows(location) == before
    assert statistics_problems(location / result / "000000_0", 3, copied=copy_bytes == 0) == []
