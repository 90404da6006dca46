"""Withdraws requests that wait in the queue: spark-submit jobs/cancel.py --help"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import acidlib.cli.jobs  # noqa: F401  # before anything else that may fail

# isort: split
from acidlib.cli.streams import tell_starting

if __name__ == "__main__":
    tell_starting("cancel")  # to load the job takes a second
    from acidlib.cli.jobs.cancel import main

    main()
