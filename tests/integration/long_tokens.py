"""A driver for `spark-submit` that has tasks look at a file on HDFS, and again when the first tokens have ended.

Arguments: the URI of a directory, a name in it, and for how many seconds to wait. Prints a line for each look: what a
task that brought the driver's tokens saw, and what one saw that had only what Spark had given its executor.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from pyspark import SparkContext

from acidlib.errors import AcidError
from acidlib.execute.spark import hadoop_in_jvm
from acidlib.stores.hadoop import DelegationTokens, HandedTokens
from acidlib.stores.stores import Stores


def look(stores: Stores, uri: str, name: str) -> str:
    try:
        return str(stores.fs(stores.locate(uri)).read(f"{uri}/{name}"))
    except AcidError as error:
        return str(error)


def main(uri: str, name: str, seconds: str) -> None:
    context = SparkContext()
    prefix = "spark.hadoop."
    given = {key.removeprefix(prefix): value for key, value in context.getConf().getAll() if key.startswith(prefix)}
    handing = Stores(
        configuration=given, tokens=HandedTokens(DelegationTokens(hadoop_in_jvm, time.time, kept_seconds=1))
    )
    handing.locate(uri)

    def seen(stores: Stores) -> str:
        return context.parallelize([(stores, uri, name)], 1).map(lambda asked: look(*asked)).collect()[0]

    for pause in (0.0, float(seconds)):
        time.sleep(pause)
        # what a process has connected it keeps, and what it took up: each look has a configuration of its own
        own = {**given, "dfs.client.look": f"{pause}"}
        print("given:", seen(replace(handing, configuration=own | {"dfs.client.by": "given"}, tokens=HandedTokens())))
        print("handed:", seen(replace(handing, configuration=own)))


main(*sys.argv[1:])
