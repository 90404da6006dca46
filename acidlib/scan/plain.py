"""The rows of insert-only tables whose files are not ORC."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from acidlib.datafiles import SourceFile
from acidlib.errors import RefusedError
from acidlib.scan.splits import Scan, Split


def read_plain(scan: Scan, split: Split, names: tuple[str, ...], source: SourceFile) -> Iterator[pa.RecordBatch]:  # noqa: ARG001 - the signature of all formats
    """Yield the rows of a split; RefusedError, as no format but ORC is read."""
    raise RefusedError(f"Cannot read {source.name} of {scan.table}: it is not an ORC file")
