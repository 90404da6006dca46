"""What is run as the driver for the command `acidlib`: the job that the first word names, with the words behind it.

It lies in a folder of its own: Python looks for modules in the folder of the file that it runs.
"""

import signal
import sys

# isort: split
import acidlib.cli.jobs  # noqa: F401  # before anything else that may fail

# isort: split
from acidlib.cli.jobs.table import job_named

if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing has begun that an interrupt could tell of


if __name__ == "__main__":
    job = job_named(sys.argv[1])
    assert job is not None, sys.argv
    job.load().main(args=sys.argv[2:], prog_name=f"acidlib {job.name}")
