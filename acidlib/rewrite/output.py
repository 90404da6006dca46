"""What a result file needs beside its rows: options, the stripes of its inputs, bloom filters, and its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from acidlib.acid.names import Generation, Reader
from acidlib.datafiles import DataFiles, SinkFile
from acidlib.memory import DEFAULT_MEMORY, Memory
from acidlib.model.units import (
    FilterSize,
    JoinUnit,
    PlannedAction,
    RewriteSettings,
    StripeAction,
    StripeFacts,
    Unit,
    UnitResult,
)
from acidlib.orc.bloom import filter_size, size_of
from acidlib.orc.columns import STRING_KINDS
from acidlib.orc.proto import Calendar, Compression, Kind, StreamKind
from acidlib.orc.reader import CPP_WRITER, JAVA_WRITER, MAX_SLOTS, ORC_14, ORC_135, ORC_517, StripeReader, Tail
from acidlib.orc.schema import TypeNode, row_struct
from acidlib.orc.statistics import decoded_size
from acidlib.orc.writer import FileOptions
from acidlib.planning.units import plan_stripes
from acidlib.points import Point, reach
from acidlib.rows.files import OpenInput
from acidlib.rows.row_ids import StripeKeys

_T = TypeVar("_T")
_CODECS = frozenset({Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD})
_BLOCKS_OF_A_COLUMN, _MIN_ESTIMATE, _MAX_ESTIMATE = 20, 4 << 10, 256 << 10


def file_options(
    root: TypeNode,
    tails: Sequence[Tail],
    reader: Reader,
    settings: RewriteSettings,
    memory: Memory = DEFAULT_MEMORY,
) -> FileOptions:
    """Return the result's options: codec, stride and calendar of most input bytes, largest block, lowest Java version.

    With these as few stripes as possible have to be recoded; but a codec, stride or block size that the settings state
    wins over the inputs'. Files without a row index do not count for the codec: Hive 3.1's minor compaction writes such
    files uncompressed, even if the table has a codec.
    """
    indexed = [tail for tail in tails if tail.stride > 0]
    stated = settings.stated
    codec = Compression[settings.compression]
    if "compression" not in stated:
        codec = _most_bytes(((t.compression, t.length) for t in indexed if t.compression in _CODECS), codec)
    stride = settings.stride
    if "stride" not in stated:
        stride = _most_bytes(((tail.stride, tail.length) for tail in indexed), stride)
    newest = ORC_517 if reader is Generation.HIVE3 else ORC_14
    versions = [tail.writer_version for tail in tails if tail.writer == JAVA_WRITER and tail.writer_version >= ORC_135]
    blocks = [tail.block_size for tail in indexed if tail.compression is codec]
    # no calendar, as older writers leave it, means the hybrid one as well
    proleptic = Calendar.PROLEPTIC_GREGORIAN
    calendar: int = proleptic
    if not _most_bytes(((tail.calendar == proleptic, tail.length) for tail in tails), other=False):
        calendar = max((tail.calendar for tail in tails if tail.calendar != proleptic), default=0)
    return FileOptions(
        root=root,
        compression=codec,
        block_size=_block_size(root, blocks, settings),
        stride=stride,
        writer_version=min([newest, *versions]),
        calendar=calendar,
        reader=reader,
        memory=memory,
    )


def _block_size(root: TypeNode, inputs: Sequence[int], settings: RewriteSettings) -> int:
    """Return the bytes of the result's blocks: the most that an input has, unless the settings state a smaller size.

    Where no input has any, and for a stated size, it is the one of Java's writer (`WriterImpl.getEstimatedBufferSize`):
    a reader holds a block of each stream, so a stripe has room for twenty of each column. Inputs within the stated size
    may have larger blocks than that, and are copied.
    """
    size = settings.block_bytes
    if not settings.block_enforced:
        share = settings.stripe_bytes // (_BLOCKS_OF_A_COLUMN * sum(1 for _ in root.walk()))
        size = min(size, max(_MIN_ESTIMATE, min(_MAX_ESTIMATE, 1 << (share - 1).bit_length())))
    if "block_bytes" in settings.stated:
        return max([size, *(block for block in inputs if block <= settings.block_bytes)])
    return max(inputs, default=size)


def _most_bytes(sizes: Iterable[tuple[_T, int]], other: _T) -> _T:
    """Return the value with the largest sum of sizes, or `other` where there is none."""
    totals: Counter[_T] = Counter()
    for value, size in sizes:
        totals[value] += size
    return totals.most_common(1)[0][0] if totals else other


@dataclass(frozen=True, slots=True)
class InputFilter:
    """A bloom filter of an input stripe: its column in the file, and whether it is safe under the result's footer.

    Filters of ORC's C++ writer are not: they lack values, of numbers in releases up to 1.7.0, which readers recognise
    by a footer that the result does not have (RecordReaderImpl.hasBadBloomFilters), and of TINYINT in all up to 2.3.
    Nor is the old kind BLOOM_FILTER beside BLOOM_FILTER_UTF8 in other stripes.
    """

    column: int
    safe: bool


Filters = Mapping[int, InputFilter | None]
"""The filter of each column of the result that a stripe's file has; None where the stripe has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputStripe:
    """An input stripe: its keys and open file, the facts for planning, and its filters by the result's columns."""

    keys: StripeKeys
    facts: StripeFacts
    filters: Filters = field(default_factory=dict)

    @property
    def file(self) -> OpenInput:
        """The open file that it lies in."""
        return self.keys.file


