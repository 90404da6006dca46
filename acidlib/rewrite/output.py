"""What a result file is made of beside its rows: its options, the ACID footer metadata, and the proof of the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from acidlib.errors import CorruptError
from acidlib.model.generation import Generation
from acidlib.model.units import RewriteSettings
from acidlib.orc.proto import Calendar, Compression
from acidlib.orc.schema import TypeNode
from acidlib.orc.statistics_rules import StatisticsRules
from acidlib.orc.tail import JAVA_WRITER, ORC_14, ORC_135, ORC_517, Tail
from acidlib.orc.writer import FileOptions
from acidlib.rewrite.inputs import KEY_INDEX
from acidlib.rewrite.keys import Key

_CODECS = frozenset({Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD})
_T = TypeVar("_T")


def file_options(
    root: TypeNode, tails: Sequence[Tail], generation: Generation, settings: RewriteSettings
) -> FileOptions:
    """The result's options: codec and stride of most input bytes, the largest block, the lowest Java version.

    So as few stripes as possible have to be recoded; but a codec or stride that is stated in the settings wins over
    what the inputs have. Files without a row index do not count for the codec: Hive 3.1's minor compaction writes such,
    uncompressed, whatever the table says. The calendar is that of most bytes too.
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
    if "block_bytes" in stated:
        blocks.append(settings.block_bytes)
    return FileOptions(
        root=root,
        compression=codec,
        block_size=max(blocks, default=settings.block_bytes),
        stride=stride,
        writer_version=min([newest, *versions]),
        calendar=_calendar(tails),
        rules=StatisticsRules(generation=int(generation), writer_timezone="UTC"),
    )


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


def acid_metadata(last_keys: Iterable[Key], *, inserts: int, deletes: int) -> dict[str, bytes]:
    """The three entries that Hive's readers look for (Hive OrcRecordUpdater.KeyIndexBuilder, AcidStats)."""
    entries = "".join(f"{write_id},{bucket},{row_id};" for write_id, bucket, row_id in last_keys)
    return {
        "hive.acid.version": b"2",
        KEY_INDEX: entries.encode(),
        "hive.acid.stats": f"{inserts},0,{deletes}".encode(),
    }


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
