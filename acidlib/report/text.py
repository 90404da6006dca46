"""Documents of jobs as text for people, on 80 columns: no colours, no line break at an end."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

from rich.cells import cell_len

from acidlib.acid.names import DELETE_DELTA_PREFIX
from acidlib.arguments import AS_JSON, Word, option, said
from acidlib.masking import masked
from acidlib.model.requests import State
from acidlib.model.results import (
    Cancellation,
    ChecksDocument,
    CleaningResult,
    CompactionResult,
    InitiatorResult,
    Outcome,
    ProbeDocument,
    PromiseState,
    RemovedPath,
    ShownPart,
    ShownPlace,
    UndoResult,
)
from acidlib.model.status import CleaningBlocker, Finding, PlaceFigures, StatusDocument, TableFigures
from acidlib.model.tables import TableRef
from acidlib.model.units import PlannedAction
from acidlib.wording import age_words, human_bytes, plural

JsonEntry = Mapping[str, Any]
"""A document, or an entry of one, as JSON has it."""

WIDTH = 80
"""Columns of a terminal of the usual width: lines fit into it where words allow it."""
_BREAKS = re.compile(r"\s*[\r\n\t]\s*")


def one_line(text: str) -> str:
    """Return text on one line that no terminal interprets and every UTF-8 stream can write, with its secrets masked.

    Line breaks and tabs become blanks; other unprintable characters, such as terminal escapes and the undecodable bytes
    of a path, are written as Python escapes.
    """
    line = masked(_BREAKS.sub(" ", text.strip("\r\n\t")))
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line)


def json_text(document: Mapping[str, Any]) -> str:
    """Return a JSON document for people and programs, in which everything that a terminal interprets is escaped.

    JSON itself escapes the first 32 control characters only: not the others, nor marks that turn the direction of a
    line. Secrets are masked.
    """
    return "\n".join(map(json_characters, json.dumps(document, indent=2, ensure_ascii=False).split("\n")))


def json_characters(line: str) -> str:
    """Return a line of JSON with escapes for everything that a terminal interprets, and with its secrets masked."""
    line = masked(line)
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in line)


def aligned(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Return lines of columns that are two blanks apart, each cell as `one_line` has it.

    right  the numbers of columns that are aligned to the right
    """
    cleaned = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(cell_len(cell) for cell in column) for column in zip(*cleaned, strict=True)]
    to_right = frozenset(right)
    lines = []
    for row in cleaned:
        gaps = [" " * (width - cell_len(cell)) for width, cell in zip(widths, row, strict=True)]
        cells = [
            gap + cell if i in to_right else cell + gap for i, (gap, cell) in enumerate(zip(gaps, row, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def fitted(rows: Sequence[Sequence[str]], *, right: Iterable[int] = (), indent: str = "") -> list[str]:
    """Return a text for each row, as `aligned` does; if a row is too wide, first cells stand on lines of their own."""
    to_right = tuple(right)
    lines = [indent + line for line in aligned(rows, right=to_right)]
    if max(map(cell_len, lines), default=0) <= WIDTH:
        return lines
    others = aligned([row[1:] for row in rows], right=[i - 1 for i in to_right])
    firsts = [f"{indent}{one_line(row[0])}".rstrip() for row in rows]
    return [f"{first}\n{indent}  {rest}" for first, rest in zip(firsts, others, strict=True)]


def wrapped(text: str, indent: str = "", hanging: str | None = None) -> list[str]:
    """Return lines of at most `WIDTH` columns where words allow it; those after the first are indented by `hanging`."""
    return textwrap.wrap(
        one_line(text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def field(label: str, text: str) -> list[str]:
    """Return the lines of a labelled fact in the block of a place."""
    return wrapped(text, f"  {label:<13}", " " * 15)


def first_of(items: Sequence[Any], most: int) -> tuple[Sequence[Any], int]:
    """Return the items to show, and the number of the others, which is never one."""
    return (items, 0) if len(items) <= most + 1 else (items[:most], len(items) - most)


def shortened(items: Sequence[str], most: int) -> list[str]:
    """Return the items to show, with the number of the others."""
    shown, others = first_of(items, most)
    return [*shown, *([f"and {others:,} more"] if others else [])]


def shared_reason(reason: str, ref: TableRef, location: object) -> str:
    """Return a reason without names of its place, so that places can share it."""
    for name in (location, ref, ref.whole_table):
        if name is not None and str(name):
            reason = reason.replace(str(name), "…")
    return reason


def by_state(counts: Mapping[str, int] | Mapping[Outcome, int]) -> str:
    """Return `3 succeeded, 1 failed`."""
    return ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)


def aged(words: str, seconds: float | None) -> str:
    """Return words with an age behind them; nothing if the age is unknown."""
    return "" if seconds is None else f"{words} {age_words(seconds)}"


def _relative(path: str, place: CompactionResult | CleaningResult) -> str:
    """Return a path below the location of a place."""
    return path.removeprefix(place.location.rstrip("/") + "/")


_NAMES_SHOWN, _PATHS_SHOWN = 6, 20
READ_BETWEEN = "the table must not be read or written between them"
"""What a plan says of a publication by two renames."""


def compaction_lines(entry: CompactionResult, *, dry_run: bool) -> Iterator[str]:
    """Yield the block of a compaction. That of a dry run shortens no list, and has the action for each stripe."""
    request = "" if entry.id is None else f" (request {entry.id})"
    yield from wrapped(f"{entry.ref}: {entry.type}, {entry.state}{request}", "", "    ")
    yield from field("reason", entry.reason)
    yield from field("location", entry.location)
    if inputs := entry.inputs:
        yield from field("inputs", ", ".join(inputs if dry_run else shortened(inputs, _NAMES_SHOWN)))
    if entry.output_directories:
        yield from field("output", ", ".join(entry.output_directories))
    least, most, mark = entry.write_ids.min, entry.write_ids.max, entry.write_ids.high_water_mark
    if mark is not None:
        span = "" if least is None or most is None else f"{least}, " if least == most else f"{least} to {most}, "
        yield from field("write ids", f"{span}high-water mark {mark}")
    if publication := entry.publication:
        has_gap = publication == "two renames" and dry_run
        yield from field("publication", f"{publication}: {READ_BETWEEN}" if has_gap else publication)
    files = entry.files
    if files is not None:
        yield from _figures(entry, dry_run=dry_run)
    for note in entry.notes:
        yield from field("note", note)
    if entry.seconds is not None:
        inside = f", {entry.rewrite_seconds:.2f} s inside the tasks" if entry.rewrite_seconds else ""
        yield from field("time", f"{entry.seconds:.2f} s{inside}")
    if (check := entry.verification) is not None:
        looked = f"all {plural(check.of_buckets, 'bucket')}"
        if len(check.buckets) < check.of_buckets:
            numbers = ", ".join(shortened([str(number) for number in check.buckets], _NAMES_SHOWN))
            looked = f"{len(check.buckets)} of {plural(check.of_buckets, 'bucket')} ({numbers})"
        times = "" if check.ratio is None else f", {check.ratio:.1f} times the rewriting"
        compared = f"{plural(check.rows, 'row')} and {plural(check.events, 'delete event')} as before"
        yield from field("verified", f"{looked}: {compared}; {check.seconds:.2f} s inside the tasks{times}")
    if (statistics := entry.statistics) is not None:
        rows = "" if statistics.rows is None else f", {plural(statistics.rows, 'row')}"
        state = f"{', '.join(statistics.written)} updated" if statistics.written else "right already"
        size = f"{plural(statistics.files or 0, 'file')}, {human_bytes(statistics.bytes or 0)}{rows}: {state}"
        yield from field("statistics", size if statistics.reason is None else f"not updated: {statistics.reason}")
    for file in files if files and dry_run else ():
        is_delete = file.directory.startswith(DELETE_DELTA_PREFIX)
        kept = f"{plural(file.events_out, 'event')} out" if is_delete else _rows(file.rows_out, " out")
        written = "" if file.bytes is None else f", {human_bytes(file.bytes)}"
        yield from wrapped(f"{file.directory}/{file.file_name}: {kept}{written}", "  ", "      ")
        for action in file.actions:
            text = f"{_stripes(action, _relative(action.file, entry))}, {_rows(action.rows)}: {action.reason}"
            yield from wrapped(text, f"    {action.verb:<7}  {human_bytes(action.bytes):>10}  ", " " * 25)


def _figures(entry: CompactionResult, *, dry_run: bool) -> Iterator[str]:
    copied, rewritten = ("to copy", "to rewrite") if dry_run else ("copied", "rewritten")
    rows = (
        f"{entry.rows_in or 0:,} in, {entry.rows_deleted or 0:,} deleted, {entry.rows_aborted or 0:,} aborted,"
        f" {entry.rows_out or 0:,} out"
    )
    yield from field("rows", "not counted" if entry.rows_in is None else rows)
    yield from field(
        "events",
        f"{entry.events_in or 0:,} in, {entry.events_aborted or 0:,} aborted,"
        f" {entry.duplicate_events or 0:,} duplicate, {entry.events_out or 0:,} out",
    )
    yield from field(
        "stripes",
        f"{entry.stripes_copied or 0:,} {copied} ({human_bytes(entry.bytes_copied or 0)}),"
        f" {entry.stripes_rewritten or 0:,} {rewritten} ({human_bytes(entry.bytes_rewritten or 0)})",
    )
    empty = [*entry.empty_files]
    empty += [_relative(path, entry) for file in entry.files or () for path in file.empty_files]
    if empty:
        yield from field("empty files", ", ".join(shortened(empty, _NAMES_SHOWN)))


def _rows(number: int | None, suffix: str = "") -> str:
    return "rows not counted" if number is None else plural(number, "row") + suffix


def _stripes(action: PlannedAction, path: str) -> str:
    first, stripes = action.first_stripe, action.stripes
    if stripes == 0:
        return path
    if stripes == 1:
        return f"stripe {first} of {path}"
    if action.action == "copy":
        return f"stripes {first} to {first + stripes - 1} of {path}"
    # a joined stripe may go on into the next input file
    return f"{stripes:,} stripes joined, from stripe {first} of {path} on"


def decision_lines(entries: Sequence[InitiatorResult]) -> Iterator[str]:
    """Yield a table of the initiator's decisions, with reason and threshold below the places that share them."""

    def known(value: Any, words: str = "{:,}") -> str:
        return "-" if value is None else words.format(value)

    def size(value: int | None) -> str:
        return "-" if value is None else human_bytes(value)

    rows = [("Place", "Decision", "Request", "Deltas", "In deltas", "In base", "Ratio")]
    groups: dict[tuple[Outcome, str], list[InitiatorResult]] = {}
    for entry in entries:
        groups.setdefault((entry.outcome, _why(entry, is_shared=True)), []).append(entry)
    for entry in chain.from_iterable(groups.values()):
        decision = {"due": entry.type, "left alone": None}.get(entry.outcome, entry.outcome) or "none"
        request, deltas = known(entry.queued, "{}"), known(entry.deltas)
        sizes = (size(entry.delta_bytes), size(entry.base_bytes), known(entry.ratio, "{:,.2%}"))
        rows.append((one_line(str(entry.ref)), decision, request, deltas, *sizes))
    head, *shown = fitted(rows, right=(2, 3, 4, 5, 6))
    yield head
    lines = iter(shown)
    for (_, reason), group in groups.items():
        yield from islice(lines, len(group))
        alone = len(group) == 1
        yield from wrapped(_why(group[0]) if alone else f"these {len(group)}: {reason}", "    ")


def _why(entry: InitiatorResult, *, is_shared: bool = False) -> str:
    """Return the reason of a decision, with its threshold or the location of a failure."""
    reason = shared_reason(entry.reason, entry.ref, entry.location) if is_shared else entry.reason
    if entry.outcome == "failed" and not is_shared and entry.location not in reason:
        return f"{reason} ({entry.location})"
    if entry.outcome in ("due", "left alone") and (threshold := threshold_of(entry)):
        return f"{reason} ({threshold})"
    return reason


def threshold_of(decision: InitiatorResult) -> str:
    """Return the threshold that decided, with its value and source; an empty text where none did."""
    key, limit, source = decision.threshold_key, decision.threshold, decision.threshold_source
    if not key or limit is None:
        return ""
    return f"{key} = {int(limit) if float(limit).is_integer() else limit}" + (f", {source}" if source else "")


def cleaning_lines(entry: CleaningResult, *, dry_run: bool) -> Iterator[str]:
    """Yield the block of a cleaning: the paths that were or would be removed, those that stay, and why."""
    request = "" if entry.id is None else f" (request {entry.id})"
    yield from wrapped(f"{entry.ref}: {entry.state}{request}", "", "    ")
    yield from field("reason", entry.reason)
    yield from field("location", entry.location)
    deleted = [path for path in entry.removed if path.moved_to is None]
    moved = [path for path in entry.removed if path.moved_to is not None]
    trash = (
        f", to {(moved[0].moved_to or '').rpartition('/')[0]}; they take space until that is emptied" if moved else ""
    )
    for label, removed, where in (("would go" if dry_run else "removed", deleted, ""), ("moved", moved, trash)):
        if not removed:
            continue
        yield from field(label, f"{plural(len(removed), 'path')}, {human_bytes(_bytes(removed))}{where}")
        shown, _ = first_of(removed, _PATHS_SHOWN)
        for path in shown:
            text = f"{_relative(path.path, entry)}: {path.reason}"
            yield from wrapped(text, f"    {human_bytes(path.bytes):>10}  ", " " * 16)
        if rest := removed[len(shown) :]:
            yield f"    and {plural(len(rest), 'more path')}, {human_bytes(_bytes(rest))}"
    shown, others = first_of(entry.waiting, _PATHS_SHOWN)
    label = "blocked"
    for reason, group in groupby(shown, key=lambda blocked: blocked.reason):
        yield from field(label, f"{', '.join(blocked.subject for blocked in group)}: {reason}")
        label = ""
    if others:
        yield from field("", f"and {others:,} more")


def _bytes(entries: Iterable[RemovedPath | ShownPart]) -> int:
    return sum(entry.bytes for entry in entries)


def undo_text(undo: UndoResult) -> str:
    """Return the text of an undo."""
    about = f"{undo.ref}: {undo.state} ({undo.type} compaction, request {undo.id})"
    lines = [*wrapped(about, "", "    "), *field("reason", undo.reason), *field("location", undo.location)]
    is_planned = undo.state == "planned"
    if undo.moved_to is not None and undo.result:
        lines += field("would move" if is_planned else "moved", f"{', '.join(undo.result)}, to {undo.moved_to}")
    again = [*undo.inputs, *([plural(len(undo.originals), "original file")] if undo.originals else [])]
    if again:
        lines += field("would read" if is_planned else "read again", ", ".join(again))
    return "\n".join(lines)


def cancellations_text(cancellations: Iterable[Cancellation]) -> str:
    """Return the end of each cancellation, in the order in which the requests were named."""
    lines = []
    for entry in cancellations:
        of = "" if entry.database is None else f", {entry.type} of {entry.ref}"
        lines += wrapped(f"request {entry.id}{of}: {entry.state}, {entry.reason}", "", "    ")
    return "\n".join(lines)


_MAX_IDS = 20


def places_text(places: Iterable[ShownPlace]) -> str:
    """Return a block for each place that `acidlib show` was given."""
    return "\n\n".join("\n".join(_place_lines(place)) for place in places)


def _place_lines(place: ShownPlace) -> Iterator[str]:
    yield one_line(str(place.ref))
    yield from wrapped(place.location, "  ")
    if place.high_water_mark is not None:
        ids = f"rules of Hive {place.hive_version}; write ids up to {place.high_water_mark:,}"
        for state, listed in (("open", place.open_write_ids), ("rolled back", place.aborted_write_ids)):
            more = f" and {len(listed) - _MAX_IDS:,} more" if len(listed) > _MAX_IDS else ""
            ids += f"; {state}: {', '.join(map(str, listed[:_MAX_IDS]))}{more}" if listed else ""
        yield from wrapped(ids, "  ")
    yield from wrapped(place.error or "", "  ")
    if not (parts := place.parts):
        return
    rows = [("", "reader", "write ids", "files", "bytes", "rows")]
    for part in parts:
        ids = "" if part.first_write_id is None else f"{part.first_write_id}-{part.last_write_id}"
        count = "" if part.reader == "hidden" else "?" if part.rows is None else f"{part.rows:,}"
        sizes = f"{part.files:,}", human_bytes(part.bytes), count
        rows.append((one_line(part.path), part.reader, ids, *sizes))
    head, *shown = fitted(rows, right=(3, 4, 5), indent="  ")
    yield head
    for part, row in zip(parts, shown, strict=True):
        yield row
        yield from wrapped("" if part.reader == "read" else part.why, "      ")
        yield from wrapped(part.damage or "", "      ")
    read = [part for part in parts if part.reader == "read"]
    rest = [part for part in parts if part.reader in ("obsolete", "aborted")]
    freed = f"; a cleaner may free {human_bytes(_bytes(rest))}" if rest else ""
    opened = plural(sum(part.files for part in read), "file")
    yield f"  a reader opens {opened}, {human_bytes(_bytes(read))}{freed}"


_TABLES_SHOWN, _WORST_SHOWN, _SHOWN_OF_A_KIND = 20, 3, 5


def status_text(document: StatusDocument, word: Word = option) -> str:
    """Return the status of all tables: a summary, the figures, each finding, and the tables."""
    counts = {level: sum(finding.level == level for finding in document.findings) for level in ("error", "warning")}
    wrong = ", ".join(plural(count, level) for level, count in counts.items() if count)
    summary = f"{document.level.upper()}: {wrong or 'nothing is wrong'} in {plural(len(document.tables), 'table')}"
    lines = [summary, ""]
    for label, facts in (
        ("Requests", _requests(document.totals)),
        ("Transactions", _transactions(document)),
        ("In the way", _blockers(holders_of(document.blockers), word)),
        ("Places", _worst(document.totals)),
    ):
        for number, fact in enumerate(facts):
            lines += wrapped(f"{'' if number else label:<14}{fact}", "", " " * 14)
    if document.findings:
        lines += ["", *_findings(document.findings)]
    if document.tables:
        lines += ["", *_tables(document.tables, word)]
    return "\n".join(lines)


def _requests(totals: TableFigures) -> Iterator[str]:
    by_state = dict(zip(State, totals.requests, strict=True))
    for figures in (by_state[state] for state in (State.INITIATED, State.WORKING, State.READY_FOR_CLEANING)):
        oldest = aged(", the oldest since", figures.oldest_age)
        yield f"{figures.count:,} {figures.state}" + (f"{oldest}: {figures.oldest_place}" if oldest else "")
    ended = [
        by_state[state] for state in (State.FAILED, State.REFUSED, State.ATTEMPTED, State.ABORTED, State.SUCCEEDED)
    ]
    yield "in the history: " + ", ".join(f"{figures.count:,} {figures.state}" for figures in ended)
    for count, verb, place in (
        (totals.failed_in_a_row, "failed", totals.failed_place),
        (totals.refused_in_a_row, "were refused", totals.refused_place),
    ):
        if count > 1:
            yield f"the last {count} {verb} at {place}"


def _transactions(document: StatusDocument) -> Iterator[str]:
    txns, aborted_ids = document.transactions, document.totals.aborted_write_ids
    if txns is None:
        return
    for count, kind, oldest in ((txns.open, "open", txns.oldest_open), (txns.aborted, "aborted", txns.oldest_aborted)):
        holder = ""
        if oldest is not None:
            since = aged(" since", oldest.age)
            holder = f", the oldest {oldest.id}{since}: {oldest.user} at {oldest.host}"
        yield f"{count:,} {kind}{holder}"
    if aborted_ids is not None:
        yield plural(aborted_ids, "aborted write id")


class Holder(NamedTuple):
    """A transaction or lock with the first request that waits for it, and the number of all that do."""

    first: CleaningBlocker
    cleanings: int


def holders_of(blockers: Iterable[CleaningBlocker] | None) -> list[Holder]:
    """Return each transaction or lock that keeps requests from being cleaned, those of most requests first."""
    holders: dict[tuple[str, int], Holder] = {}
    for blocker in blockers or ():
        first, cleanings = holders.get((blocker.kind, blocker.id), (blocker, 0))
        holders[blocker.kind, blocker.id] = Holder(first, cleanings + 1)
    return sorted(holders.values(), key=lambda holder: (-holder.cleanings, holder.first.id))


def _blockers(holders: Sequence[Holder], word: Word) -> Iterator[str]:
    for first, cleanings in holders[:_SHOWN_OF_A_KIND]:
        name = f"{first.kind} {first.id} of {first.user} at {first.host}"
        more = f" and {cleanings - 1:,} more" if cleanings > 1 else ""
        yield f"{name}{aged(', there since', first.age)}: of cleaning {first.ref}{more}"
    if len(holders) > _SHOWN_OF_A_KIND:
        yield said(f"and {len(holders) - _SHOWN_OF_A_KIND:,} more; {AS_JSON} tells of each", word)


def _worst(totals: TableFigures) -> Iterator[str]:
    if totals.looked_at is None:
        yield "none was looked at"
        return
    yield f"{totals.looked_at:,} of {totals.places or 0:,} were looked at"
    worst: tuple[tuple[str, Sequence[PlaceFigures], Callable[[PlaceFigures], str]], ...] = (
        ("most deltas", totals.most_deltas, lambda place: f"{place.deltas:,}"),
        ("worst ratio of deltas to base", totals.worst_ratio, lambda place: f"{place.ratio:,.2f}"),
        ("most that waits for cleaning", totals.most_obsolete, lambda place: human_bytes(place.obsolete_bytes)),
    )
    for title, places, words in worst:
        for number, place in enumerate(places[:_WORST_SHOWN]):
            yield f"{'then' if number else title}: {words(place)} at {place.ref}"
    if totals.obsolete_bytes:
        yield f"{human_bytes(totals.obsolete_bytes)} wait for cleaning in all"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings by kind, errors before warnings; those of several places for the same reason are one."""

    def kind(finding: Finding) -> tuple[str, str]:
        return finding.level, finding.trouble

    for (level, trouble), group in groupby(sorted(findings, key=kind), key=kind):
        alike: dict[str, list[Finding]] = {}
        for finding in group:
            alike.setdefault(shared_reason(finding.reason, finding.ref, finding.location), []).append(finding)
        for reason, (finding, *more) in islice(alike.items(), shown := len(first_of([*alike], _SHOWN_OF_A_KIND)[0])):
            if more:
                yield from wrapped(f"{level:<8}{len(more) + 1:,} places: {trouble}: {reason}", "", " " * 8)
                names = shortened([str(like.ref) for like in (finding, *more)], _PATHS_SHOWN)
                yield from wrapped(", ".join(names), " " * 8)
                continue
            name, location = str(finding.ref), finding.location
            about = f"{name}: " if name else ""
            where = "" if location is None or location in finding.reason else f" ({location})"
            yield from wrapped(f"{level:<8}{about}{trouble}: {finding.reason}{where}", "", " " * 8)
        if others := sum(len(rest) for rest in islice(alike.values(), shown, None)):
            yield f"{'':<8}and {others:,} more: {trouble}"


def _tables(tables: Sequence[TableFigures], word: Word) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        ("Table", "Level", "Init", "Work", "Ready", "Failed", "Deltas", "Ratio", "To clean", "Aborted")
    ]
    for table in tables[:_TABLES_SHOWN]:
        obsolete, aborted = table.obsolete_bytes, table.aborted_write_ids
        listed = ("-", "-", "-")
        if obsolete is not None:
            deltas = table.most_deltas[0].deltas if table.most_deltas else 0
            ratio = (table.worst_ratio[0].ratio or 0) if table.worst_ratio else 0
            listed = str(deltas), f"{ratio:.1f}", human_bytes(obsolete)
        queue = [str(state.count) for state in table.requests[:3]]  # waiting, working, ready for cleaning
        name, failed = str(TableRef(table.database or "", table.table or "")), str(table.failed_in_a_row)
        rows.append((name, table.level, *queue, failed, *listed, "-" if aborted is None else str(aborted)))
    yield from fitted(rows, right=range(2, len(rows[0])))
    if len(tables) > _TABLES_SHOWN:
        yield said(f"and {plural(len(tables) - _TABLES_SHOWN, 'more table')}; {AS_JSON} tells of each", word)


def checks_text(document: ChecksDocument) -> str:
    """Return each check of a doctor, with its advice below it."""
    checks = document.checks
    width = max(len(check.name) for check in checks)
    lines, below = [], " " * (width + 13)
    for check in checks:
        lines += wrapped(check.found or "-", f"{check.state:<9}  {check.name:<{width}}  ", below)
        lines += wrapped(check.advice, f"{below}-> ", f"{below}   ")
    return "\n".join([*lines, "", f"{plural(len(checks), 'check')}, {document.totals.wrong} wrong"])


def promises_text(document: ProbeDocument) -> str:
    """Return a line for each promise of a store, with what was seen, below it what was promised and not shown."""
    totals, promises = document.totals, document.promises
    width = max(len(promise.name) for promise in promises)
    lines, below = [], " " * (width + 13)
    for promise in promises:
        lines += wrapped(promise.seen, f"{promise.state:<9}  {promise.name:<{width}}  ", below)
        if promise.state is not PromiseState.HOLDS:
            lines += wrapped(promise.sentence, f"{below}-> ", f"{below}   ")
    tried = f"{plural(totals.promises - totals.not_tried, 'promise')} tried in {document.location}"
    untried = f"{totals.failed} not to be tried"
    outcome = "all hold"
    if totals.broken:
        counts = [f"{totals.broken} broken", *([untried] if totals.failed else [])]
        outcome = f"{', '.join(counts)}; tables there cannot be compacted safely"
    elif totals.failed:
        outcome = f"none broken, {untried}; mend what hinders them, and probe again"
    return "\n".join([*lines, "", *wrapped(f"{tried}: {outcome}")])
