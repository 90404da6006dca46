"""The same major compaction by pyarrow on one core: read, filter, write with zlib. What ours is compared with.

It loses the ACID footer metadata and the table's char and varchar types; only its time and size are of interest.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import orc

KEY = ("originalTransaction", "bucket", "rowId")


def _key(table: pa.Table) -> np.ndarray:
    columns = [table.column(name).to_numpy() for name in KEY]
    # one bucket and fewer than 2^40 rows: the key fits one number
    return columns[0] << 40 | columns[2]


def compact_by_pyarrow(directory: Path, output: Path) -> int:
    """Compact the one bucket of DIRECTORY into the file OUTPUT; returns the rows written."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    paths = sorted(directory.glob("*/bucket_00000"))
    deleted = [
        _key(orc.ORCFile(path).read(columns=list(KEY))) for path in paths if path.parent.name.startswith("delete_delta")
    ]
    gone = np.sort(np.concatenate(deleted)) if deleted else np.zeros(0, dtype=np.int64)
    rows = 0
    with output.open("wb") as sink:
        writer = orc.ORCWriter(
            sink,
            compression="zlib",
            compression_block_size=262_144,
            stripe_size=64 << 20,
            dictionary_key_size_threshold=0.8,
        )
        for path in paths:
            if path.parent.name.startswith("delete_delta"):
                continue
            file = orc.ORCFile(path)
            for number in range(file.nstripes):
                table = pa.Table.from_batches([file.read_stripe(number)])
                if len(gone):
                    table = table.filter(pa.array(~np.isin(_key(table), gone, assume_unique=True)))
                rows += table.num_rows
                writer.write(table)
        writer.close()
        sink.flush()
        os.fsync(sink.fileno())
    return rows
