"""Undoes a compaction."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import acidlib.jobs  # noqa: F401  # before anything else that may fail

# isort: split
from acidlib.jobs.undo import main

if __name__ == "__main__":
    main()
