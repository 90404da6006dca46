"""Takes the result of a compaction back: spark-submit jobs/undo.py --help"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acidlib.cli.launch import run_file

if __name__ == "__main__":
    run_file(__file__)
