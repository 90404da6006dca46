"""How long it takes to find the partitions of a table in a bucket, and to list each.

    cd tests; PYTHONPATH=.. ../.venv/bin/python -m bench.s3_listing [--places 1000]

Each place has seven deltas of two files; each file holds one byte.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
from servers.s3 import S3Server
from servers.s3_proxy import Relay

from acidlib.execute.in_threads import in_threads
from acidlib.stores.discover import discover_location
from acidlib.stores.listing import list_location
from acidlib.stores.stores import Stores

DELTAS, FILES, ROUNDS = 7, 2, 3


def timed(name: str, relay: Relay, work: Callable[[], object]) -> None:
    took = []
    for _ in range(ROUNDS):
        relay.reset()
        began, used = time.perf_counter(), time.process_time()
        work()
        took.append((time.perf_counter() - began, time.process_time() - used))
    asked = sum(relay.requests.values())
    click.echo(
        f"{name}: {asked} requests, {min(took)[0]:.2f} to {max(took)[0]:.2f} s, {min(took)[1]:.2f} s of this CPU"
    )


@click.command()
@click.option("--places", type=int, default=1000)
def main(places: int) -> None:
    """Make a table, list it in each way, and print requests and seconds."""
    with tempfile.TemporaryDirectory() as temporary, S3Server(Path(temporary)) as server, Relay(server.port) as relay:
        bucket, client = server.new_bucket(), server.client()
        names = [f"p={number}" for number in range(places)]
        keys = [
            f"w/t/{name}/delta_{number:07d}_{number:07d}_0000/bucket_{file:05d}"
            for name in names
            for number in range(1, DELTAS + 1)
            for file in range(FILES)
        ]
        in_threads(lambda key: client.put_object(Bucket=bucket, Key=key, Body=b"x"), keys, seconds=600)
        stores = Stores(configuration=server.properties(relay.endpoint))
        root = stores.locate(f"s3a://{bucket}/w/t")
        fs = stores.fs(root)

        def each() -> None:
            found = in_threads(lambda name: list_location(fs, root.child(name)), names, seconds=600)
            assert sum(len(done.get().files) for done in found) == len(keys)

        timed("each place, 16 threads", relay, each)
        timed("its partitions by their names", relay, lambda: discover_location(fs, root))


if __name__ == "__main__":
    main()
