"""Cuts and flips of data files: an error and the table untouched, or no value that the file did not hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from conformance.hive_tables import hive_table
from judges import tables

from integration.damage import Damage, Table, damages
from integration.harness import Jobs

EACH = 8
FILES = [
    ("hive3/a_crud", "delta_0000001_0000001_0000/bucket_00000"),
    ("hive3/a_crud", "delete_delta_0000003_0000003_0000/bucket_00000"),
    ("hive3/c_bucket", "delta_0000001_0000001_0000/bucket_00001"),
    ("hive3/d_types", "delta_0000003_0000003_0000/bucket_00000"),
    ("hive3/f_abort", "delta_0000001_0000001_0000/bucket_00000"),
    ("hive3/g_orig", "000000_0_copy_2"),
    ("hive3/i_evol", "delta_0000003_0000003_0000/bucket_00000"),
    ("hive3/m_multiwriter", "delete_delta_0000004_0000004_0000/bucket_00001"),
    ("hive3/p_opentxn", "delete_delta_0000003_0000003_0000/bucket_00000"),
    ("hive4/all_types", "delta_0000006_0000006_0001/bucket_00000_0"),
    ("hive4/load_data", "delta_0000002_0000002_0000/000000_0"),
    ("hive4/original_files", "000000_0"),
    ("hive4/part_table", "delete_delta_0000003_0000003_0000/bucket_00000_0"),
]


def check(table: Table, file: str, seed: str, count: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for damage in damages(table.size(file), count, seed):
        verdict = table.judge(file, damage)
        assert verdict.wrong is None, f"{file} {damage}: {verdict.outcome}: {verdict.wrong}"
        outcomes[verdict.outcome] += 1
    return outcomes


@pytest.mark.parametrize(("name", "file"), FILES)
def test_files_of_hive(jobs: Jobs, tmp_path: Path, name: str, file: str) -> None:
    about = hive_table(name)
    table = Table(jobs, about.copy(tmp_path / about.name), about.write_ids, about.generation)
    outcomes = check(table, file, f"{name}/{file}", EACH)
    assert outcomes["failed"] + outcomes["refused"] >= EACH / 4


@pytest.mark.parametrize("compression", ["none", "zlib"])
@pytest.mark.parametrize("joined", [False, True], ids=["copied", "rewritten"])
def test_files_whose_stripes_are_copied_or_joined(jobs: Jobs, tmp_path: Path, compression: str, joined: bool) -> None:
    """Without compression most flips hit values, which nothing covers."""
    place, columns = tmp_path / "t", "struct<a:bigint,b:string,c:double,d:array<int>>"
    layout = tables.Layout(compression=compression, stride=100, dictionary=0.8)
    rows = [(i * 7, f"value {i % 9}", i / 3, [i, None]) for i in range(250)]
    for write_id in (1, 2):
        events = tables.inserts(write_id, rows, writer=0 if joined else write_id)
        tables.write_dir(place, tables.delta_name(write_id, write_id), columns, events, layout)
    ran = jobs.good("major_compact", "--location", place, "--all-committed", "--dry-run")
    assert bool(ran.compactions[0]["bytes_copied"]) is not joined
    file = "delta_0000001_0000001_0000/bucket_" + ("00000" if joined else "00001")
    outcomes = check(Table(jobs, place, "", 3), file, f"{compression} {joined}", 2 * EACH)
    assert outcomes["failed"] > EACH / 4


@pytest.mark.parametrize("cut", [0, 3, 4, 16])
def test_cut_to_nearly_nothing(jobs: Jobs, tmp_path: Path, cut: int) -> None:
    """Nothing at all is an empty file, as in Hive; anything else is damage."""
    about = hive_table("hive3/a_crud")
    place = about.copy(tmp_path / "crud")
    file = place / "delta_0000002_0000002_0000" / "bucket_00000"
    file.write_bytes(file.read_bytes()[:cut])
    ran = jobs("major_compact", "--location", place, "--all-committed")
    assert ran.status == (0 if cut == 0 else 1)
    assert ran.states == ["ready for cleaning" if cut == 0 else "failed"]


def test_the_judge_sees_a_wrong_value(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that takes a file for another one is found out."""
    place = hive_table("hive3/a_crud").copy(tmp_path / "crud")
    table = Table(jobs, place, "", 3)
    file, other = "delta_0000001_0000001_0000/bucket_00000", "delta_0000002_0000002_0000/bucket_00000"
    real = Table._compact

    def wrong(self: Table, spoilt: Path):
        whole = (spoilt / file).read_bytes()
        (spoilt / file).write_bytes((spoilt / other).read_bytes())
        try:
            return real(self, spoilt)
        finally:
            (spoilt / file).write_bytes(whole)

    monkeypatch.setattr(Table, "_compact", wrong)
    assert table.judge(file, Damage(cut=None, flips=())).wrong is not None
