"""The jobs. Whatever fails when one starts, an import too, goes to standard error: standard output is its result."""

import os
import sys

from acidlib.cli.streams import restore_standard_error
from acidlib.service.spark_options import python_of_spark

restore_standard_error(os.environ)
sys.path[:0] = python_of_spark(os.environ)
