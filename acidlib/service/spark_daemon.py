"""The process from which Spark's Python workers are forked, with the modules of tasks loaded.

The property `spark.python.daemon.module` names it. Without it each worker would load the kernels for itself, and the
garbage collection after each task (`pyspark.daemon`) would scan them. Executors have to find this module when they
start, so it is the default with a local master only.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import redirect_stdout, suppress

import pyspark.daemon


def load() -> None:
    """Load the modules of tasks. An import that fails here fails again in a task, where it is reported."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # OpenBLAS would start unused threads before the forks
    with redirect_stdout(sys.stderr), suppress(Exception):  # Spark reads a port number from standard output
        import acidlib.service.tasks
        from acidlib.rewrite import warm

        del acidlib
        warm.main()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    # a signal to all processes of a run must not end its tasks before the run knows of it: the JVM ends this one
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    load()
    pyspark.daemon.manager()
