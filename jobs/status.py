"""Shows how all tables are doing, and what is wrong: spark-submit jobs/status.py --help"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import acidlib.cli.jobs  # noqa: F401  # before anything else that may fail

# isort: split
from acidlib.cli.streams import tell_starting, while_loading

if __name__ == "__main__":
    while_loading()
    tell_starting("status")  # to load the job takes a second
    from acidlib.cli.jobs.status import main

    main()
