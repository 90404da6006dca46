"""Major compaction: spark-submit jobs/major_compact.py --help"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jobs  # noqa: F401  # before anything else that may fail

# isort: split
from acidlib.model.requests import CompactionType
from jobs._compact import compaction_command

main = compaction_command(CompactionType.MAJOR, "major_compact")

if __name__ == "__main__":
    main()
