"""The process from which Spark's Python workers are forked, with the modules of tasks loaded.

The property `spark.python.daemon.module` names it. Without it each worker would load the kernels for itself, and the
garbage collection after each task (`pyspark.daemon`) would scan them. Executors have to find this module when they
start, so it is the default with a local master only.
"""

from __future__ import annotations

import signal

import pyspark.daemon

from acidlib.execute.task_process import load

if __name__ == "__main__":
    # a signal to all processes of a run must not end its tasks before the run knows of it: the JVM ends this one
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    load()
    pyspark.daemon.manager()
