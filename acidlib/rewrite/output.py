"""A result file beside its rows: that it is there whole or not at all, its options, its figures, and its proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from acidlib.errors import CorruptError
from acidlib.model.generation import Generation
from acidlib.model.units import JoinUnit, PlannedAction, RewriteSettings, StripeAction, Unit, UnitResult
from acidlib.orc.proto import Calendar, Compression
from acidlib.orc.schema import TypeNode
from acidlib.orc.source import DataFiles, SinkFile
from acidlib.orc.statistics_rules import StatisticsRules
from acidlib.orc.tail import JAVA_WRITER, ORC_14, ORC_135, ORC_517, Tail
from acidlib.orc.writer import FileOptions
from acidlib.points import Point, passing
from acidlib.rewrite.inputs import OpenInput

_CODECS = frozenset({Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD})
_BLOCKS_OF_A_COLUMN, _LEAST_ESTIMATE, _MOST_ESTIMATE = 20, 4 << 10, 256 << 10
_T = TypeVar("_T")


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
        rules=StatisticsRules(generation=int(generation), writer_timezone="UTC"),
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
