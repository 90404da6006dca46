"""ACID bucket files and original files written by Java's own ORC writer: what pyorc cannot write.

Rows have the canonical form of ``values``: unions, both kinds of timestamps and decimals without loss.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judges.java_orc import JavaOrc
from judges.merge import writer_of
from judges.tables import Event, acid_schema, event_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How Java writes a file.

    version       "0.11" writes run lengths of version 1, "0.12" of version 2
    stride        rows per row group: 0 for no row index, else 1000 or more
    stripe_rows   rows of a stripe at most
    block         bytes of a compression block
    enforce       blocks are as large as that in files of many columns, too
    bloom         names of columns with bloom filters, separated by commas; in ACID files those inside ``row``
    dictionary    share of distinct strings up to which a dictionary is kept
    dictionary_impl  "rbtree" sorts the dictionary, "hash" does not
    timezone      default zone of the writing JVM
    decimal64     decimals of up to 18 digits are given to the writer as longs of the column's scale
    encrypt       name of a column to encrypt
    """

    version: str = "0.12"
    compression: str = "zlib"
    stride: int = 1000
    stripe_size: int = 64 << 20
    stripe_rows: int = 1 << 40
    block: int = 64 << 10
    enforce: bool = True
    bloom: str = ""
    bloom_version: str = "utf8"
    dictionary: float = 0.8
    dictionary_impl: str = "rbtree"
    timezone: str = "UTC"
    proleptic: bool = False
    decimal64: bool = False
    encrypt: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)


DEFAULT = Options()


def write_orc(
    java: JavaOrc, path: Path, schema: str, rows: Sequence[Any], options: Options = DEFAULT, *, acid: bool = False
) -> Path:
    """One ORC file; ``acid`` adds the hive.acid keys of its events to the footer."""
    spec = dataclasses.asdict(options)
    spec["conf"] = {
        "orc.dictionary.key.threshold": str(options.dictionary),
        "orc.dictionary.implementation": options.dictionary_impl,
        "orc.stripe.row.count": str(options.stripe_rows),
        **options.conf,
    }
    spec |= {"schema": schema, "rows": rows, "acid": acid}
    description = path.with_name(f"_{path.name}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    description.write_text(json.dumps(spec))
    java.ask("write", str(description), str(path))
    description.unlink()
    return path


def write_dir(
    java: JavaOrc, location: Path, name: str, columns: str, events: Iterable[Event], options: Options = DEFAULT
) -> Path:
    """``tables.write_dir`` with files of Java's writer."""
    directory = location / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "_orc_acid_version").write_bytes(b"2")
    if name.startswith("base_"):
        (directory / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    buckets: dict[int, list[Event]] = {}
    for event in sorted(events, key=event_key):
        buckets.setdefault(writer_of(event[2]), []).append(event)
    for number, part in buckets.items():
        write_orc(java, directory / f"bucket_{number:05d}", acid_schema(columns), part, options, acid=True)
    return directory
