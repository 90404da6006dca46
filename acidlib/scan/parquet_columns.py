"""The columns of a Parquet file of an insert-only table, as Hive reads them.

Source: Hive 3.1.3 and 4.0.1 `DataWritableReadSupport` (which column is which), `ETypeConverter` (values),
`ParquetRecordReaderBase` (whose zone). Arrow reads the file; this module finds the columns, and makes its arrays those
of the table's types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from acidlib.acid.names import Generation, Reader
from acidlib.errors import RefusedError
from acidlib.orc.columns import Mask
from acidlib.orc.proto import Kind
from acidlib.orc.schema import TypeNode
from acidlib.scan.arrays import arrow_type, map_array, offsets_buffer, readable_texts, truncated, validity
from acidlib.scan.parquet_int96 import INT96_BYTES
from acidlib.scan.predicate import Bounds, Predicate
from acidlib.scan.times import JULIAN_DAY_OF_1970, gregorian_days, instants_on_clocks, moments_of_julian_days

INDEX_ACCESS = "parquet.column.index.access"
"""The table property by which columns are found by position."""

_INTEGERS = {Kind.BYTE: pa.int8(), Kind.SHORT: pa.int16(), Kind.INT: pa.int32(), Kind.LONG: pa.int64()}
_BOUNDED: Mapping[Kind, Callable[[pa.DataType], bool]] = {
    **dict.fromkeys(_INTEGERS, pa.types.is_signed_integer),
    Kind.DATE: pa.types.is_date32,
    Kind.STRING: lambda own: pa.types.is_string(own) or pa.types.is_large_string(own),
    Kind.DECIMAL: pa.types.is_decimal,
}
"""The types whose statistics are those of the values that readers see, and whether they are so in a file of a type."""
_GREGORIAN_YEAR = 1583


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """How values of a file are read, by what it says of its reading.

    zone    of the clocks that INT96 shows
    julian  DATEs before 1582-10-15 are of the Julian calendar
    julian_times  those of INT96 are
    legacy  offsets of the zone are those of `java.util.TimeZone`
    int96   names of columns with INT96 in them
    by_position  fields of structs are found by position, too
    """

    zone: str
    julian: bool
    julian_times: bool
    legacy: bool
    int96: frozenset[str]
    by_position: bool

    @classmethod
    def of(cls, metadata: pq.FileMetaData, reader: Reader, *, int96: frozenset[str], by_position: bool) -> _Reading:
        stated = {
            key.decode(errors="replace"): value.decode(errors="replace")
            for key, value in (metadata.metadata or {}).items()
        }
        is_hive4 = reader is Generation.HIVE4
        # Hive 4 asks other writers for no zone (hive.parquet.timestamp.skip.conversion)
        has_zone = not is_hive4 or (metadata.created_by or "").startswith("parquet-mr")
        return cls(
            zone=stated.get("writer.time.zone", "") if has_zone else "",
            julian=is_hive4 and stated.get("writer.date.proleptic") != "true",
            julian_times=is_hive4,
            legacy=is_hive4 and stated.get("writer.zone.conversion.legacy") == "true",
            int96=int96,
            by_position=by_position,
        )


class ParquetColumns:
    """The chosen columns of an open Parquet file.

    int96  the file's names of columns with INT96, which the file has as INT96_BYTES

    Raises RefusedError that names file, column and both types where a column has another type than the table's, and
    Hive does not read it as such.
    """

    def __init__(
        self,
        file: pq.ParquetFile,
        table: TypeNode,
        names: Sequence[str],
        *,
        reader: Reader,
        int96: frozenset[str],
        by_position: bool,
        where: str,
    ) -> None:
        self._file = file
        self._where = where
        self._reading = _Reading.of(file.metadata, reader, int96=int96, by_position=by_position)
        self._nodes = {name.lower(): node for name, node in zip(table.field_names, table.children, strict=True)}
        self._names = tuple(names)
        self._sources: dict[str, str | None] = {}
        in_file = file.schema_arrow.names
        positions = {name.lower(): position for position, name in enumerate(table.field_names)}
        for name in self._nodes:
            if by_position:
                place = positions[name]
                self._sources[name] = in_file[place] if place < len(in_file) else None
            else:
                self._sources[name] = _named(name, in_file)
        for source in map(self._sources.get, names):
            if source is not None and ("." in source or in_file.count(source) > 1):
                raise RefusedError(f"Cannot read {where}: its column {source} has a name that others begin with")

    def batches(self, groups: Sequence[int], rows: int) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Yield the number of rows and the columns of some row groups, by their names in the table."""
        sources = list(dict.fromkeys(source for source in map(self._sources.get, self._names) if source is not None))
        if not sources:
            for group in groups:
                count = self._file.metadata.row_group(group).num_rows
                yield count, {name: pa.nulls(count, arrow_type(self._nodes[name])) for name in self._names}
            return
        for batch in self._file.iter_batches(rows, row_groups=list(groups), columns=sources, use_threads=False):
            yield batch.num_rows, {name: self._column(name, batch) for name in self._names}

    def _column(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        source, node = self._sources[name], self._nodes[name]
        if source is None:
            return pa.nulls(batch.num_rows, arrow_type(node))
        try:
            return _array(batch.column(source), node, self._reading, is_int96=source in self._reading.int96)
        except (RefusedError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise RefusedError(f"Cannot read column {name} of {self._where}: {error}") from None

    def groups_that_may_match(
        self, groups: Sequence[int], predicate: Predicate, constants: Mapping[str, Bounds]
    ) -> list[int]:
        """Return those of some row groups in which statistics do not exclude that a row matches."""
        return [group for group in groups if predicate.may_match({**constants, **self._bounds(group, predicate)})]

    def _bounds(self, group: int, predicate: Predicate) -> dict[str, Bounds]:
        metadata, bounds = self._file.metadata.row_group(group), dict[str, Bounds]()
        places = {metadata.column(place).path_in_schema: place for place in range(metadata.num_columns)}
        for name in predicate.columns & self._sources.keys():
            source = self._sources[name]
            if source is None:
                bounds[name] = Bounds(has_nulls=True, all_null=True)
            elif source in places and self._is_bounded(source, self._nodes[name].kind):
                statistics = metadata.column(places[source]).statistics
                if statistics is not None and statistics.has_null_count:
                    bounds[name] = _column_bounds(statistics, metadata.num_rows, self._nodes[name])
        return bounds

    def _is_bounded(self, source: str, kind: Kind) -> bool:
        """Return whether statistics of a column of the file are of the values that readers see."""
        own = self._file.schema_arrow.field(source).type
        own = own.value_type if pa.types.is_dictionary(own) else own
        return kind in _BOUNDED and _BOUNDED[kind](own)


def _named(name: str, names: Sequence[str]) -> str | None:
    """Return the name of a file's column of this name: with the same case if there is one, else in any case."""
    if name in names:
        return name
    return next((other for other in names if other.lower() == name.lower()), None)


def _column_bounds(statistics: pq.Statistics, rows: int, node: TypeNode) -> Bounds:
    if statistics.null_count == rows:
        return Bounds(has_nulls=True, all_null=True)
    has_nulls = statistics.null_count > 0
    if not statistics.has_min_max:
        return Bounds(has_nulls=has_nulls)
    try:
        low, high = statistics.min, statistics.max
    except UnicodeDecodeError:
        return Bounds(has_nulls=has_nulls)
    if node.kind is Kind.STRING and not (isinstance(low, str) and low.isascii() and high.isascii()):
        # bytes that are no text are in another order than the character that stands for them
        return Bounds(has_nulls=has_nulls)
    if node.kind is Kind.DATE and getattr(low, "year", 0) < _GREGORIAN_YEAR:
        return Bounds(has_nulls=has_nulls)
    return Bounds(low=low, high=high, has_nulls=has_nulls)


def _array(array: pa.Array, node: TypeNode, reading: _Reading, *, is_int96: bool) -> pa.Array:
    """Return an array as the table has it. Raises RefusedError and Arrow's errors with the reason alone."""
    kind, own, target = node.kind, array.type, arrow_type(node)
    if pa.types.is_dictionary(own):
        return _array(array.dictionary_decode(), node, reading, is_int96=is_int96)
    if isinstance(own, pa.BaseExtensionType) and kind in (Kind.STRING, Kind.BINARY):
        return _array(array.storage, node, reading, is_int96=is_int96)  # JSON, UUID
    if kind in (Kind.LIST, Kind.MAP, Kind.STRUCT):
        return _nested(array, node, reading, is_int96=is_int96)
    if pa.types.is_null(own):
        return pa.nulls(len(array), target)
    if kind in _INTEGERS and pa.types.is_signed_integer(own):
        return array.cast(target)
    if kind in _INTEGERS and (pa.types.is_unsigned_integer(own) or pa.types.is_time(own) or pa.types.is_duration(own)):
        return _fitting(array, target)
    if kind is Kind.DECIMAL and pa.types.is_decimal(own) and _digits_fit(own, node):
        return array.cast(target)
    if kind in (Kind.FLOAT, Kind.DOUBLE) and own in (pa.float32(), target):
        return array.cast(target)
    is_text = pa.types.is_string(own) or pa.types.is_binary(own) or pa.types.is_large_string(own)
    if is_int96 and own == INT96_BYTES:
        if kind is Kind.TIMESTAMP:
            return _numbers(_clocks(array, reading), array, target)
        raise RefusedError(f"it is INT96 in the file, and the table's is {node}")
    if kind in (Kind.BINARY, Kind.STRING) and pa.types.is_fixed_size_binary(own):
        return _array(array.cast(pa.binary()), node, reading, is_int96=False)
    if kind is Kind.BINARY and is_text:
        return array.cast(pa.string() if pa.types.is_large_string(own) else own).view(pa.binary())
    if kind in (Kind.STRING, Kind.CHAR, Kind.VARCHAR) and is_text:
        texts = readable_texts(array.cast(pa.string()) if pa.types.is_large_string(own) else array, Kind.STRING)
        return truncated(texts, node)
    if kind is Kind.DATE and pa.types.is_date32(own):
        days = np.asarray(array.view(pa.int32()).fill_null(0), dtype=np.int64)
        return _numbers(gregorian_days(days) if reading.julian else days, array, target)
    is_instant = kind is Kind.TIMESTAMP_INSTANT and pa.types.is_timestamp(own) and own.tz is not None
    if is_instant or (kind is Kind.TIMESTAMP and pa.types.is_timestamp(own)):
        return _numbers(_moments(array), array, target)
    if own == target:
        return array
    raise RefusedError(f"it is {own} in the file, and the table's is {node}")


def _fitting(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return numbers as they are stored, signed and in 32 or 64 bits; null for those that a type does not hold.

    Source: Hive `ETypeConverter` (EINT32_CONVERTER, EINT64_CONVERTER), which has null for what is negative as stored
    where the file says that it is unsigned.
    """
    own = array.type
    is_unsigned = pa.types.is_unsigned_integer(own)
    stored = pa.int64() if own.bit_width == 64 else pa.int32()
    wide = array.cast(pa.uint64()) if is_unsigned else array.view(stored).cast(pa.int64())
    most = (1 << min(stored.bit_width, target.bit_width) - 1) - 1
    least = 0 if is_unsigned else -most - 1
    is_low = pc.less_equal(
        wide, pa.scalar(most, wide.type)
    )  # as a number alone, it would be one of 64 bits with a sign
    return pc.if_else(pc.and_(is_low, pc.greater_equal(wide, pa.scalar(least, wide.type))), wide, None).cast(target)


def _digits_fit(own: pa.Decimal128Type, node: TypeNode) -> bool:
    return bool(own.scale <= node.scale and own.precision - own.scale <= node.precision - node.scale)


def _clocks(array: pa.Array, reading: _Reading) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return microseconds on clocks of an array of INT96_BYTES, rounded down; a null has any."""
    pairs = np.zeros(len(array), dtype=[("nanos", "<i8"), ("day", "<i4")])
    present = np.asarray(array.is_valid())
    if present.any():
        stored = np.frombuffer(array.buffers()[1], dtype=pairs.dtype)[array.offset : array.offset + len(array)]
        pairs[present] = stored[present]
    pairs["day"][~present] = JULIAN_DAY_OF_1970
    moments = moments_of_julian_days(pairs["day"], pairs["nanos"])
    return instants_on_clocks(moments, reading.zone, julian=reading.julian_times, legacy=reading.legacy)


def _moments(array: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return microseconds, rounded down; instants are those of a clock in UTC."""
    stored = np.asarray(array.view(pa.int64()).fill_null(0), dtype=np.int64)
    unit = {"s": 1_000_000, "ms": 1000, "us": 1}.get(array.type.unit)
    return stored // 1000 if unit is None else stored * unit


def _numbers(values: np.ndarray[Any, Any], array: pa.Array, kind: pa.DataType) -> pa.Array:
    numbers = values.astype(np.int32 if kind == pa.date32() else np.int64)
    return pa.array(numbers, mask=np.asarray(array.is_null())).view(kind)


def _nested(array: pa.Array, node: TypeNode, reading: _Reading, *, is_int96: bool) -> pa.Array:
    own, target, kind = array.type, arrow_type(node), node.kind
    array = array.take(pa.array(np.arange(len(array))))  # without what lies before a slice, and below nulls
    present: Mask | None = np.asarray(array.is_valid()) if array.null_count else None
    if kind is Kind.STRUCT and pa.types.is_struct(own):
        names = [field.name for field in own]
        children = []
        for place, (name, child) in enumerate(zip(node.field_names, node.children, strict=True)):
            by_name = None if reading.by_position else _named(name, names)
            source = names[place] if reading.by_position and place < len(names) else by_name
            children.append(
                pa.nulls(len(array), arrow_type(child))
                if source is None
                else _array(array.field(names.index(source)), child, reading, is_int96=is_int96)
            )
        return pa.Array.from_buffers(target, len(array), [validity(present)], children=children)
    if kind is Kind.LIST and (pa.types.is_list(own) or pa.types.is_large_list(own)):
        items = _array(array.values, node.children[0], reading, is_int96=is_int96)
        return pa.Array.from_buffers(
            target, len(array), [validity(present), offsets_buffer(_lengths(array, present), present)], children=[items]
        )
    if kind is Kind.MAP and pa.types.is_map(own):
        keys, items = (
            _array(part, child, reading, is_int96=is_int96)
            for part, child in zip((array.keys, array.items), node.children, strict=True)
        )
        return map_array(keys, items, _lengths(array, present), present, target)
    raise RefusedError(f"it is {own} in the file, and the table's is {node}")


def _lengths(array: pa.Array, present: Mask | None) -> np.ndarray[Any, np.dtype[np.int64]]:
    lengths = np.diff(np.asarray(array.offsets)).astype(np.int64)
    return lengths if present is None else lengths[present]
