"""A result file beside its rows, in the order of its making: options, bloom filters, figures, the file, its proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from acidlib.datafiles import DataFiles, SinkFile, SourceFile
from acidlib.errors import CorruptError
from acidlib.model.names import Generation
from acidlib.model.units import (
    DataFile,
    FilterSize,
    JoinUnit,
    Key,
    PlannedAction,
    RewriteSettings,
    StripeAction,
    StripeFacts,
    Unit,
    UnitResult,
)
from acidlib.orc.alignment import Alignment
from acidlib.orc.bloom import filter_size, size_of
from acidlib.orc.proto import Calendar, Compression, Kind, StreamKind
from acidlib.orc.reader import CPP_WRITER, JAVA_WRITER, ORC_14, ORC_135, ORC_517, StripeReader, Tail, read_tail
from acidlib.orc.schema import ROW_COLUMN, TypeNode, row_struct
from acidlib.orc.writer import FileOptions
from acidlib.planning.units import plan_stripes
from acidlib.points import Point, passing
from acidlib.rewrite.deletes import DeleteEvents
from acidlib.rewrite.inputs import OpenInput, key_index
from acidlib.rewrite.keys import Keys, StripeKeys

_T = TypeVar("_T")
_CODECS = frozenset({Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD})
_BLOCKS_OF_A_COLUMN, _LEAST_ESTIMATE, _MOST_ESTIMATE = 20, 4 << 10, 256 << 10


def file_options(
    root: TypeNode, tails: Sequence[Tail], generation: Generation, settings: RewriteSettings
) -> FileOptions:
    """Return the result's options: codec and stride of most input bytes, the largest block, the lowest Java version.

    So as few stripes as possible have to be recoded; but a codec, stride or size of blocks that is stated in the
    settings wins over what the inputs have. Files without a row index do not count for the codec: Hive 3.1's minor
    compaction writes such, uncompressed, whatever the table says. The calendar is that of most bytes too.
    """
    indexed = [tail for tail in tails if tail.stride > 0]
    stated = settings.stated
    codec = Compression[settings.compression]
    if "compression" not in stated:
        codec = _most_bytes(((t.compression, t.length) for t in indexed if t.compression in _CODECS), codec)
    stride = settings.stride
    if "stride" not in stated:
        stride = _most_bytes(((tail.stride, tail.length) for tail in indexed), stride)
    newest = ORC_517 if generation is Generation.HIVE3 else ORC_14
    versions = [tail.writer_version for tail in tails if tail.writer == JAVA_WRITER and tail.writer_version >= ORC_135]
    blocks = [tail.block_size for tail in indexed if tail.compression is codec]
    return FileOptions(
        root=root,
        compression=codec,
        block_size=_block_size(root, blocks, settings),
        stride=stride,
        writer_version=min([newest, *versions]),
        calendar=_calendar(tails),
        generation=generation,
    )


def _block_size(root: TypeNode, inputs: Sequence[int], settings: RewriteSettings) -> int:
    """Return the bytes of the result's blocks: the most that an input has, unless less is stated.

    Where no input has any, and for a stated size, it is what Java's writer takes (`WriterImpl.getEstimatedBufferSize`):
    a reader holds a block of each stream, so a stripe is to have room for twenty of each column. Inputs that keep to
    what is stated may have larger blocks than that, and are copied.
    """
    size = settings.block_bytes
    if not settings.block_enforced:
        share = settings.stripe_bytes // (_BLOCKS_OF_A_COLUMN * sum(1 for _ in root.walk()))
        size = min(size, max(_LEAST_ESTIMATE, min(_MOST_ESTIMATE, 1 << (share - 1).bit_length())))
    if "block_bytes" in settings.stated:
        return max([size, *(block for block in inputs if block <= settings.block_bytes)])
    return max(inputs, default=size)


def _calendar(tails: Sequence[Tail]) -> int:
    """The calendar of most bytes. No calendar, as older writers leave it, means the hybrid one as well."""
    if _most_bytes(((tail.calendar == Calendar.PROLEPTIC_GREGORIAN, tail.length) for tail in tails), other=False):
        return Calendar.PROLEPTIC_GREGORIAN
    return max((tail.calendar for tail in tails if tail.calendar != Calendar.PROLEPTIC_GREGORIAN), default=0)


def _most_bytes(sizes: Iterable[tuple[_T, int]], other: _T) -> _T:
    """The value that goes with the largest sum of sizes; without any, the other one."""
    totals: Counter[_T] = Counter()
    for value, size in sizes:
        totals[value] += size
    return totals.most_common(1)[0][0] if totals else other


@dataclass(frozen=True, slots=True)
class FoundFilter:
    """A bloom filter of an input stripe: the column there, and whether readers may go by it under the result's footer.

    They may not by those of ORC's C++ writer: they lack values, of numbers in releases up to 1.7.0, which readers
    recognise by a footer that the result does not have (RecordReaderImpl.hasBadBloomFilters), and of TINYINT in all up
    to 2.3. Nor by the old kind BLOOM_FILTER beside BLOOM_FILTER_UTF8 in other stripes.
    """

    column: int
    good: bool


Filters = Mapping[int, FoundFilter | None]
"""The filter of each column of the result that a stripe's file has; None where the stripe has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputStripe:
    """An input stripe: the open file it lies in, what planning knows of it, and its filters by the result's columns."""

    file: OpenInput
    facts: StripeFacts
    filters: Filters = field(default_factory=dict)


