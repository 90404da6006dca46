"""Copying a file on HDFS through one process, against `hdfs dfs -cp`; and listing a thousand places.

    PYTHONPATH=.:tests python tests/bench/hdfs_copy.py [megabytes]

Both run on a small HDFS of this machine, in turns; the best of three counts. The time of a Java that does nothing but
list the directory is taken off that of `hdfs dfs`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from servers.hdfs import Hdfs

from acidlib.stores.renaming.hdfs import HdfsDataFiles, HdfsFileSystem

ROUNDS = 3
PLACES, DIRECTORIES, FILES, THREADS = 1000, 7, 2, 16


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compare_copies(hdfs: Hdfs, place: str, megabytes: int) -> None:
    data, fs = HdfsDataFiles(hdfs.authority, hdfs.configuration), HdfsFileSystem(hdfs.authority, hdfs.configuration)
    length = megabytes << 20
    sink = data.create(f"{place}/from")
    for _ in range(megabytes):
        sink.write(os.urandom(1 << 20))
    sink.close()

    def ours() -> None:
        source, target = data.open(f"{place}/from", length), data.create(f"{place}/ours")
        target.copy(source, 0, length)
        target.close()

    took: dict[str, list[float]] = {"java": [], "hdfs dfs -cp": [], "ours": []}
    for _ in range(ROUNDS):
        took["java"].append(seconds(lambda: hdfs.shell("-ls", place)))
        took["hdfs dfs -cp"].append(seconds(lambda: hdfs.shell("-cp", f"{place}/from", f"{place}/theirs")))
        took["ours"].append(seconds(ours))
        for name in ("ours", "theirs"):
            fs.remove_tree(place, name)
    best = {name: min(times) for name, times in took.items()}
    theirs = best["hdfs dfs -cp"] - best["java"]
    print(f"copy of {megabytes} MiB: hdfs dfs -cp {theirs:.2f} s and {best['java']:.2f} s of Java's own", end="; ")
    print(f"ours {best['ours']:.2f} s, {best['ours'] / theirs:.2f} times as long")


def list_places(hdfs: Hdfs, place: str) -> None:
    fs = HdfsFileSystem(hdfs.authority, hdfs.configuration)
    places = [f"{place}/p={number}" for number in range(PLACES)]

    def make(partition: str) -> None:
        fs.make_directory(partition)
        for number in range(DIRECTORIES):
            fs.make_directory(f"{partition}/delta_{number}")
            for bucket in range(FILES):
                fs.create(f"{partition}/delta_{number}/bucket_{bucket:05}", b"")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(make, places))
        for threads in (1, THREADS):
            with ThreadPoolExecutor(threads) as listing:
                began = time.perf_counter()
                found = list(listing.map(lambda path: fs.list_tree(path, enter_hidden=False), places))
                took = time.perf_counter() - began
            print(f"{PLACES} places, {sum(map(len, found))} entries, {threads} threads: {took:.2f} s")


def main(megabytes: int) -> None:
    with tempfile.TemporaryDirectory() as directory, Hdfs(Path(directory)) as hdfs:
        compare_copies(hdfs, hdfs.new_directory(), megabytes)
        list_places(hdfs, hdfs.new_directory())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
