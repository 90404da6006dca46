"""The first command of the README, as a new user types it."""

import os
import re
import subprocess

import pytest

from integration.harness import ROOT, SMALL_SPARK


@pytest.mark.spark
@pytest.mark.slow
def test_the_quickstart_shows_every_step_and_the_rows_stay_the_same() -> None:
    command = ["./spark-submit.sh", "jobs/quickstart.py"]
    environment = os.environ | SMALL_SPARK
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DIFFERS" not in done.stdout
    assert re.search(r"^  dropped .*: no row of it is left$", done.stdout, re.MULTILINE)
    compared = [line for line in done.stdout.splitlines() if line.endswith("same")]
    assert len(compared) >= 3 * 4  # four places, compared after minor, major and cleaning
    for step in ("Minor compaction", "More transactions", "Scan again, and queue", "Major compaction", "succeeded"):
        assert step in done.stdout
