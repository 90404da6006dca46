"""How a table wants its ORC files written, by its properties and those of a request.

Source of the names, of what a value may be and of the order: ORC `OrcConf` and `OrcFile.WriterOptions`, Hive
`CompactorMR.overrideTblProps` and `overrideMRProps`. For each of them the first that is given counts:

1. request property `tblprops.<name>`, 2. table property `<name>`, 3. request property and 4. table property
`compactor.<name>`, 5. and 6. the same by Hive's name, such as `compactor.hive.exec.orc.default.compress`.

orc.compress              NONE, ZLIB, SNAPPY, LZ4 or, for Hive 4, ZSTD; not given: that of most input bytes, else ZLIB
orc.row.index.stride      at least 1000 rows; not given: that of most input bytes, else 10,000. One of 0 or less, which
                          asks for no index, counts as not given: some engines refuse files that have none
orc.compress.size         most bytes of a block, brought to 1 KiB to 8 MiB; not given: as in the inputs, else 256 KiB.
                          As with Java's writer blocks are smaller in tables of many columns
orc.buffer.size.enforce   `true`: they are as large as that in all tables
orc.stripe.size           bytes up to which stripes are joined, at most 1 GiB; larger ones that are there stay; 64 MiB
orc.create.index          without effect: there is always an index. Hive's own writers ignore it as well
orc.bloom.filter.columns  names of columns, separated by commas, that have bloom filters besides those that have some in
                          the inputs; `*` is all, names that the table does not have are ignored
orc.bloom.filter.fpp      share of false positives, above 0 and below 1; not given: filters as large as those of the
                          inputs, else Hive 3.1's default of 0.05 or Hive 4's of 0.01

All else that begins with `orc.` is ignored. Where a codec, a stride, a size of blocks or columns with bloom filters are
given, every stripe that differs from them (of blocks: has larger ones) is recoded, once; nothing is recoded for the
sake of a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from acidlib.errors import RefusedError
from acidlib.model.names import Generation
from acidlib.model.tables import Table
from acidlib.model.units import RewriteSettings

COMPRESS, STRIDE, BLOCK, STRIPE = "orc.compress", "orc.row.index.stride", "orc.compress.size", "orc.stripe.size"
ENFORCE = "orc.buffer.size.enforce"
BLOOM_COLUMNS, BLOOM_FPP = "orc.bloom.filter.columns", "orc.bloom.filter.fpp"
_HIVE_NAMES = {
    COMPRESS: "hive.exec.orc.default.compress",
    STRIDE: "hive.exec.orc.default.row.index.stride",
    BLOCK: "hive.exec.orc.default.buffer.size",
    ENFORCE: "hive.exec.orc.buffer.size.enforce",
    STRIPE: "hive.exec.orc.default.stripe.size",
    BLOOM_COLUMNS: "orc.bloom.filter.columns",
    BLOOM_FPP: "orc.default.bloom.fpp",
}
_CODECS = {
    Generation.HIVE3: ("NONE", "ZLIB", "SNAPPY", "LZ4"),
    Generation.HIVE4: ("NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"),
}
_LEAST_STRIDE, _MOST_STRIDE = 1000, (1 << 31) - 1
_LEAST_BLOCK, _MOST_BLOCK = 1 << 10, (1 << 23) - 1
_MOST_STRIPE = 1 << 30


def rewrite_settings(
    table: Table,
    request: Mapping[str, str],
    *,
    generation: Generation,
    otherwise: RewriteSettings | None = None,
) -> RewriteSettings:
    """Return the sizes and codec of a compaction of this table. `request`: the request's properties.

    `otherwise` has what no property gives. Raises RefusedError, naming table and property, for a value that makes no
    sense or that cannot be written.
    """
    settings = otherwise or RewriteSettings()
    found: dict[str, Any] = {}
    if given := _given(COMPRESS, table, request):
        found["compression"] = given.text.upper()
        if found["compression"] not in _CODECS[generation]:
            raise given.refused(f"only {', '.join(_CODECS[generation])} can be written")
    if (given := _given(STRIDE, table, request)) and (stride := given.number()) > 0:
        if not _LEAST_STRIDE <= stride <= _MOST_STRIDE:
            raise given.refused(f"it is not from {_LEAST_STRIDE} to {_MOST_STRIDE}")
        found["stride"] = stride
    if given := _given(BLOCK, table, request):
        found["block_bytes"] = min(max(given.positive(), _LEAST_BLOCK), _MOST_BLOCK)
    stated = settings.stated | found.keys()
    if given := _given(ENFORCE, table, request):
        found["block_enforced"] = given.text.lower() == "true"
    if given := _given(STRIPE, table, request):
        found["stripe_bytes"] = min(given.positive(), _MOST_STRIPE)
    if given := _given(BLOOM_COLUMNS, table, request):
        found["bloom_columns"] = given.text
    if given := _given(BLOOM_FPP, table, request):
        found["bloom_fpp"] = given.share()
    return replace(settings, **found, stated=stated)


class _Given:
    """A property that is set; `shown` is how errors call it."""

    def __init__(self, table: str, shown: str, text: str) -> None:
        self._table, self._shown, self.text = table, shown, text

    def number(self) -> int:
        """Return a whole number, without any unit, as Java reads it."""
        text = self.text.removeprefix("-")
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise self.refused("it is not a whole number")
        return int(self.text)

    def share(self) -> float:
        """Return a number between 0 and 1, neither of them."""
        try:
            share = float(self.text)
        except ValueError:
            raise self.refused("it is not a number") from None
        if not 0 < share < 1:
            raise self.refused("it is not between 0 and 1")
        return share

    def positive(self) -> int:
        """Return a number above zero."""
        number = self.number()
        if number < 1:
            raise self.refused("it is less than 1")
        return number

    def refused(self, reason: str) -> RefusedError:
        """Return the error for a value that cannot be used."""
        return RefusedError(f"Cannot compact {self._table}: its {self._shown}={self.text} is invalid: {reason}")


def _given(name: str, table: Table, request: Mapping[str, str]) -> _Given | None:
    keys = [("request", f"tblprops.{name}"), ("table", name)]
    for known in (name, _HIVE_NAMES[name]):
        keys += [("request", f"compactor.{known}"), ("table", f"compactor.{known}")]
    for layer, key in keys:
        text = request.get(key) if layer == "request" else table.properties.get(key)
        if text is not None:
            return _Given(str(table.ref), f"{layer} property {key}", text)
    return None
