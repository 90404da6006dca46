"""Runs a file with spark-submit: python -m acidlib.launch [spark-submit options] FILE [options of the job]"""

from __future__ import annotations

import os
import sys

from acidlib.errors import AcidError
from acidlib.launch.here import installation, spark_options, start
from acidlib.launch.spark_options import split_words
from acidlib.launch.submission import submission


def main(words: list[str]) -> None:
    """Hand it over; exit status 1 where that is not possible."""
    options, rest = split_words(words)
    try:
        spark = spark_options(options, os.environ)
        start(submission(spark, rest, installation(os.environ), os.environ))
    except AcidError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
