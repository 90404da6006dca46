"""What is run as the driver for the command `acidlib`: the job that the first word names, with the words behind it.

It lies in a folder of its own: Python looks for modules in the folder of the file that it runs.
"""

import sys

from acidlib.cli.launch import begin, job_named

if __name__ == "__main__":
    begin()
    job = job_named(sys.argv[1])
    assert job is not None, sys.argv
    job.load().main(args=sys.argv[2:], prog_name=f"acidlib {job.name}")