def result_columns(alignment: Alignment, root: TypeNode, *, acid: bool) -> dict[int, int]:
    """The result's column of each column of a file that fills the row of `root`; of the id columns too with `acid`."""
    pairs = zip(alignment.walk(), row_struct(root).walk(), strict=True)
    columns = {part.source.column: node.column for part, node in pairs if part.source is not None}
    return columns | {column: column for column in range(ROW_COLUMN)} if acid else columns


def found_filters(reader: StripeReader, columns: Mapping[int, int]) -> Filters:
    """Return the filters of a stripe; `columns` as of `result_columns`."""
    trusted, kinds = reader.tail.writer != CPP_WRITER, reader.bloom_filters()
    return {
        result: FoundFilter(column, trusted and kinds[column] is StreamKind.BLOOM_FILTER_UTF8)
        if column in kinds
        else None
        for column, result in columns.items()
    }


def plan_actions(
    stripes: Sequence[InputStripe],
    options: FileOptions,
    settings: RewriteSettings,
    generation: Generation,
    *,
    split: Callable[[tuple[StripeFacts, ...]], tuple[StripeFacts, ...]] = tuple,
) -> tuple[tuple[StripeAction, ...], FileOptions]:
    """Return what becomes of the stripes, and the result's options with the sizes of its bloom filters.

    split  makes the facts of what is planned of those of whole stripes: of a rebalance these are parts of them
    """
    facts, filtered = plan_filters(stripes, options.root, settings)
    actions = plan_stripes(split(facts), settings)
    return actions, replace(options, filters=filter_sizes(stripes, filtered, actions, options, generation, settings))


def plan_filters(
    stripes: Sequence[InputStripe], root: TypeNode, settings: RewriteSettings
) -> tuple[tuple[StripeFacts, ...], frozenset[int]]:
    """The facts of the stripes, where one lacks filters with that as a reason against copying; columns with filters.

    A column of the result has filters when it has some, of whatever kind, in any of the stripes, or when the settings
    name it. `root`: the result's type tree.

    All stripes of a file have filters of the same columns, be they copied or recoded. Readers with Java's ORC 1.5 (Hive
    3.1) go by the filter of the stripe before where a stripe has none, and lose rows or fail by that; later ones take
    no notice of the statistics there (RecordReaderUtils.planIndexReading, SargApplier.pickRowGroups).
    """
    wanted = named_columns(root, settings.bloom_columns).union(
        column for stripe in stripes for column, found in stripe.filters.items() if found is not None
    )
    return tuple(_checked(stripe, wanted, root) for stripe in stripes), wanted


def _checked(stripe: InputStripe, wanted: frozenset[int], root: TypeNode) -> StripeFacts:
    # columns that its file does not have are added to a copy, with filters
    lacking = [column for column, found in stripe.filters.items() if column in wanted and not (found and found.good)]
    if stripe.facts.no_copy is not None or not lacking:
        return stripe.facts
    column = min(lacking)
    what = "no" if stripe.filters[column] is None else "an unsafe"
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


_FALSE_POSITIVES = {Generation.HIVE3: 0.05, Generation.HIVE4: 0.01}
"""OrcConf.BLOOM_FILTER_FPP of ORC 1.5, which Hive 3.1 has, and of 1.8, which Hive 4.0 has."""


