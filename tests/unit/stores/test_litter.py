"""What dead runs leave is litter after a day, unless somebody is at work."""

import os
from pathlib import Path

import pytest

from acidlib.stores.removing import find_litter
from acidlib.stores.renaming.store import remove_staging
from unit.stores.staged import FS, recorded, stage

pytestmark = pytest.mark.usefixtures("way")

DAY = 86_400.0
NOW = 1_700_000_000.0


def _age(root: Path, seconds: float) -> None:
    for path in [*root.rglob("*"), root]:
        os.utime(path, (NOW - seconds, NOW - seconds))


def test_litter_of_dead_runs_goes_after_a_day(tmp_path: Path) -> None:
    dead = stage(tmp_path, "base_0000004", unique="dead")[0]
    stage(tmp_path, "base_0000004", unique="young")
    stage(tmp_path, "base_0000004", unique="growing")
    for name, content in (("_tmp_foreign", True), ("_tmp_empty", False), ("delta_0000001_0000001", True)):
        (tmp_path / name).mkdir()
        if content:
            (tmp_path / name / "file").touch()
    (tmp_path / "_acidlib_claim.t").mkdir()
    (tmp_path / "_acidlib_claim.t" / "t.json").write_bytes(b"{")
    (tmp_path / "_acidlib_claimed").mkdir()
    unfinished = "_acidlib_trash.0123456789abcdef0123456789abcdef.tmp"
    for name in (unfinished, unfinished.replace("ab", "yz"), unfinished + "x", "_acidlib_trash", "_other" + unfinished):
        (tmp_path / name).mkdir()
    full = tmp_path / unfinished.replace("ab", "aa")
    full.mkdir()
    (full / "file").touch()
    (tmp_path / unfinished.replace("ab", "bb")).touch()
    recorded(tmp_path)
    _age(tmp_path, DAY + 1)
    _age(tmp_path / "_tmp_young", DAY - 1)
    os.utime(tmp_path / "_tmp_growing/base_0000004/bucket_00000", (NOW, NOW))
    found = find_litter(FS, str(tmp_path), now=NOW)
    ours = {"_acidlib_claim.t", "_tmp_dead", "_tmp_empty", unfinished}
    assert {item.name for item in found} == ours
    sizes = {item.name: item.bytes for item in found}
    assert sizes["_tmp_dead"] > len("base_0000004")
    assert all(item.idle_seconds == pytest.approx(DAY + 1) for item in found)
    assert remove_staging(FS, str(tmp_path), dead) is None
    assert not Path(dead).exists()
