"""The rows of one bucket: what is known of each stripe, and which may be copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acidlib.errors import RefusedError
from acidlib.model.units import StripeFacts
from acidlib.model.writeids import ValidWriteIdList
from acidlib.orc.alignment import Alignment, conversions
from acidlib.orc.column import Mask
from acidlib.orc.proto import GREGORIAN_START_DAYS, Calendar, Compression, Kind
from acidlib.orc.schema import TypeNode
from acidlib.orc.tail import JAVA_WRITER, ORC_135, Tail
from acidlib.orc.writer import FileOptions
from acidlib.rewrite.filters import NO_FILTERS, StripeFilters, found_filters, result_columns
from acidlib.rewrite.graft import regrouped
from acidlib.rewrite.inputs import OpenInput
from acidlib.rewrite.keys import Keys
from acidlib.rewrite.recode import walk_timestamps
from acidlib.rewrite.stripe_keys import StripeKeys, aborted_rows

_CALENDAR_KINDS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStripe:
    """One input stripe of a bucket with its facts, and those of its bloom filters whose columns the result has."""

    keys: StripeKeys
    file: OpenInput
    alignment: Alignment
    facts: StripeFacts
    filters: StripeFilters = NO_FILTERS


def row_stripes(
    files: Sequence[OpenInput],
    alignments: Sequence[Alignment],
    deleted: Keys,
    write_ids: ValidWriteIdList,
    options: FileOptions,
) -> tuple[RowStripe, ...]:
    """Every stripe of the inputs in key order, with what has to go and whether it may be copied.

    Raises RefusedError when the keys of two stripes interleave or a stripe holds what is not understood, CorruptError
    for rows in the wrong bucket.
    """
    zones = any(True for _ in walk_timestamps(options.root))
    found = []
    for index, (file, alignment) in enumerate(zip(files, alignments, strict=True)):
        columns = result_columns(alignment, options.root, acid=file.acid)
        for number, stripe in enumerate(file.tail.stripes):
            if not stripe.rows:
                continue
            # read even if it will be copied: readers expect no unknown kinds of streams below the result's footer
            reader = file.stripe(number)
            keys = StripeKeys(file, number)
            keys.check()
            check_calendar(file, keys, alignment, options)
            deleted_rows, aborted = dropped_rows(keys, deleted, write_ids)
            regroup = regrouped(file, number, alignment, reader)
            facts = StripeFacts(
                file=index,
                number=number,
                rows=stripe.rows,
                length=stripe.length,
                deleted=deleted_rows,
                aborted=aborted,
                timezone=reader.timezone if zones else "UTC",
                no_copy=why_not_copied(file, keys, alignment, options, regroup),
                regroup=regroup,
            )
            keys.key_range()
            keys.forget()
            filters = found_filters(reader, columns)
            found.append(RowStripe(keys=keys, file=file, alignment=alignment, facts=facts, filters=filters))
    return tuple(found)


def dropped_rows(stripe: StripeKeys, deleted: Keys, write_ids: ValidWriteIdList) -> tuple[int, int]:
    """How many rows of a stripe are deleted, and how many are of aborted write ids (these count only as aborted)."""
    deleted_rows, aborted = row_masks(stripe, deleted, write_ids)
    aborted_count = 0 if aborted is None else int(np.count_nonzero(aborted))
    if deleted_rows is None:
        return 0, aborted_count
    return int(np.count_nonzero(deleted_rows if aborted is None else deleted_rows & ~aborted)), aborted_count


def row_masks(stripe: StripeKeys, deleted: Keys, write_ids: ValidWriteIdList) -> tuple[Mask | None, Mask | None]:
    """Per row whether it is in the delete set, and whether it is aborted; None where no row is."""
    aborted = aborted_rows(stripe, write_ids)
    if not len(deleted):
        return None, aborted
    near = deleted.between(*stripe.key_range())
    if not len(near):
        return None, aborted
    keys = stripe.ids().keys
    if not keys.ascending():
        raise RefusedError(
            f"Cannot compact stripe {stripe.number} of {stripe.file.tail.name}: its keys do not ascend; INSERT "
            "OVERWRITE in Hive writes the table or partition anew"
        )
    deleted_rows = keys.matches(near)
    return (deleted_rows if deleted_rows.any() else None), aborted


def kept_rows(deleted: Mask | None, aborted: Mask | None) -> Mask | None:
    """Per row whether it stays, by the masks of `row_masks`; None where all do."""
    dropped = [mask for mask in (deleted, aborted) if mask is not None]
    return ~np.logical_or.reduce(dropped) if dropped else None


def why_not_copied(
    file: OpenInput, keys: StripeKeys, alignment: Alignment, options: FileOptions, regroup: str | None
) -> str | None:
    """The one predicate of splicing: None when the stripe's bytes may stand under the result's footer.

    regroup  what could be done about its columns (`regrouped`), if it can be copied so
    """
    if regroup is None and not file.acid:
        return "rows without ACID columns"
    if regroup is None and not alignment.copyable:
        changed = conversions(alignment)
        return "other columns than the table has now" if changed is None else f"values to convert: {changed}"
    return container_difference(file.tail, options, statistics_true=regroup is not None or keys.statistics_true)


def container_difference(tail: Tail, options: FileOptions, *, statistics_true: bool) -> str | None:
    """Why no stripe of a file may stand under the result's footer, whatever its columns are; None when it may.

    statistics_true  whether those of the stripe in question may be believed
    """
    if tail.compression is not options.compression:
        return f"compressed with {tail.compression.name}, not {options.compression.name}"
    if tail.compression is not Compression.NONE and tail.block_size > options.block_size:
        return f"compression blocks of {tail.block_size:,} bytes, above {options.block_size:,}"
    if tail.stride != options.stride:
        return "no row index" if tail.stride == 0 else f"row index stride {tail.stride}, not {options.stride}"
    if tail.version != (0, 12):
        return "file version 0.11"
    if not statistics_true:
        return "no true statistics"
    if tail.writer == JAVA_WRITER and tail.writer_version < ORC_135:
        return f"writer version {tail.writer_version}, whose timestamp statistics are in local time"
    return None


def check_calendar(file: OpenInput, keys: StripeKeys, alignment: Alignment, options: FileOptions) -> None:
    """Refuse dates on which the stripe's calendar and the result's differ: days would have to be converted.

    From 1582-10-15 on both agree. A column without true bounds may hold anything.
    """
    if _proleptic(file.tail.calendar) == _proleptic(options.calendar):
        return
    for node in (part.source for part in alignment.walk() if part.source is not None):
        if node.kind in _CALENDAR_KINDS and not (keys.statistics_true and _modern(file, keys.number, node)):
            raise RefusedError(
                f"Cannot compact stripe {keys.number} of {file.tail.name}: its column {node.column} may hold dates "
                "before 1582-10-15 in another calendar than the rest of the table; leave it to Hive's own compactor"
            )


def _proleptic(calendar: int) -> bool:
    # no calendar (older writers) means the hybrid one
    return calendar == Calendar.PROLEPTIC_GREGORIAN


def _modern(file: OpenInput, number: int, node: TypeNode) -> bool:
    statistics = file.tail.stripe_statistics[number][node.column]
    if not statistics.number_of_values:
        return True
    if node.kind is Kind.DATE:
        dates = statistics.date_statistics
        return bool(dates.HasField("minimum") and dates.minimum >= GREGORIAN_START_DAYS)
    times = statistics.timestamp_statistics
    return bool(times.HasField("minimum_utc") and times.minimum_utc >= GREGORIAN_START_DAYS * 86_400_000)
