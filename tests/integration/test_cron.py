"""The lines for cron of the README, as cron runs them: what would be mailed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from judges import merge
from long_runs import LONG

from integration.harness import ROOT, SMALL_SPARK, Jobs, fixture, names

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FIELDS = r"[-*/,0-9]+"
LINE = re.compile(rf"^{FIELDS} +{FIELDS} +{FIELDS} +{FIELDS} +{FIELDS} +(.+)$", re.MULTILINE)


def line_of(job: str, log: Path) -> str:
    """What the README has cron run for a job, but by the command of this environment, and with another log."""
    (found,) = [line for line in LINE.findall((ROOT / "README.md").read_text()) if f"/acidlib {job} " in line]
    assert found.startswith("/opt/acidlib/bin/acidlib ")
    assert found.endswith("/var/log/acidlib.log")
    return found.replace("/opt/acidlib/bin", str(Path(sys.executable).parent)).replace("/var/log/acidlib.log", str(log))


def test_nothing_is_mailed_when_all_is_well_and_a_line_for_each_problem(jobs: Jobs, tmp_path: Path) -> None:
    good, log = fixture("hive3/a_crud", tmp_path / "w/d.db/good"), tmp_path / "log"
    jobs = Jobs(queue_url=f"sqlite:///{tmp_path / 'home/queue.db'}")
    rows = merge.read(good)
    (tmp_path / "conf").mkdir()
    path = os.pathsep.join(["/usr/bin", "/bin", *os.environ["PATH"].split(os.pathsep)])  # a JDK may lie anywhere
    environment = SMALL_SPARK | {
        "PATH": path,
        "HOME": str(tmp_path),
        "HIVE_CONF_DIR": str(tmp_path / "conf"),
        "ACIDLIB_HOME": str(tmp_path / "home"),
    }

    def mailed() -> tuple[int, str, str]:
        initiator = ("initiator", "--warehouse", tmp_path / "w", "--all-committed", "--yes")
        jobs.good(*initiator, "--set", "hive.compactor.delta.num.threshold=1")
        words = ["/bin/sh", "-c", line_of("major-compact", log)]
        ran = subprocess.run(words, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
        return ran.returncode, ran.stdout, ran.stderr

    assert mailed() == (0, "", "")
    assert any(name.startswith("base_") for name in names(good))
    assert merge.read(good) == rows
    assert "d.good: ready for cleaning" in log.read_text()
    if not LONG:
        return  # tests/unit/cli/test_launch.py has the lines
    damaged = fixture("hive3/a_crud", tmp_path / "w/d.db/damaged")
    for file in damaged.glob("delta_*/bucket_*"):
        file.write_bytes(file.read_bytes()[:-20])
    status, out, err = mailed()
    assert (status, out) == (3, "")
    (line,) = err.splitlines()
    assert re.fullmatch(r"\S+Z ERROR   major_compact \S+ d\.damaged: failed, Cannot .+", line)
    assert log.read_text().count("d.good: ready for cleaning") == 1, "the first run is still there"
