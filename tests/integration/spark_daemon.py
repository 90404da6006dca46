"""The process whose forks Spark's Python workers are, with what tasks need loaded before: most tests kill workers."""

import pyspark.daemon

import acidlib.engine.tasks  # noqa: F401 - what takes a worker longest

if __name__ == "__main__":
    pyspark.daemon.manager()
