"""Carrying out one unit of an insert-only table: its files joined into one, or one of them copied."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from acidlib.errors import CorruptError
from acidlib.model.units import DataFile, JoinUnit, JoinWay, PlannedAction, UnitResult
from acidlib.orc.source import DataFiles, SinkFile
from acidlib.parquet.footer import Footer, read_footer
from acidlib.parquet.join import check_joined, join_files
from acidlib.rewrite.inputs import InputFiles, open_inputs
from acidlib.rewrite.join_orc import check_orc, plan_orc, write_orc
from acidlib.rewrite.join_text import join_text
from acidlib.rewrite.output import new_file, removed_on_error, result_of_actions

Clock = Callable[[], float]


def run_join(unit: JoinUnit, data: DataFiles, path: str | None, clock: Clock) -> UnitResult:
    """Make the unit's file at `path`, which must not exist; with `path` None only plan it.

    Raises AcidError; then no file is left at `path`. clock: seconds, monotonic.
    """
    start = clock()
    runs = {JoinWay.STRIPES: _run_orc, JoinWay.ROW_GROUPS: _run_parquet}
    return replace(runs.get(unit.way, _run_bytes)(unit, data, path), seconds=clock() - start)


def _run_orc(unit: JoinUnit, data: DataFiles, path: str | None) -> UnitResult:
    with open_inputs(unit.inputs, InputFiles(unit.location, data)) as inputs:
        if not inputs.files:
            return result_of_actions(unit, (), ())
        options, actions = plan_orc(unit, inputs.files)
        rows = sum(file.tail.rows for file in inputs.files)
        result = replace(result_of_actions(unit, actions, inputs.files), empty_files=inputs.empty)
        if path is None:
            return result
        with new_file(data, path) as sink:
            write_orc(sink, inputs.files, options, actions)
    with removed_on_error(sink):
        check_orc(path, sink.position, rows, len(actions), data)
    return replace(result, path=path, length=sink.position)


def _run_parquet(unit: JoinUnit, data: DataFiles, path: str | None) -> UnitResult:
    place = InputFiles(unit.location, data)
    footers = [_footer(file, place) for file in unit.inputs]
    rows = sum(footer.rows for footer in footers)
    result = replace(
        _result(unit),
        rows_in=rows,
        rows_out=rows,
        bytes_copied=sum(footer.length for footer in footers),
        actions=tuple(
            replace(_whole(footer.name, footer.length, "row groups unchanged"), rows=footer.rows) for footer in footers
        ),
    )
    if path is None:
        return result
    with new_file(data, path) as sink:
        join_files(sink, footers, data)
    with removed_on_error(sink), closing(data.open(path, sink.position)) as source:
        check_joined(source, footers)
    return replace(result, path=path, length=sink.position)


def _footer(file: DataFile, place: InputFiles) -> Footer:
    with closing(place.open(file)) as source:
        return read_footer(source)


def _run_bytes(unit: JoinUnit, data: DataFiles, path: str | None) -> UnitResult:
    """Files whose rows are not read: one copied, or several of text joined."""
    place = InputFiles(unit.location, data)
    size = sum(file.length for file in unit.inputs)
    lines = unit.way is JoinWay.LINES
    reason = "text, joined by lines" if lines else unit.reason or "copied as it is"
    result = replace(
        _result(unit),
        rows_in=None,
        rows_out=None,
        bytes_copied=size,
        actions=tuple(_whole(place.full_path(file), file.length, reason) for file in unit.inputs),
    )
    if path is None:
        return result
    with new_file(data, path) as sink:
        if lines:
            join_text(unit.inputs, place, sink)
        else:
            _copy_whole(unit, place, sink)
    return replace(result, path=path, length=sink.position)


def _copy_whole(unit: JoinUnit, place: InputFiles, sink: SinkFile) -> None:
    (file,) = unit.inputs
    with closing(place.open(file)) as source:
        sink.copy(source, 0, source.length)
    if sink.position != file.length:
        raise CorruptError(
            f"Cannot publish {unit.directory}/{unit.file_name}: because {sink.position} bytes of {file.length} were "
            "copied"
        )


def _whole(path: str, length: int, reason: str) -> PlannedAction:
    return PlannedAction(
        path=path, first_stripe=0, stripes=0, copy=True, bytes=length, rows=None, deleted=0, aborted=0, reason=reason
    )


def _result(unit: JoinUnit) -> UnitResult:
    return UnitResult(
        directory=unit.directory, file_name=unit.file_name, bucket=unit.bucket, is_delete=False, path=None, length=0
    )
