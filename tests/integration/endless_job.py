"""major_compact with a task that never ends, to be run by spark-submit and interrupted."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from acidlib.cli.launch import begin  # noqa: E402

begin()

from acidlib.cli.jobs import major_compact  # noqa: E402
from acidlib.runs import plan as units  # noqa: E402 - the path has to be set first
from integration.spark_tasks import never_done  # noqa: E402

units.run_unit_task = never_done
major_compact()
