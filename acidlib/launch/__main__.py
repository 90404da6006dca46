"""Runs a file with spark-submit: python -m acidlib.launch [spark-submit options] FILE [options of the job]"""

from __future__ import annotations

import os
import sys

from acidlib.errors import AcidError, UsageError
from acidlib.launch.here import installation, queue_of_yarn, spark_options, start
from acidlib.launch.logged import log_file, run_logged
from acidlib.launch.spark_options import split_words
from acidlib.launch.submission import submission


def main(words: list[str]) -> None:
    """Hand it over; exit status 1 where that is not possible, 2 where the words are wrong."""
    options, behind = split_words(words)
    try:
        rest, path = log_file(behind)
        if path is not None:
            sys.exit(run_logged([sys.executable, "-P", "-m", "acidlib.launch", *options, *rest], path))
        spark = spark_options(options, os.environ)
        queue = queue_of_yarn(spark, rest[1:])
        start(submission(spark, rest, installation(os.environ), os.environ, queue=queue))
    except AcidError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
