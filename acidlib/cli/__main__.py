"""Runs a file as the driver of Spark: python -m acidlib.cli [spark-submit options] FILE [options of the job]"""

import sys

from acidlib.cli.main import main_of_file

if __name__ == "__main__":
    main_of_file(sys.argv[1:])
