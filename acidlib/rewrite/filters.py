"""Which columns of a result have bloom filters, and how large they are.

All stripes of a file have filters of the same columns, be they copied or recoded. Readers with Java's ORC 1.5 (Hive
3.1) go by the filter of the stripe before where a stripe has none, and lose rows or fail by that; later ones take no
notice of the statistics there (RecordReaderUtils.planIndexReading, SargApplier.pickRowGroups).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from acidlib.model.generation import Generation
from acidlib.model.units import FilterSize, RewriteSettings, StripeAction, StripeFacts
from acidlib.orc.alignment import Alignment
from acidlib.orc.bloom import filter_size, size_of
from acidlib.orc.proto import Kind, StreamKind
from acidlib.orc.schema import ROW_COLUMN, TypeNode, row_struct
from acidlib.orc.stripe import StripeReader
from acidlib.orc.tail import CPP_WRITER
from acidlib.orc.writer import FileOptions
from acidlib.rewrite.inputs import OpenInput

_FALSE_POSITIVES = {Generation.HIVE3: 0.05, Generation.HIVE4: 0.01}
"""OrcConf.BLOOM_FILTER_FPP of ORC 1.5, which Hive 3.1 has, and of 1.8, which Hive 4.0 has."""


@dataclass(frozen=True, slots=True)
class FoundFilter:
    """A bloom filter of an input stripe: the column there, and whether readers may go by it under the result's footer.

    They may not by those of ORC's C++ writer: they lack values, of numbers in releases up to 1.7.0, which readers
    recognise by a footer that the result does not have (RecordReaderImpl.hasBadBloomFilters), and of TINYINT in all up
    to 2.3. Nor by the old kind BLOOM_FILTER beside BLOOM_FILTER_UTF8 in other stripes.
    """

    column: int
    good: bool


@dataclass(frozen=True, slots=True)
class StripeFilters:
    """The filters of an input stripe, by the result's column; `columns`: all of the result that its file has."""

    columns: frozenset[int]
    found: Mapping[int, FoundFilter]


NO_FILTERS = StripeFilters(frozenset(), {})


class FilteredStripe(Protocol):
    """An input stripe with its filters."""

    @property
    def file(self) -> OpenInput:
        """The open file it lies in."""

    @property
    def facts(self) -> StripeFacts:
        """What planning knows of it."""

    @property
    def filters(self) -> StripeFilters:
        """Those of its filters whose columns the result has."""


def result_columns(alignment: Alignment, root: TypeNode, *, acid: bool) -> dict[int, int]:
    """The result's column of each column of a file that fills the row of `root`; of the id columns too with `acid`."""
    pairs = zip(alignment.walk(), row_struct(root).walk(), strict=True)
    columns = {part.source.column: node.column for part, node in pairs if part.source is not None}
    return columns | {column: column for column in range(ROW_COLUMN)} if acid else columns


def found_filters(reader: StripeReader, columns: Mapping[int, int]) -> StripeFilters:
    """The filters of a stripe; `columns` as of `result_columns`."""
    trusted = reader.tail.writer != CPP_WRITER
    found = {
        columns[column]: FoundFilter(column, trusted and kind is StreamKind.BLOOM_FILTER_UTF8)
        for column, kind in reader.bloom_filters().items()
        if column in columns
    }
    return StripeFilters(frozenset(columns.values()), found)


def plan_filters(
    stripes: Sequence[FilteredStripe], root: TypeNode, settings: RewriteSettings
) -> tuple[tuple[StripeFacts, ...], frozenset[int]]:
    """The facts of the stripes, where one lacks filters with that as a reason against copying; columns with filters.

    A column of the result has filters when it has some, of whatever kind, in any of the stripes, or when the settings
    name it. `root`: the result's type tree.
    """
    wanted = named_columns(root, settings.bloom_columns).union(*(stripe.filters.found for stripe in stripes))
    return tuple(_checked(stripe, wanted, root) for stripe in stripes), wanted


def _checked(stripe: FilteredStripe, wanted: frozenset[int], root: TypeNode) -> StripeFacts:
    filters = stripe.filters
    # columns that its file does not have are added to a copy, with filters
    lacking = (wanted & filters.columns) - {column for column, found in filters.found.items() if found.good}
    if stripe.facts.no_copy is not None or not lacking:
        return stripe.facts
    column = min(lacking)
    what = "an unsafe" if column in filters.found else "no"
    return replace(stripe.facts, no_copy=f"{what} bloom filter of column {_name(root, column)}")


def _name(root: TypeNode, column: int) -> str:
    """What a user calls the column, or the one around it."""
    for parent in (row_struct(root), root):
        for name, child in zip(parent.field_names, parent.children, strict=True):
            if child.column <= column < child.column + child.columns:
                return name
    return "0"


def named_columns(root: TypeNode, names: str) -> frozenset[int]:
    """The columns that `orc.bloom.filter.columns` means, with all below them (OrcUtils.includeColumns).

    Names are of the fields of the row, whatever their case; `a.b` is a field of the struct `a`. Unknown ones count for
    nothing.
    """
    if names == "*":
        return frozenset(node.column for node in root.walk())
    fields = (_field(row_struct(root), name.strip().lower().split(".")) for name in names.split(","))
    return frozenset(node.column for field in fields if field is not None for node in field.walk())


def _field(node: TypeNode, path: list[str]) -> TypeNode | None:
    if not path or node.kind is not Kind.STRUCT:
        return node
    for name, child in zip(node.field_names, node.children, strict=True):
        if name.lower() == path[0]:
            return _field(child, path[1:])
    return None


def filter_sizes(
    stripes: Iterable[FilteredStripe],
    columns: frozenset[int],
    actions: Iterable[StripeAction],
    options: FileOptions,
    generation: Generation,
    settings: RewriteSettings,
) -> dict[int, FilterSize]:
    """The size of the filters of each column for the result's row groups; empty where no column is encoded.

    By the settings' share of false positives; without one as in the first stripe of the same stride that has filters
    of the column, else by the default of Hive. Raises CorruptError for filters that cannot be read.
    """
    if not columns or all(action.copy and action.stripes[0].regroup is None for action in actions):
        return {}
    stride = options.stride
    default = filter_size(stride, settings.bloom_fpp or _FALSE_POSITIVES[generation])
    sizes: dict[int, FilterSize] = {}
    for stripe in stripes if settings.bloom_fpp is None else ():
        missing = {column: found for column, found in stripe.filters.found.items() if column not in sizes}
        if missing and stripe.file.tail.stride == stride:
            reader = stripe.file.stripe(stripe.facts.number)
            read = ((column, size_of(reader.bloom_filter_index(f.column), stride)) for column, f in missing.items())
            sizes |= {column: size for column, size in read if size is not None}
    return {column: sizes.get(column, default) for column in columns}
