"""The jobs. Whatever fails when one starts, an import too, goes to standard error: standard output is its result."""

import os

from acidlib.engine.streams import restore_standard_error

restore_standard_error(os.environ)
