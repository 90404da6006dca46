"""The first command of the README, as a new user types it."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.spark
@pytest.mark.slow
def test_the_quickstart_shows_every_step_and_the_rows_stay_the_same() -> None:
    command = ["./spark-submit.sh", "jobs/quickstart.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DIFFERS" not in done.stdout
    compared = [line for line in done.stdout.splitlines() if line.endswith("same")]
    assert len(compared) >= 3 * 4  # four places, compared after minor, major and cleaning
    for step in ("Minor compaction", "More transactions", "Scan again, and queue", "Major compaction", "succeeded"):
        assert step in done.stdout