def input_stripe(
    keys: StripeKeys,
    options: FileOptions,
    index: int,
    columns: Mapping[int, int],
    *,
    no_copy: str | None,
    changes: str | None = None,
    deleted: int = 0,
    aborted: int = 0,
) -> InputStripe:
    """Return a stripe with the facts for planning.

    index    number of its file among the inputs of the unit
    columns  the result's column for each column of the file that the result takes with its bloom filters
    changes  of the columns of a copy, as words for people
    deleted, aborted  numbers of rows to drop
    """
    # read even if it will be copied: readers expect no unknown kinds of streams below the result's footer
    reader = keys.file.stripe(keys.number)
    has_timestamps = any(node.kind is Kind.TIMESTAMP for node in options.root.walk())
    facts = StripeFacts(
        file=index,
        number=keys.number,
        rows=keys.rows,
        length=reader.stripe.length,
        deleted=deleted,
        aborted=aborted,
        timezone=reader.timezone if has_timestamps else "UTC",
        no_copy=no_copy,
        column_changes=changes,
        decoded=_largest_column(keys, reader),
    )
    return InputStripe(keys=keys, facts=facts, filters=input_filters(reader, columns))


_VALUE = 8
"""Bytes of a decoded number."""
_MAX_TEXT_CHARACTERS = 48
"""Bytes of the text of a number, day or DECIMAL that a column is converted to, with some to spare."""


def _largest_column(keys: StripeKeys, reader: StripeReader) -> int:
    """Return about how many bytes of memory the largest of a stripe's columns takes, as the result has it.

    Without statistics, which alone tell how long the texts of dictionaries are together, a column has at least the
    bytes of its streams; so with those of Hive 3.1's minor compaction, which are false and without a stride. Others
    that are false have a joined stripe refused when it is made.
    """
    file, rows, tail = keys.file, keys.rows, keys.file.tail
    nodes = file.row.children
    statistics = tail.stripe_statistics[keys.number] if tail.stripe_statistics and tail.stride else ()
    if not statistics:
        streams = (reader.streams(node.column, index=False) for top in nodes for node in top.walk())
        return _VALUE * rows + max((length for own in streams for _, _, length in own), default=0)
    if file.aligned is None:
        return max((decoded_size(node, statistics, rows) for node in nodes), default=0)
    sizes = []
    for part in file.aligned.children:
        size = rows if part.source is None else decoded_size(part.source, statistics, rows)
        for below in () if part.copyable else part.walk():
            if below.source is not None and below.converted is not None and below.target.kind in STRING_KINDS:
                length = max(_MAX_TEXT_CHARACTERS, below.target.maximum_length)
                size += length * statistics[below.source.column].number_of_values
        sizes.append(size)
    return max(sizes, default=0)


