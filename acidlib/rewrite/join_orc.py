"""Joining ORC files without ACID columns: stripes copied, small ones joined, under one footer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from acidlib.errors import CorruptError
from acidlib.model.units import JoinUnit, StripeAction, StripeFacts
from acidlib.orc.column import Column
from acidlib.orc.encode import EncodedColumn, encode_column
from acidlib.orc.schema import TypeNode
from acidlib.orc.source import DataFiles, SinkFile
from acidlib.orc.statistics import stripe_statistics_are_true
from acidlib.orc.stripe import StripeReader
from acidlib.orc.tail import read_tail
from acidlib.orc.transform import concat_columns
from acidlib.orc.writer import FileOptions, OrcWriter
from acidlib.planning.stripes import plan_stripes
from acidlib.rewrite.filters import StripeFilters, filter_sizes, found_filters, plan_filters
from acidlib.rewrite.graft import copy_unchanged
from acidlib.rewrite.inputs import OpenInput
from acidlib.rewrite.output import file_options
from acidlib.rewrite.recode import encoding_options, group_bounds, walk_timestamps
from acidlib.rewrite.rows import container_difference

Actions = tuple[StripeAction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stripe:
    """One input stripe with its facts and bloom filters."""

    file: OpenInput
    facts: StripeFacts
    filters: StripeFilters


def plan_orc(unit: JoinUnit, inputs: Sequence[OpenInput]) -> tuple[FileOptions, Actions]:
    """The options of the result, and what becomes of each stripe."""
    tails = [file.tail for file in inputs]
    options = file_options(tails[0].root, tails, unit.generation, unit.settings)
    zones = any(True for _ in walk_timestamps(options.root))
    columns = {node.column: node.column for node in options.root.walk()}
    stripes = []
    for index, file in enumerate(inputs):
        for number, stripe in enumerate(file.tail.stripes):
            if stripe.rows:
                # read even if it will be copied: readers expect no unknown kinds of streams below the result's footer
                reader = StripeReader(file.source, file.tail, number)
                fact = StripeFacts(
                    file=index,
                    number=number,
                    rows=stripe.rows,
                    length=stripe.length,
                    deleted=0,
                    aborted=0,
                    timezone=reader.timezone if zones else "UTC",
                    no_copy=container_difference(
                        file.tail, options, statistics_true=stripe_statistics_are_true(file.tail, number)
                    ),
                )
                stripes.append(_Stripe(file=file, facts=fact, filters=found_filters(reader, columns)))
    facts, filtered = plan_filters(stripes, options.root, unit.settings)
    actions = plan_stripes(facts, unit.settings)
    sizes = filter_sizes(stripes, filtered, actions, options, unit.generation, unit.settings)
    return replace(options, filters=sizes), actions


def write_orc(sink: SinkFile, inputs: Sequence[OpenInput], options: FileOptions, actions: Actions) -> None:
    """Write the result as planned."""
    writer = OrcWriter(sink, options)
    for action in actions:
        if action.copy:
            copy_unchanged(writer, inputs[action.stripes[0].file], action.stripes[0].number)
        else:
            _recode(writer, inputs, action.stripes)
    writer.finish(inputs[0].tail.user_metadata)


def _recode(writer: OrcWriter, inputs: Sequence[OpenInput], stripes: Sequence[StripeFacts]) -> None:
    readers = [StripeReader(inputs[fact.file].source, inputs[fact.file].tail, fact.number) for fact in stripes]
    rows = sum(fact.rows for fact in stripes)
    timezone = stripes[0].timezone
    encoding = encoding_options(writer.options, timezone)
    columns: list[EncodedColumn] = []

    def encode(node: TypeNode, parts: Sequence[Column]) -> None:
        columns.extend(encode_column(concat_columns(list(parts)), node, bounds, encoding))

    for reader in readers:
        reader.prove_rows()
    bounds = group_bounds(rows, writer.options.stride)
    root = writer.options.root
    tops = [reader.column(replace(root, children=()), reader.stripe.rows) for reader in readers]
    if any(top.present is not None for top in tops):
        raise CorruptError(f"Cannot read {readers[0].where}: because rows of a file without ACID columns are null")
    encode(replace(root, children=()), tops)
    for child in root.children:
        encode(child, [reader.column(child, reader.stripe.rows) for reader in readers])
    writer.write_stripe(columns, rows=rows, timezone=timezone)


def check_orc(path: str, length: int, rows: int, stripes: int, data: DataFiles) -> None:
    """Read the finished file's tail; CorruptError unless it has these numbers."""
    source = data.open(path, length)
    try:
        tail = read_tail(source)
        for number in range(len(tail.stripes)):
            StripeReader(source, tail, number)
    finally:
        source.close()
    if (tail.rows, len(tail.stripes)) != (rows, stripes):
        raise CorruptError(
            f"Cannot publish {path}: because it has {tail.rows} rows in {len(tail.stripes)} stripes, and {rows} rows "
            f"in {stripes} stripes were written; nothing was changed"
        )