def filter_sizes(
    stripes: Iterable[InputStripe],
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
        missing = {column: found for column, found in stripe.filters.items() if found and column not in sizes}
        if missing and stripe.file.tail.stride == stride:
            reader = stripe.file.stripe(stripe.facts.number)
            read = ((column, size_of(reader.bloom_filter_index(f.column), stride)) for column, f in missing.items())
            sizes |= {column: size for column, size in read if size is not None}
    return {column: sizes.get(column, default) for column in columns}


def result_of_actions(unit: Unit | JoinUnit, actions: Sequence[StripeAction], files: Sequence[OpenInput]) -> UnitResult:
    """The result of a unit of rows as far as it follows from its actions, whose stripes lie in `files`."""
    facts = [fact for action in actions for fact in action.stripes]
    copied = [action for action in actions if action.copy]
    rewritten = [action for action in actions if not action.copy]
    return UnitResult(
        directory=unit.directory,
        file_name=unit.file_name,
        bucket=unit.bucket,
        is_delete=False,
        path=None,
        length=0,
        rows_in=sum(fact.rows for fact in facts),
        rows_deleted=sum(fact.deleted for fact in facts),
        rows_aborted=sum(fact.aborted for fact in facts),
        rows_out=sum(fact.kept for fact in facts),
        bytes_copied=sum(action.length for action in copied),
        bytes_rewritten=sum(action.length for action in rewritten),
        stripes_copied=len(copied),
        stripes_rewritten=sum(len(action.stripes) for action in rewritten),
        actions=tuple(_shown(action, files) for action in actions),
    )


def _shown(action: StripeAction, files: Sequence[OpenInput]) -> PlannedAction:
    first = action.stripes[0]
    return PlannedAction(
        path=files[first.file].tail.name,
        first_stripe=first.number,
        stripes=len(action.stripes),
        copy=action.copy,
        bytes=action.length,
        rows=sum(stripe.rows for stripe in action.stripes),
        deleted=sum(stripe.deleted for stripe in action.stripes),
        aborted=sum(stripe.aborted for stripe in action.stripes),
        reason=action.reason,
    )


@contextmanager
def new_file(data: DataFiles, path: str, *, durable: bool = True) -> Iterator[SinkFile]:
    """A new data file, removed when the block raises; else durable, unless it lasts only until another is made."""
    file = data.create(path)
    passing(Point.CREATED)
    with removed_on_error(file):
        yield file
        file.close(durable=durable)
        passing(Point.CLOSED)


@contextmanager
def removed_on_error(file: SinkFile) -> Iterator[None]:
    """Remove the file when the block raises."""
    try:
        yield
    except BaseException:
        file.abort()
        raise


def read_back(
    path: str,
    length: int,
    data: DataFiles,
    copied: set[int],
    last_keys: Sequence[Key],
    first_keys: Sequence[Key],
    deleted: Keys,
    *,
    rows_in: int,
    rows_deleted: int,
    rows_aborted: int,
    matched: int,
    where: str,
    events: DeleteEvents | None = None,
) -> Proof:
    """Read a result of this run as it lies there, and return what has to hold of it.

    Of a copied stripe the bounds of its keys are compared, of others every key: against the one before, against the
    delete set, and the last one against its key-index entry. For delete events every key has to be the expected one.
    """
    source = data.open(path, length)
    try:
        tail = read_tail(source)
        entries = key_index(tail) or ()
        file = result_input(source, tail, directory="delete_delta_" if events is not None else "")
        ascending = entries == tuple(last_keys)
        found_again = 0
        before: Key | None = None
        offset = 0
        for number, stripe in enumerate(tail.stripes):
            if number in copied:
                ascending &= before is None or before < first_keys[number]
            else:
                ids = StripeKeys(file, number).ids()
                keys, current = ids.keys, ids.current
                if events is not None:
                    part = slice(offset, offset + stripe.rows)
                    ascending &= keys.equals(events.keys.select(part)) and np.array_equal(current, events.current[part])
                else:
                    ascending &= keys.ascending() and (before is None or before < keys.key(0))
                    found_again += int(np.count_nonzero(keys.matches(deleted)))
                ascending &= keys.key(-1) == last_keys[number]
            before = last_keys[number]
            offset += stripe.rows
        return Proof(
            rows_in=rows_in,
            rows_deleted=rows_deleted,
            rows_aborted=rows_aborted,
            rows_out=tail.rows,
            matched=matched,
            found_again=found_again,
            ascending=bool(ascending),
            stripes=len(tail.stripes),
            index_entries=len(entries),
            where=where,
        )
    finally:
        source.close()


def result_input(source: SourceFile, tail: Tail, *, directory: str) -> OpenInput:
    """Return a finished file as an input whose statistics do not count, so that its id columns are decoded."""
    return OpenInput(
        file=DataFile(path=source.name, directory=directory, length=source.length, bucket=0),
        source=source,
        tail=tail,
        acid=True,
        first_row=0,
        ranges_true=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What has to hold for a bucket before it may be published.

    found_again  rows of the result whose keys are in the delete set
    matched      rows of the inputs whose keys are in the delete set
    ascending    keys of the result ascend, strictly for rows
    """

    rows_in: int
    rows_deleted: int
    rows_aborted: int
    rows_out: int
    matched: int
    found_again: int
    ascending: bool
    stripes: int
    index_entries: int
    where: str

    def check(self) -> None:
        """Raise CorruptError naming the first part that does not hold."""
        expected = self.rows_in - self.rows_deleted - self.rows_aborted
        if expected != self.rows_out:
            raise self._broken(
                f"{self.rows_in} rows in less {self.rows_deleted} deleted less {self.rows_aborted} aborted are not "
                f"{self.rows_out} rows out"
            )
        if self.found_again:
            raise self._broken(f"{self.found_again} rows of the result are in the delete set")
        if self.matched != self.rows_deleted:
            raise self._broken(f"{self.matched} rows are in the delete set and {self.rows_deleted} were deleted")
        if self.stripes != self.index_entries:
            raise self._broken(f"it has {self.stripes} stripes and {self.index_entries} key-index entries")
        if not self.ascending:
            raise self._broken("its keys do not ascend")

    def _broken(self, reason: str) -> CorruptError:
        return CorruptError(f"Cannot publish {self.where}: because {reason}; nothing was changed")
