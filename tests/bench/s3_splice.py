"""What a major compaction of a table in a bucket sends and receives, counted at a relay before the server.

    cd tests; PYTHONPATH=.. ../.venv/bin/python -m bench.s3_splice [--megabytes 190]

One bucket file: a base of stripes of about 5 MB, ten small deltas, and deletes that all lie in one stripe.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import click
import pyorc
from compaction import MAJOR, compact_directory
from judges import merge
from s3_tables import downloaded, uploaded
from servers.s3 import S3Server
from servers.s3_proxy import Relay

from acidlib.stores.stores import Stores

ROW = "struct<id:int,v:binary>"
ACID = f"struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{ROW}>"
CODED, VALUE, STRIPE = 1 << 29, 1000, 3 << 20


def _write(path: Path, events: list[tuple[object, ...]], *, inserts: int, deletes: int) -> None:
    path.parent.mkdir(parents=True)
    with path.open("wb") as file, pyorc.Writer(file, ACID, stripe_size=STRIPE) as writer:
        writer.writerows(events)
        writer.set_user_metadata(**{"hive.acid.stats": f"{inserts},0,{deletes}".encode()})


@click.command()
@click.option("--megabytes", type=int, default=190)
def main(megabytes: int) -> None:
    """Compact once, and print bytes and time."""
    with tempfile.TemporaryDirectory() as temporary:
        chance, place = random.Random(1), Path(temporary, "t")
        count = megabytes * 1_000_000 // VALUE
        rows = [(0, 1, CODED, n, 1, (n, chance.randbytes(VALUE))) for n in range(count)]
        _write(place / "base_0000001/bucket_00000", rows, inserts=count, deletes=0)
        for number in range(2, 12):
            some = [(0, number, CODED, n, number, (n, chance.randbytes(VALUE))) for n in range(50)]
            _write(place / f"delta_{number:07d}_{number:07d}_0000/bucket_00000", some, inserts=50, deletes=0)
        gone = [(2, 1, CODED, count // 2 + n, 12, None) for n in range(100)]
        _write(place / "delete_delta_0000012_0000012_0000/bucket_00000", gone, inserts=0, deletes=100)
        length = sum(path.stat().st_size for path in place.rglob("bucket_*"))
        with S3Server(Path(temporary)) as server, Relay(server.port) as relay:
            location = uploaded(server, place)
            stores = Stores(configuration=server.properties(relay.endpoint))
            start = time.perf_counter()
            done = compact_directory(location, MAJOR, stores=stores)
            seconds = time.perf_counter() - start
            [result] = done.results
            click.echo(
                f"table {length / 1e6:.1f} MB, sent {relay.sent / 1e6:.1f} MB, got {relay.received / 1e6:.1f} MB"
            )
            click.echo(
                f"{(relay.sent + relay.received) / length:.1%} of the table in {seconds:.2f} s by {server.judge}"
            )
            click.echo(f"requests {dict(relay.requests)}; stripes copied {result.stripes_copied}")
            seen = downloaded(server, location, Path(temporary, "seen"))
            same = merge.read(seen, generation=3, strict=True) == merge.read(place, generation=3)
            click.echo(f"rows are {'the same' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
