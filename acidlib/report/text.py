"""Results as text for people: pure functions, no colours, lines of at most 120 columns where words allow it.

No text ends with a line break.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

from rich.cells import cell_len

from acidlib.model.units import PlannedAction, UnitResult
from acidlib.report.decisions import CleaningResult, InitiatorResult, RemovedPath
from acidlib.report.results import CompactionResult, Outcome, totals

WIDTH = 120
_NAMES_SHOWN, _ACTIONS_SHOWN, _FILES_SHOWN, _PATHS_SHOWN, _PLACES_SHOWN = 6, 12, 20, 20, 20
_LABEL = 13
_BREAKS = re.compile(r"\s*[\r\n\t]\s*")


def compactions_text(results: Sequence[CompactionResult], *, dry_run: bool, verbose: bool) -> str:
    """A block per compaction and a line of totals.

    dry_run   also lists per bucket file which stripes would be copied and rewritten, how many bytes, and why
    verbose   shortens no list of a compaction, and lists the stripes of those that were carried out as well

    Of many places that are left alone, refused or skipped, the first are listed and the others counted.
    """
    if not results:
        return "Nothing to compact."
    alone = (Outcome.REFUSED, Outcome.SKIPPED)
    shown, more = _first_places([one.state.value if one.state in alone else None for one in results])
    blocks = ["\n".join(_compaction(one, dry_run=dry_run, verbose=verbose)) for one in compress(results, shown)]
    return "\n\n".join([*blocks, *more, _compaction_totals(results, dry_run=dry_run)])


def initiator_text(results: Sequence[InitiatorResult]) -> str:
    """A table of the places that were looked at, with the reason and the threshold below each, and a line of totals.

    Of many places that are left alone the first are listed and the others counted.
    """
    if not results:
        return "Nothing to look at: no table was found."
    shown, more = _first_places([None if one.type or one.failed else "left alone" for one in results])
    listed = list(compress(results, shown))
    header = ("Decision", "Request", "Deltas", "Delta bytes", "Base bytes", "Ratio", "Place")
    table = aligned([header, *(_initiator_row(result) for result in listed)], right=(1, 2, 3, 4, 5))
    lines = [table[0]]
    for row, result in zip(table[1:], listed, strict=True):
        lines += [row, *_wrapped(_why(result), "    ")]
    return "\n".join([*lines, *more, "", *_wrapped(_initiator_totals(results), "")])


def cleaner_text(results: Sequence[CleaningResult], dry_run: bool, *, verbose: bool = False) -> str:  # noqa: FBT001 - the one thing that a reader of the call has to know
    """A block per request, or per partition with litter: what went (or would go) and why, what stays and why."""
    if not results:
        return "Nothing to clean."
    blocks = ["\n".join(_cleaning(result, dry_run=dry_run, verbose=verbose)) for result in results]
    return "\n\n".join([*blocks, _cleaner_totals(results, dry_run=dry_run)])


# --- words and figures ------------------------------------------------------------------------------------------------


def human_bytes(size: int) -> str:
    """`1 byte`, `512 bytes`, `1.0 KiB`, `12.3 MiB` and so on; units of 1024."""
    if size < 1024:
        return plural(size, "byte")
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        # what would be rounded to 1024.0 belongs to the next unit
        if value < 1023.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:,.1f} PiB"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 row`, `1,234 rows`; `many` where the plural is not formed with an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def one_line(text: str) -> str:
    """Text on one line that no terminal interprets and every UTF-8 stream can write.

    Line breaks and tabs become blanks; other unprintable characters, such as terminal escapes and the undecodable bytes
    of a path, are written as Python escapes.
    """
    line = _BREAKS.sub(" ", text.strip("\r\n\t"))
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line)


def json_text(document: Mapping[str, Any]) -> str:
    """A JSON document for people and programs: text as it is, but without anything that a terminal interprets.

    JSON escapes the first 32 control characters only: not the others, nor marks that turn the direction of a line.
    """
    lines = json.dumps(document, indent=2, ensure_ascii=False).split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_json_character, line)) for line in lines)


def aligned(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Lines of columns that are two blanks apart; those numbered in `right` are aligned to the right."""
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]
    to_right = frozenset(right)
    lines = []
    for row in rows:
        gaps = [" " * (width - cell_len(cell)) for width, cell in zip(widths, row, strict=True)]
        cells = [
            gap + cell if i in to_right else cell + gap for i, (gap, cell) in enumerate(zip(gaps, row, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _json_character(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1]


def _wrapped(text: str, indent: str, hanging: str | None = None) -> list[str]:
    return textwrap.wrap(
        one_line(text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _field(label: str, text: str) -> list[str]:
    return _wrapped(text, f"  {label:<{_LABEL}}", " " * (_LABEL + 2))


def _shortened(items: Sequence[str], shown: int) -> list[str]:
    """All items, or the first of them and the number of the others, unless that is a single one."""
    if len(items) <= shown + 1:
        return list(items)
    return [*items[:shown], f"and {len(items) - shown:,} more"]


def _first_places(kinds: Sequence[str | None]) -> tuple[list[bool], list[str]]:
    """Which places are listed, and lines that count the others: of each kind left alone the first are listed.

    kinds  in which way each place is left alone; None where it is not
    """
    counts, seen = Counter(kinds), Counter[str | None]()
    shown = []
    for kind in kinds:
        seen[kind] += 1
        shown.append(kind is None or seen[kind] <= _PLACES_SHOWN or counts[kind] == _PLACES_SHOWN + 1)
    more = [(kind, count - _PLACES_SHOWN) for kind, count in counts.items() if kind is not None]
    return shown, [f"and {rest:,} more {kind}; --output json tells of each" for kind, rest in more if rest > 1]


def _by_state(states: Iterable[str]) -> str:
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return ", ".join(f"{count:,} {state}" for state, count in counts.items())


# --- compactions ------------------------------------------------------------------------------------------------------


def _compaction(result: CompactionResult, *, dry_run: bool, verbose: bool) -> list[str]:
    request = "" if result.id is None else f" (request {result.id})"
    lines = _wrapped(f"{result.name}: {result.type}, {result.state.value}{request}", "", "    ")
    lines += _field("reason", result.reason)
    lines += _field("location", result.location)
    if result.inputs:
        lines += _field("inputs", ", ".join(_shortened(result.inputs, len(result.inputs) if verbose else _NAMES_SHOWN)))
    if result.output_directories:
        lines += _field("output", ", ".join(result.output_directories))
    if result.high_water_mark is not None:
        lines += _field("write ids", f"{_write_ids(result)}high-water mark {result.high_water_mark}")
    if result.publication is not None:
        lines += _field("publication", _publication(result.publication, dry_run=dry_run))
    if result.units is not None:
        lines += _figures(result, result.units, dry_run=dry_run)
    for note in result.notes:
        lines += _field("note", note)
    if result.seconds is not None:
        inside = result.total("seconds")
        lines += _field("time", f"{result.seconds:.2f} s" + (f", {inside:.2f} s inside the tasks" if inside else ""))
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
    figure = {name: f"{result.total(name) or 0:,}" for name in _COUNTS}
    copied, rewritten = ("to copy", "to rewrite") if dry_run else ("copied", "rewritten")
    rows = "{rows_in} in, {rows_deleted} deleted, {rows_aborted} aborted, {rows_out} out".format(**figure)
    lines = _field("rows", "not counted" if result.total("rows_in") is None else rows)
    lines += _field(
        "events",
        "{events_in} in, {events_aborted} aborted, {duplicate_events} duplicate, {events_out} out".format(**figure),
    )
    lines += _field(
        "stripes",
        f"{figure['stripes_copied']} {copied} ({human_bytes(result.total('bytes_copied'))}),"
        f" {figure['stripes_rewritten']} {rewritten} ({human_bytes(result.total('bytes_rewritten'))})",
    )
    empty = [*result.empty_files]
    empty += [_relative(path, result.location) for unit in units for path in unit.empty_files]
    return lines + (_field("empty files", ", ".join(_shortened(empty, _NAMES_SHOWN))) if empty else [])


_COUNTS = (
    "rows_in",
    "rows_deleted",
    "rows_aborted",
    "rows_out",
    "events_in",
    "events_aborted",
    "duplicate_events",
    "events_out",
    "stripes_copied",
    "stripes_rewritten",
)


def _files(units: Sequence[UnitResult], location: str, *, verbose: bool) -> list[str]:
    shown = units if verbose or len(units) <= _FILES_SHOWN + 1 else units[:_FILES_SHOWN]
    lines = []
    for unit in shown:
        kept = f"{plural(unit.events_out, 'event')} out" if unit.is_delete else _rows(unit.rows_out, " out")
        written = "" if unit.path is None else f", {human_bytes(unit.length)}"
        lines += _wrapped(f"{unit.directory}/{unit.file_name}: {kept}{written}", "  ", "      ")
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
        lines += _wrapped(text, f"    {verb:<7}  {human_bytes(action.bytes):>10}  ", " " * 25)
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
    path = _relative(action.path, location)
    if action.stripes == 0:
        return path
    if action.stripes == 1:
        return f"stripe {action.first_stripe} of {path}"
    if action.copy:
        return f"stripes {action.first_stripe} to {action.first_stripe + action.stripes - 1} of {path}"
    # what is joined may go on into the next input file
    return f"{action.stripes:,} stripes joined, from stripe {action.first_stripe} of {path} on"


def _relative(path: str, location: str) -> str:
    return path.removeprefix(location.rstrip("/") + "/")


def _compaction_totals(results: Sequence[CompactionResult], *, dry_run: bool) -> str:
    total = totals(results)
    states = _by_state(outcome.value for outcome in Outcome for result in results if result.state is outcome)
    text = f"{plural(len(results), 'compaction')}: {states}"
    if any(result.units is not None for result in results):
        copied, rewritten = ("to copy", "to rewrite") if dry_run else ("copied", "rewritten")
        text += (
            f"; {plural(total['rows_in'], 'row')} in, {total['rows_deleted']:,} deleted,"
            f" {total['rows_aborted']:,} aborted, {total['rows_out']:,} out;"
            f" {human_bytes(total['bytes_copied'])} {copied},"
            f" {human_bytes(total['bytes_rewritten'])} {rewritten}"
        )
    return "\n".join(_wrapped(f"Dry run, nothing was changed. {text}" if dry_run else text, "", "    "))


# --- initiator --------------------------------------------------------------------------------------------------------


def _initiator_row(result: InitiatorResult) -> tuple[str, ...]:
    def bytes_or_dash(size: int | None) -> str:
        return "-" if size is None else human_bytes(size)

    return (
        "failed" if result.failed else result.type or "none",
        "-" if result.queued is None else str(result.queued),
        "-" if result.deltas is None else f"{result.deltas:,}",
        bytes_or_dash(result.delta_bytes),
        bytes_or_dash(result.base_bytes),
        "-" if result.ratio is None else f"{result.ratio:,.2%}",
        one_line(result.name),
    )


def _why(result: InitiatorResult) -> str:
    if result.threshold_key is None or result.threshold is None:
        return result.reason
    limit = int(result.threshold) if float(result.threshold).is_integer() else result.threshold
    source = f", {result.threshold_source}" if result.threshold_source else ""
    return f"{result.reason} ({result.threshold_key} = {limit}{source})"


def _initiator_totals(results: Sequence[InitiatorResult]) -> str:
    due = _by_state(sorted(result.type for result in results if result.type is not None and not result.failed))
    idle = sum(result.type is None and not result.failed for result in results)
    failed = sum(result.failed for result in results)
    queued = sum(result.queued is not None for result in results)
    parts = [due or "none to compact", f"{idle:,} left alone", f"{failed:,} failed" if failed else ""]
    outcomes = ", ".join(part for part in parts if part)
    return f"{plural(len(results), 'place')} looked at: {outcomes}; {plural(queued, 'request')} queued"


# --- cleaner ----------------------------------------------------------------------------------------------------------


def _cleaning(result: CleaningResult, *, dry_run: bool, verbose: bool) -> list[str]:
    request = "" if result.id is None else f" (request {result.id})"
    lines = _wrapped(f"{result.name}: {result.state}{request}", "", "    ")
    lines += _field("reason", result.reason)
    lines += _field("location", result.location)
    if result.deleted:
        what = f"{plural(len(result.deleted), 'path')}, {human_bytes(result.bytes_removed)}"
        lines += _field("would go" if dry_run else "removed", what)
        lines += _removed(result.deleted, result.location, verbose=verbose)
    if result.moved:
        what = f"{plural(len(result.moved), 'path')}, {human_bytes(result.bytes_moved)}"
        where = (result.moved[0].moved_to or "").rpartition("/")[0]
        lines += _field("moved", f"{what}, to {where}; they take space until that is emptied")
        lines += _removed(result.moved, result.location, verbose=verbose)
    blocked = list(result.blocked) if verbose else _shortened(result.blocked, _PATHS_SHOWN)
    for number, reason in enumerate(blocked):
        lines += _field("" if number else "blocked", reason)
    return lines


def _removed(removed: Sequence[RemovedPath], location: str, *, verbose: bool) -> list[str]:
    shown = removed if verbose or len(removed) <= _PATHS_SHOWN + 1 else removed[:_PATHS_SHOWN]
    lines = []
    for item in shown:
        text = f"{_relative(item.path, location)}: {item.reason}"
        lines += _wrapped(text, f"    {human_bytes(item.bytes):>10}  ", " " * 16)
    if rest := removed[len(shown) :]:
        lines.append(f"    and {plural(len(rest), 'more path')}, {human_bytes(sum(item.bytes for item in rest))}")
    return lines


def _cleaner_totals(results: Sequence[CleaningResult], *, dry_run: bool) -> str:
    paths = plural(sum(len(result.deleted) for result in results), "path")
    size = human_bytes(sum(result.bytes_removed for result in results))
    text = f"{plural(len(results), 'place')}: {_by_state(result.state for result in results)}; {paths}, {size}"
    text = f"Dry run, nothing was changed. {text} would go" if dry_run else f"{text} removed"
    if moved := sum(len(result.moved) for result in results):
        size = human_bytes(sum(result.bytes_moved for result in results))
        text += f"; {plural(moved, 'path')}, {size} moved to the trash"
    return "\n".join(_wrapped(text, "", "    "))
