"""Settings of the ORC files to write, by properties of a table and of a request.

Source of the names, of possible values and of the order: ORC `OrcConf` and `OrcFile.WriterOptions`, Hive
`CompactorMR.overrideTblProps` and `overrideMRProps`. For each setting the first property that is given counts:

1. request property `tblprops.<name>`, 2. table property `<name>`, 3. request property and 4. table property
`compactor.<name>`, 5. and 6. the same by Hive's name, such as `compactor.hive.exec.orc.default.compress`.

orc.compress              NONE, ZLIB, SNAPPY, LZ4 or, for Hive 4, ZSTD; not given: that of most input bytes, else ZLIB
orc.row.index.stride      at least 1000 rows; not given: that of most input bytes, else 10,000. One of 0 or less, which
                          asks for no index, counts as not given: some engines refuse files that have none
orc.compress.size         most bytes of a block, brought to 1 KiB to 8 MiB; not given: as in the inputs, else 256 KiB.
                          As with Java's writer blocks are smaller in tables of many columns
orc.buffer.size.enforce   `true`: blocks are that large in tables of many columns, too
orc.stripe.size           bytes up to which stripes are joined, at most 1 GiB, else 64 MiB; larger ones of inputs stay
orc.create.index          without effect: there is always an index. Hive's own writers ignore it as well
orc.bloom.filter.columns  names of columns, separated by commas, that have bloom filters besides those that have some in
                          the inputs; `*` is all, names that the table does not have are ignored
orc.bloom.filter.fpp      share of false positives, above 0 and below 1; not given: filters as large as those of the
                          inputs, else Hive 3.1's default of 0.05 or Hive 4's of 0.01

Other properties that begin with `orc.` are ignored. Where a codec, a stride, a block size or columns with bloom filters
are given, every stripe that differs from them (of blocks: has larger ones) is recoded, once; no stripe is recoded for
the sake of a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from acidlib.acid.names import Generation, Reader
from acidlib.errors import RefusedError
from acidlib.model.tables import MetastoreTable
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
_MIN_STRIDE_ROWS, _MAX_STRIDE_ROWS = 1000, (1 << 31) - 1
_MIN_BLOCK_BYTES, _MAX_BLOCK_BYTES = 1 << 10, (1 << 23) - 1
_MAX_STRIPE_BYTES = 1 << 30


def rewrite_settings(
    table: MetastoreTable,
    request: Mapping[str, str],
    *,
    reader: Reader,
    otherwise: RewriteSettings | None = None,
) -> RewriteSettings:
    """Return the sizes and codec of a compaction of this table, by its properties and those of the request.

    `otherwise` has the values that no property gives. Raises RefusedError, naming table and property, for a value that
    makes no sense or that cannot be written.
    """
    settings = otherwise or RewriteSettings()
    values: dict[str, Any] = {}
    if option := _property(COMPRESS, table, request):
        values["compression"] = option.text.upper()
        if values["compression"] not in _CODECS[reader]:
            raise option.refused(f"only {', '.join(_CODECS[reader])} can be written")
    if (option := _property(STRIDE, table, request)) and (stride := option.number()) > 0:
        if not _MIN_STRIDE_ROWS <= stride <= _MAX_STRIDE_ROWS:
            raise option.refused(f"it is not from {_MIN_STRIDE_ROWS} to {_MAX_STRIDE_ROWS}")
        values["stride"] = stride
    if option := _property(BLOCK, table, request):
        values["block_bytes"] = min(max(option.positive(), _MIN_BLOCK_BYTES), _MAX_BLOCK_BYTES)
    by_name = settings.stated | values.keys()
    if option := _property(ENFORCE, table, request):
        values["block_enforced"] = option.text.lower() == "true"
    if option := _property(STRIPE, table, request):
        values["stripe_bytes"] = min(option.positive(), _MAX_STRIPE_BYTES)
    if option := _property(BLOOM_COLUMNS, table, request):
        values["bloom_columns"] = option.text
    if option := _property(BLOOM_FPP, table, request):
        values["bloom_fpp"] = option.share()
    return replace(settings, **values, stated=by_name)


class _Property:
    """A property that is set; errors call it `shown`."""

    def __init__(self, table: str, shown: str, text: str) -> None:
        self._table, self._shown, self.text = table, shown, text

    def number(self) -> int:
        """Return a whole number, without any unit, as Java reads it."""
        text = self.text.removeprefix("-")
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise self.refused("it is not a whole number")
        return int(self.text)

    def share(self) -> float:
        """Return a number above 0 and below 1."""
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


def _property(name: str, table: MetastoreTable, request: Mapping[str, str]) -> _Property | None:
    keys = [("request", f"tblprops.{name}"), ("table", name)]
    for known in (name, _HIVE_NAMES[name]):
        keys += [("request", f"compactor.{known}"), ("table", f"compactor.{known}")]
    for layer, key in keys:
        text = request.get(key) if layer == "request" else table.properties.get(key)
        if text is not None:
            return _Property(str(table.ref), f"{layer} property {key}", text)
    return None