def input_filters(reader: StripeReader, columns: Mapping[int, int]) -> Filters:
    """Return the filters of a stripe; `columns` as for `input_stripe`."""
    trusted, kinds = reader.tail.writer != CPP_WRITER, reader.bloom_filters()
    return {
        result: InputFilter(column, trusted and kinds[column] is StreamKind.BLOOM_FILTER_UTF8)
        if column in kinds
        else None
        for column, result in columns.items()
    }


def plan_actions(
    stripes: Sequence[InputStripe], options: FileOptions, settings: RewriteSettings, reader: Reader
) -> tuple[tuple[StripeAction, ...], FileOptions]:
    """Return the actions on the stripes, and the result's options with the sizes of its bloom filters."""
    facts, filtered = plan_filters(stripes, options.root, settings)
    # a column of stripes that are joined is held twice, in parts and whole; a reader counts its bytes in 31 bits
    memory = min((stripe.file.source.memory.limit for stripe in stripes), default=0)
    actions = plan_stripes(facts, settings, most_decoded=min(memory, MAX_SLOTS) // 2)
    return actions, replace(options, filters=filter_sizes(stripes, filtered, actions, options, reader, settings))


def plan_filters(
    stripes: Sequence[InputStripe], root: TypeNode, settings: RewriteSettings
) -> tuple[tuple[StripeFacts, ...], frozenset[int]]:
    """Return the facts of the stripes, with a lack of filters as a reason against copying, and columns with filters.

    A column of the result has filters when any of the stripes has some of it, of any kind, or when the settings name
    it. `root`: the result's type tree.

    All stripes of a file have filters of the same columns, be they copied or recoded. Where a stripe has none, readers
    with Java's ORC 1.5 (Hive 3.1) use the filter of the stripe before it, and lose rows or fail by that; later ones
    ignore the statistics there (RecordReaderUtils.planIndexReading, SargApplier.pickRowGroups).
    """
    filtered = named_columns(root, settings.bloom_columns).union(
        column for stripe in stripes for column, own in stripe.filters.items() if own is not None
    )
    planned = []
    for stripe in stripes:
        facts = stripe.facts
        # columns that its file does not have are added to a copy, with filters
        lacking = [column for column, own in stripe.filters.items() if column in filtered and not (own and own.safe)]
        if facts.no_copy is None and lacking:
            column = min(lacking)
            fault = "no" if stripe.filters[column] is None else "an unsafe"
            facts = replace(facts, no_copy=f"{fault} bloom filter of column {_name(root, column)}")
        planned.append(facts)
    return tuple(planned), filtered


def _name(root: TypeNode, column: int) -> str:
    """Return the name of the column for users, or of the column around it."""
    for parent in (row_struct(root), root):
        for name, child in zip(parent.field_names, parent.children, strict=True):
            if child.column <= column < child.column + child.columns:
                return name
    return "0"


def named_columns(root: TypeNode, names: str) -> frozenset[int]:
    """Return the columns that `orc.bloom.filter.columns` names, with all below them (OrcUtils.includeColumns).

    Names are of the fields of the row, in any case; `a.b` is a field of the struct `a`. Unknown names are ignored.
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


_USUAL_STRIDE = 10_000
_FALSE_POSITIVES = {Generation.HIVE3: 0.05, Generation.HIVE4: 0.01}
"""OrcConf.BLOOM_FILTER_FPP of ORC 1.5, which Hive 3.1 has, and of 1.8, which Hive 4.0 has."""


def filter_sizes(
    stripes: Iterable[InputStripe],
    columns: frozenset[int],
    actions: Iterable[StripeAction],
    options: FileOptions,
    reader: Reader,
    settings: RewriteSettings,
) -> dict[int, FilterSize]:
    """Return the size of the filters of each column for the result's row groups; empty where no column is encoded.

    It follows from the settings' share of false positives. Without one it is the size in the first stripe of the same
    stride that has filters of the column, else the one by Hive's default share. A stride beyond the usual one counts as
    far as there are rows: an input may state any. Raises CorruptError for filters that cannot be read.
    """
    encoded = [action for action in actions if not action.copy or action.stripes[0].column_changes is not None]
    if not columns or not encoded:
        return {}
    stride, most = options.stride, max(row_counts([action])[0] for action in encoded)
    rows = min(stride, max(_USUAL_STRIDE, most))
    default = filter_size(rows, settings.bloom_fpp or _FALSE_POSITIVES[reader])
    sizes: dict[int, FilterSize] = {}
    for stripe in stripes if settings.bloom_fpp is None else ():
        missing = {column: own for column, own in stripe.filters.items() if own and column not in sizes}
        if missing and stripe.file.tail.stride == stride:
            opened = stripe.file.stripe(stripe.facts.number)
            read = ((column, size_of(opened.bloom_filter_index(own.column), rows)) for column, own in missing.items())
            sizes |= {column: size for column, size in read if size is not None}
    return {column: sizes.get(column, default) for column in columns}


def row_counts(actions: Iterable[StripeAction]) -> tuple[int, int, int]:
    """Return the rows of all stripes, and how many of them are deleted and aborted."""
    facts = [fact for action in actions for fact in action.stripes]
    return sum(fact.rows for fact in facts), sum(fact.deleted for fact in facts), sum(fact.aborted for fact in facts)


def new_result(unit: Unit | JoinUnit) -> UnitResult:
    """Return the result of a unit without a file, rows or events."""
    return UnitResult(
        directory=unit.directory, file_name=unit.file_name, bucket=unit.bucket, is_delete=False, path=None, length=0
    )


def result_of_actions(unit: Unit | JoinUnit, actions: Sequence[StripeAction], files: Sequence[OpenInput]) -> UnitResult:
    """Return the result of a unit of rows as far as it follows from its actions, whose stripes lie in `files`."""
    rows, deleted, aborted = row_counts(actions)
    copied = [action for action in actions if action.copy]
    rewritten = [action for action in actions if not action.copy]
    planned = []
    for action in actions:
        first = action.stripes[0]
        action_rows, action_deleted, action_aborted = row_counts([action])
        planned.append(
            PlannedAction(
                file=files[first.file].tail.name,
                first_stripe=first.number,
                stripes=len(action.stripes),
                action="copy" if action.copy else "rewrite",
                bytes=action.length,
                rows=action_rows,
                deleted=action_deleted,
                aborted=action_aborted,
                reason=action.reason,
            )
        )
    return replace(
        new_result(unit),
        rows_in=rows,
        rows_deleted=deleted,
        rows_aborted=aborted,
        rows_out=rows - deleted - aborted,
        bytes_copied=sum(action.length for action in copied),
        bytes_rewritten=sum(action.length for action in rewritten),
        stripes_copied=len(copied),
        stripes_rewritten=sum(len(action.stripes) for action in rewritten),
        actions=tuple(planned),
    )


@contextmanager
def new_file(data: DataFiles, path: str, *, durable: bool = True) -> Iterator[SinkFile]:
    """Create a data file; it is removed when the block raises, else closed.

    durable  False for a file that lasts only until another is made of it
    """
    file = data.create(path)
    reach(Point.CREATED)
    with removed_on_error(file):
        yield file
        file.close(durable=durable)
        reach(Point.CLOSED)


@contextmanager
def removed_on_error(file: SinkFile) -> Iterator[None]:
    """Remove the file when the block raises."""
    try:
        yield
    except BaseException:
        file.abort()
        raise
