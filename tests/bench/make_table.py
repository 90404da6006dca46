"""Makes the table that the benches work on: one bucket, a base and ten deltas, mixed types, about 100 MB in zlib.

    cd tests; ../.venv/bin/python -m bench.make_table DIRECTORY [--deleted 0.1] [--flat-deltas]

Written by pyorc, so that what is measured is not our own writer's output.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import click
import pyorc
from judges.mutants import with_user_metadata
from judges.orc_tail import read_orc

COLUMNS = (
    "id:bigint,customer:int,amount:decimal(12,2),ratio:double,flag:boolean,day:date,ts:timestamp,"
    "status:string,city:varchar(40),code:char(8),note:string,items:array<int>"
)
SCHEMA = (
    "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,"
    f"row:struct<{COLUMNS}>>"
)
BUCKET = 536870912
STRIPE_BYTES = 64 << 20
_STATUS = ("new", "paid", "packed", "shipped", "delivered", "returned", "lost", "cancelled")
_EPOCH_2020 = 1_577_836_800


def _row(rng: random.Random, number: int) -> tuple[object, ...]:
    bits = rng.getrandbits(160)
    return (
        number,
        bits & 0xFFFFF,
        Decimal(bits >> 20 & 0xFFFFFF).scaleb(-2),
        (bits >> 44 & 0xFFFFFFFF) / 4096.0,
        bool(bits >> 76 & 1),
        18_000 + (bits >> 77 & 0xFFF),
        (_EPOCH_2020 + number // 4, (bits >> 89 & 0x3FF) % 1000 * 1_000_000),
        _STATUS[bits >> 99 & 7],
        f"city {bits >> 102 & 0xFFF}",
        f"{bits >> 114 & 0xFFFF:04x}",
        None if bits & 0x700 == 0 else f"{bits >> 48:028x} order note",
        [bits >> 130 & 0xFF, bits >> 138 & 0xFF][: bits >> 146 & 3],
    )


class _Raw:
    """Dates as days and timestamps as (seconds, nanoseconds), as they are."""

    @staticmethod
    def from_orc(*args: object) -> object:
        return args

    @staticmethod
    def to_orc(obj: object, *_: object) -> object:
        return obj


def write_file(
    path: Path, write_id: int, rows: int, first: int, *, stride: int = 10_000, stripe_bytes: int = STRIPE_BYTES
) -> None:
    """One insert file of `rows` rows whose ids start at `first`."""
    rng = random.Random(first)
    path.parent.mkdir(parents=True)
    (path.parent / "_orc_acid_version").write_text("2")
    with path.open("wb") as file, _writer(file, stride, stripe_bytes) as writer:
        for number in range(rows):
            writer.write((0, write_id, BUCKET, number, write_id, _row(rng, first + number)))
        _metadata(writer, rows, 0)
    _add_key_index(path, lambda row: (write_id, row))


def write_plain(path: Path, rows: int) -> None:
    """A file without ACID columns, with the rows of one that `write_file` begins with 0."""
    rng = random.Random(0)
    path.parent.mkdir(parents=True)
    with path.open("wb") as file, _writer(file, 10_000, STRIPE_BYTES, f"struct<{COLUMNS}>") as writer:
        for number in range(rows):
            writer.write(_row(rng, number))


def write_deletes(path: Path, write_id: int, keys: Sequence[int]) -> None:
    """One delete file: rows of the base by row id."""
    path.parent.mkdir(parents=True)
    (path.parent / "_orc_acid_version").write_text("2")
    with path.open("wb") as file, _writer(file, 10_000, STRIPE_BYTES) as writer:
        for key in keys:
            writer.write((2, 1, BUCKET, key, write_id, None))
        _metadata(writer, 0, len(keys))
    _add_key_index(path, lambda row: (1, keys[row]))


def _writer(file: object, stride: int, stripe_bytes: int, schema: str = SCHEMA) -> pyorc.Writer:
    return pyorc.Writer(
        file,
        schema,
        compression=pyorc.CompressionKind.ZLIB if stride else pyorc.CompressionKind.NONE,
        compression_block_size=262_144,
        stripe_size=stripe_bytes,
        row_index_stride=stride,
        dict_key_size_threshold=0.8,
        struct_repr=pyorc.StructRepr.TUPLE,
        converters={pyorc.TypeKind.TIMESTAMP: _Raw, pyorc.TypeKind.DATE: _Raw},
    )


def _metadata(writer: pyorc.Writer, inserts: int, deletes: int) -> None:
    writer.set_user_metadata(
        **{"hive.acid.version": b"2", "hive.acid.stats": f"{inserts},0,{deletes}".encode()},
    )


def _add_key_index(path: Path, key_of: Callable[[int], tuple[int, int]]) -> None:
    """The entry of each stripe's last row, as Hive writes it; only the finished file tells where its stripes end."""
    file = read_orc(path)
    last, entries = -1, ""
    for stripe in file.stripes:
        last += stripe.rows
        write_id, row_id = key_of(last)
        entries += f"{write_id},{BUCKET},{row_id};"
    path.write_bytes(with_user_metadata(file, {"hive.acid.key.index": entries.encode()}))


def make(
    directory: Path, *, rows: int = 2_500_000, deltas: int = 10, deleted: float = 0.1, flat_deltas: bool = False
) -> None:
    """The whole table; see the options of `main`."""
    share = rows // 100
    base = rows - deltas * share
    write_file(directory / "base_0000001" / "bucket_00000", 1, base, 0)
    (directory / "base_0000001" / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    if flat_deltas:
        last = deltas + 1
        write_file(directory / f"delta_0000002_{last:07d}" / "bucket_00000", 2, deltas * share, base, stride=0)
    else:
        for number in range(deltas):
            name = f"delta_{number + 2:07d}_{number + 2:07d}_0000"
            write_file(directory / name / "bucket_00000", number + 2, share, base + number * share)
    if deleted:
        keys = sorted(random.Random(7).sample(range(base), int(base * deleted)))
        write_id = deltas + 2
        write_deletes(directory / f"delete_delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000", write_id, keys)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--rows", default=2_500_000)
@click.option("--deltas", default=10)
@click.option("--deleted", default=0.1, help="Share of the base's rows that is deleted, all over.")
@click.option("--flat-deltas", is_flag=True, help="One wide delta without row index, as Hive 3.1's minor leaves it.")
def main(directory: Path, rows: int, deltas: int, deleted: float, flat_deltas: bool) -> None:
    """Make the table in DIRECTORY, which must not exist."""
    make(directory, rows=rows, deltas=deltas, deleted=deleted, flat_deltas=flat_deltas)


if __name__ == "__main__":
    main()
