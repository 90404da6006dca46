"""The process whose forks Spark's Python workers are, with all loaded that tasks need: `spark.python.daemon.module`.

Each worker would load the kernels for itself, and the garbage collection after each of its tasks (`pyspark.daemon`)
would look through them. It has to be found where executors start, so it is the default with a local master only.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import redirect_stdout, suppress

import pyspark.daemon


def load() -> None:
    """Load what tasks need. What fails here fails again in the task that needs it, where it is reported."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # it would start threads before the forks, for nothing
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
