"""Compactions as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from acidlib.model.units import PlannedAction, UnitResult
from acidlib.report.results import FIGURES, CompactionResult, CompactionTotals, Outcome, Statistics, Verification
from acidlib.report.text import First, by_state, field, relative, shortened, with_summary, wrapped
from acidlib.wording import human_bytes, plural

_NAMES_SHOWN, _ACTIONS_SHOWN, _FILES_SHOWN = 6, 12, 20


class CompactionsText:
    """A block per compaction and a line of totals, which stands before several blocks.

    dry_run   also lists per bucket file which stripes would be copied and rewritten, how many bytes, and why
    verbose   shortens no list of a compaction, and lists the stripes of those that were carried out as well

    Of many places that ended alike the first have a block and the others are counted; each that failed has one.
    """

    def __init__(self, totals: CompactionTotals, *, dry_run: bool, verbose: bool) -> None:
        self._totals = totals
        self._dry_run = dry_run
        self._verbose = verbose
        self._blocks: First[str] = First()

    def add(self, result: CompactionResult) -> None:
        """One more compaction."""
        bad = result.is_bad or result.unverified
        self._blocks.add(
            None if bad else result.state.value,
            lambda: "\n".join(_compaction(result, dry_run=self._dry_run, verbose=self._verbose)),
        )

    def pieces(self, notes: Sequence[str]) -> Iterator[str]:
        """The text; notes are none of it."""
        del notes
        if not self._totals.compactions:
            yield "Nothing to compact."
            return
        yield from with_summary(self._summary(), [*self._blocks.items(), *self._blocks.others()])

    def _summary(self) -> str:
        totals, figures = self._totals, self._totals.figures
        states = by_state({outcome.value: totals.states[outcome] for outcome in Outcome})
        text = f"{plural(totals.compactions, 'compaction')}: {states}"
        if totals.is_counted:
            copied, rewritten = ("to copy", "to rewrite") if self._dry_run else ("copied", "rewritten")
            text += (
                f"; {plural(figures['rows_in'], 'row')} in, {figures['rows_deleted']:,} deleted,"
                f" {figures['rows_aborted']:,} aborted, {figures['rows_out']:,} out;"
                f" {human_bytes(figures['bytes_copied'])} {copied},"
                f" {human_bytes(figures['bytes_rewritten'])} {rewritten}"
            )
        return "\n".join(wrapped(f"Dry run, nothing was changed. {text}" if self._dry_run else text, "", "    "))


def _compaction(result: CompactionResult, *, dry_run: bool, verbose: bool) -> list[str]:
    request = "" if result.id is None else f" (request {result.id})"
    lines = wrapped(f"{result.ref}: {result.type}, {result.state.value}{request}", "", "    ")
    lines += field("reason", result.reason)
    lines += field("location", result.location)
    if result.inputs:
        lines += field("inputs", ", ".join(shortened(result.inputs, len(result.inputs) if verbose else _NAMES_SHOWN)))
    if result.output_directories:
        lines += field("output", ", ".join(result.output_directories))
    if result.high_water_mark is not None:
        lines += field("write ids", f"{_write_ids(result)}high-water mark {result.high_water_mark}")
    if result.publication is not None:
        lines += field("publication", _publication(result.publication, dry_run=dry_run))
    if result.units is not None:
        lines += _figures(result, result.units, dry_run=dry_run)
    for note in result.notes:
        lines += field("note", note)
    if result.seconds is not None:
        inside = result.total("seconds")
        lines += field("time", f"{result.seconds:.2f} s" + (f", {inside:.2f} s inside the tasks" if inside else ""))
    if result.verification is not None:
        lines += field("verified", _verified(result, result.verification))
    if result.statistics is not None:
        lines += field("statistics", _statistics(result.statistics))
    if result.units and (dry_run or verbose):
        lines += _files(result.units, result.location, verbose=verbose)
    return lines


def _write_ids(result: CompactionResult) -> str:
    if result.min_write_id is None or result.max_write_id is None:
        return ""
    if result.min_write_id == result.max_write_id:
        return f"{result.min_write_id}, "
    return f"{result.min_write_id} to {result.max_write_id}, "


def _publication(publication: str, *, dry_run: bool) -> str:
    if publication == "two renames" and dry_run:
        return "two renames: nobody may read or write between them"
    return publication


def _figures(result: CompactionResult, units: Sequence[UnitResult], *, dry_run: bool) -> list[str]:
    figure = {name: f"{result.total(name) or 0:,}" for name in FIGURES}
    copied, rewritten = ("to copy", "to rewrite") if dry_run else ("copied", "rewritten")
    rows = "{rows_in} in, {rows_deleted} deleted, {rows_aborted} aborted, {rows_out} out".format(**figure)
    lines = field("rows", "not counted" if result.total("rows_in") is None else rows)
    lines += field(
        "events",
        "{events_in} in, {events_aborted} aborted, {duplicate_events} duplicate, {events_out} out".format(**figure),
    )
    lines += field(
        "stripes",
        f"{figure['stripes_copied']} {copied} ({human_bytes(result.total('bytes_copied'))}),"
        f" {figure['stripes_rewritten']} {rewritten} ({human_bytes(result.total('bytes_rewritten'))})",
    )
    empty = [*result.empty_files]
    empty += [relative(path, result.location) for unit in units for path in unit.empty_files]
    return lines + (field("empty files", ", ".join(shortened(empty, _NAMES_SHOWN))) if empty else [])


def _verified(result: CompactionResult, found: Verification) -> str:
    looked = f"all {plural(found.of_buckets, 'bucket')}"
    if len(found.buckets) < found.of_buckets:
        numbers = shortened([str(number) for number in found.buckets], _NAMES_SHOWN)
        looked = f"{len(found.buckets)} of {plural(found.of_buckets, 'bucket')} ({', '.join(numbers)})"
    ratio = result.verification_ratio
    times = "" if ratio is None else f", {ratio:.1f} times the rewriting"
    compared = f"{plural(found.rows, 'row')} and {plural(found.events, 'delete event')} as before"
    return f"{looked}: {compared}; {found.seconds:.2f} s inside the tasks{times}"


def _statistics(found: Statistics) -> str:
    if found.reason is not None:
        return f"not updated: {found.reason}"
    rows = "" if found.rows is None else f", {plural(found.rows, 'row')}"
    told = f"{', '.join(found.written)} updated" if found.written else "right already"
    return f"{plural(found.files or 0, 'file')}, {human_bytes(found.bytes or 0)}{rows}: {told}"


def _files(units: Sequence[UnitResult], location: str, *, verbose: bool) -> list[str]:
    shown = units if verbose or len(units) <= _FILES_SHOWN + 1 else units[:_FILES_SHOWN]
    lines = []
    for unit in shown:
        kept = f"{plural(unit.events_out, 'event')} out" if unit.is_delete else _rows(unit.rows_out, " out")
        written = "" if unit.path is None else f", {human_bytes(unit.length)}"
        lines += wrapped(f"{unit.directory}/{unit.file_name}: {kept}{written}", "  ", "      ")
        lines += _actions(unit.actions, location, verbose=verbose)
    rest = len(units) - len(shown)
    return [*lines, f"  and {plural(rest, 'more file')}"] if rest else lines


def _actions(actions: Sequence[PlannedAction], location: str, *, verbose: bool) -> list[str]:
    listed = list(actions) if verbose else _joined_copies(actions)
    shown = listed if verbose or len(listed) <= _ACTIONS_SHOWN + 1 else listed[:_ACTIONS_SHOWN]
    lines = []
    for action in shown:
        verb = "copy" if action.copy else "rewrite"
        text = f"{_stripes(action, location)}, {_rows(action.rows)}: {action.reason}"
        lines += wrapped(text, f"    {verb:<7}  {human_bytes(action.bytes):>10}  ", " " * 25)
    if rest := listed[len(shown) :]:
        copies = sum(action.copy for action in rest)
        size = human_bytes(sum(action.bytes for action in rest))
        lines.append(
            f"    and {plural(len(rest), 'more action')} ({size}): {plural(copies, 'copy', 'copies')},"
            f" {plural(len(rest) - copies, 'rewrite')}"
        )
    return lines


def _joined_copies(actions: Sequence[PlannedAction]) -> list[PlannedAction]:
    """Neighbouring stripes of a file that are copied for the same reason as one. Rewrites stay: each is a stripe."""
    joined: list[PlannedAction] = []
    for action in actions:
        last = joined[-1] if joined else None
        if (
            last is not None
            and (last.copy, action.copy) == (True, True)
            and (last.path, last.reason) == (action.path, action.reason)
            and last.first_stripe + last.stripes == action.first_stripe
        ):
            joined[-1] = replace(
                last,
                stripes=last.stripes + action.stripes,
                bytes=last.bytes + action.bytes,
                rows=None if last.rows is None or action.rows is None else last.rows + action.rows,
                deleted=last.deleted + action.deleted,
                aborted=last.aborted + action.aborted,
            )
        else:
            joined.append(action)
    return joined


def _rows(number: int | None, suffix: str = "") -> str:
    return "rows not counted" if number is None else plural(number, "row") + suffix


def _stripes(action: PlannedAction, location: str) -> str:
    path = relative(action.path, location)
    if action.stripes == 0:
        return path
    if action.stripes == 1:
        return f"stripe {action.first_stripe} of {path}"
    if action.copy:
        return f"stripes {action.first_stripe} to {action.first_stripe + action.stripes - 1} of {path}"
    # what is joined may go on into the next input file
    return f"{action.stripes:,} stripes joined, from stripe {action.first_stripe} of {path} on"
