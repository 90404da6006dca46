"""A page: the parts it consists of, what the pages of all jobs tell alike, and its HTML."""

from __future__ import annotations

import enum
import heapq
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from acidlib.errors import AcidError, RefusedError, RetryError
from acidlib.report.text import one_line
from acidlib.wording import duration_words, human_bytes

if TYPE_CHECKING:
    from jinja2 import Template


# --- parts ------------------------------------------------------------------------------------------------------------
# What a page consists of, as values: nothing here knows a browser, a library or a file.

Item = TypeVar("Item")
Entry = Mapping[str, Any]
"""An entry of a document, as JSON has it."""


UNKNOWN = "-"
"""What stands where nothing is known."""


class Tone(enum.Enum):
    """What a colour says; the names are those of the style sheet."""

    PLAIN = "plain"
    FIRST = "first"
    SECOND = "second"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a figure: its share is its amount through that of all."""

    label: str
    value: str
    amount: float
    tone: Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure with what it is, what else there is to say of it, and the parts that it consists of."""

    label: str
    value: str = ""
    detail: str = ""
    parts: tuple[Segment, ...] = ()

    @property
    def shown(self) -> tuple[tuple[Segment, float], ...]:
        """Parts that are not nothing, each with its share in per cent."""
        whole = sum(one.amount for one in self.parts)
        return tuple((one, 100 * one.amount / whole) for one in self.parts if one.amount > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: its text, a smaller line below it, and a bar of a share of the column's largest, where there is one."""

    text: str
    detail: str = ""
    share: float | None = None
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A table. Columns named in `figures` are aligned to the right; `rest` says what of it is not shown."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    figures: frozenset[str] = frozenset()
    text: str = ""
    rest: str = ""

    @property
    def is_narrow(self) -> bool:
        """Whether another one has room beside it."""
        return len(self.columns) == 2 and self.columns[-1] in self.figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything that stands on it, in its order: the headline, what needs attention, figures, charts, tables."""

    job: str
    headline: str
    tone: Tone
    lead: str = ""
    outcome: Figure | None = None
    remarks: tuple[str, ...] = ()
    attention: tuple[Listing, ...] = ()
    figures: tuple[Figure, ...] = ()
    charts: tuple[Listing, ...] = ()
    listings: tuple[Listing, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str, str], ...] = ()


class Fold(Protocol):
    """Takes the entries of a document one by one, in little memory, and makes a page of them and the rest of it."""

    def add(self, entry: Entry) -> None:
        """One more entry."""

    def page(self, head: Entry) -> Page:
        """The page; `head` is the document without its entries."""


class Largest(Generic[Item]):
    """Of all that is added the largest few, the larger first and of equal ones the earlier, and how many there are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[float, int, Item]] = []
        self.count = 0

    def add(self, size: float, item: Item) -> None:
        """One more."""
        self.count += 1
        entry = (size, -self.count, item)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
        elif entry[:2] > self._heap[0][:2]:
            heapq.heapreplace(self._heap, entry)

    @property
    def items(self) -> list[Item]:
        """Those that are kept."""
        return [item for _, _, item in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]

    @property
    def rest(self) -> int:
        """How many are not."""
        return self.count - len(self._heap)


@dataclass(slots=True)
class _Like:
    """Reasons that say the same of several places: the first of them, where that was, how many, and a sum."""

    text: str
    place: str
    count: int = 0
    amount: float = 0


@dataclass(slots=True)
class Reasons:
    """Why things were as they were: reasons that differ in the place alone are one.

    by_number  those that differ in numbers are not: it matters whom one waits for
    """

    by_number: bool = False
    kinds: dict[str, _Like] = field(default_factory=dict)

    def add(self, reason: str, entry: Entry, *, amount: float = 0) -> None:
        """One more, of a place; `amount` is what it is about, in bytes for example."""
        text = reason
        for known in (entry.get("location"), name_of(entry)):
            if known:
                text = text.replace(known, "the place")
        key = text if self.by_number else _NUMBERS.sub("0", text)
        kind = self.kinds.setdefault(key, _Like(text, name_of(entry)))
        kind.count += 1
        kind.amount += amount

    def listing(
        self, title: str, most: int, *, what: str = "Places", amount: str = "", text: str = "", tone: Tone = Tone.QUIET
    ) -> Listing | None:
        """The most frequent ones, or those of the largest amount where that is named; None without any."""
        if not self.kinds:
            return None
        by_size = sorted(self.kinds.values(), key=lambda one: (-(one.amount if amount else one.count), one.text))
        largest = (by_size[0].amount if amount else by_size[0].count) or 1
        rows = []
        for one in by_size[:most]:
            size = one.amount if amount else one.count
            example = f"for example {one.place}" if one.count > 1 else one.place
            cells = [Cell(text=one.text, detail=example)]
            cells += [Cell(text=size_text(one.amount), share=size / largest, tone=tone)] if amount else []
            cells.append(Cell(text=f"{one.count:,}", share=None if amount else size / largest, tone=tone))
            rows.append(tuple(cells))
        columns = ("Reason", amount, what) if amount else ("Reason", what)
        rest = len(by_size) - len(rows)
        more = f"and {rest:,} more {'reason' if rest == 1 else 'reasons'}; --output json tells of each" if rest else ""
        return Listing(
            title=title, columns=columns, rows=tuple(rows), figures=frozenset(columns[1:]), text=text, rest=more
        )


_NUMBERS = re.compile(r"\d[\d,._]*")


def name_of(entry: Entry) -> str:
    """database.table, or database.table.partition."""
    return ".".join(part for part in (entry.get("database"), entry.get("table"), entry.get("partition")) if part)


def size_text(size: float | None) -> str:
    """Bytes for people; a dash for what is not known."""
    return UNKNOWN if size is None else human_bytes(int(size))


FEWEST_TO_COUNT = 21
"""Of fewer places a chart says nothing: the tables have each of them."""
Series = tuple[str, Counter[int], Tone]
"""What of is counted, which values there are how many times, and its colour."""
_DELTAS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)


def histogram(
    *, title: str, text: str, what: str, steps: Sequence[int], labels: Sequence[str], series: Sequence[Series]
) -> Listing:
    """Return how many values lie from each step to the next, without series and steps at both ends that have none."""
    series = [one for one in series if one[1]]
    counts = [_spread(values, steps) for _, values, _ in series]
    used = [number for number in range(len(steps)) if any(one[number] for one in counts)]
    return bars(
        title=title,
        text=text,
        columns=(what, *(name for name, _, _ in series)),
        tones=[tone for _, _, tone in series],
        rows=[(labels[number], [one[number] for one in counts]) for number in range(used[0], used[-1] + 1)],
    )


def bars(
    *, title: str, text: str, columns: tuple[str, ...], tones: Sequence[Tone], rows: Sequence[tuple[str, list[float]]]
) -> Listing:
    """Return a chart: in each row a label and figures, whose bars are through the largest of all."""
    largest = max(max(figures) for _, figures in rows) or 1
    cells = (
        (
            Cell(text=label),
            *(
                Cell(text=f"{figure:,.10g}", share=figure / largest, tone=tone)
                for figure, tone in zip(figures, tones, strict=True)
            ),
        )
        for label, figures in rows
    )
    return Listing(title=title, columns=columns, rows=tuple(cells), figures=frozenset(columns[1:]), text=text)


def _spread(values: Counter[int], steps: Sequence[int]) -> list[float]:
    counts = [0.0] * len(steps)
    for value, count in values.items():
        counts[bisect_right(steps, value) - 1] += count
    return counts


def deltas_chart(*series: Series) -> Listing:
    """Return how many places have how many deltas, for each series of them; more than no deltas at all are known."""
    ends = [step - 1 for step in _DELTAS[1:]]
    labels = [str(step) if step == end else f"{step} to {end}" for step, end in zip(_DELTAS, ends, strict=False)]
    return histogram(
        title="Deltas per place",
        text="A reader merges all deltas of a place each time it reads it.",
        what="Deltas of a place",
        steps=_DELTAS,
        labels=(*labels, f"{_DELTAS[-1]} or more"),
        series=series,
    )


def rest_text(rest: int, noun: str = "place") -> str:
    """What is not in a table."""
    return f"and {rest:,} more {noun}{'' if rest == 1 else 's'}; --output json tells of each" if rest else ""


def shares(values: Iterable[float | None]) -> list[float | None]:
    """Each value through the largest; None for what is not known and where there is nothing to compare."""
    known = list(values)
    largest = max((value for value in known if value), default=0)
    return [None if value is None or not largest else value / largest for value in known]


# --- common -----------------------------------------------------------------------------------------------------------
# What the pages of all jobs tell alike: when the run was, what was set for it, that it could not be done.


def moment(ms: int) -> str:
    """A time for people, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def when(head: Entry) -> str:
    """When the run was, and how long it took."""
    start, end = head.get("start_ms"), head.get("end_ms")
    if start is None or end is None:
        return ""
    last = moment(end).removeprefix(moment(start)[:11])
    return f"{moment(start)} to {last} UTC, {precise(max(0.0, (end - start) / 1000))}"


def precise(seconds: float) -> str:
    """A duration, with a tenth of a second where that matters."""
    return f"{seconds:.1f}".removesuffix(".0") + " s" if seconds < 10 else duration_words(seconds)


def facts(head: Entry) -> tuple[tuple[str, str], ...]:
    """What else is known of the run."""
    known = (
        ("Run", head.get("run_id")),
        ("Version", head.get("version")),
        ("Spark application", head.get("application_id")),
        ("Spark shows it at", head.get("tracking_url")),
    )
    return tuple((label, str(value)) for label, value in known if value)


def settings(head: Entry) -> tuple[tuple[str, str, str], ...]:
    """Those that are not at their defaults: name, value, source."""
    return tuple((one["name"], one["value"], one["source"]) for one in head.get("settings") or ())


def remarks(head: Entry) -> tuple[str, ...]:
    """The notes of the run."""
    return tuple(head.get("notes") or ())


def error_page(document: Entry) -> Page:
    """The page of a run that could not be done."""
    error = document["error"]
    return Page(
        job=document["job"],
        headline="The run could not be done",
        tone=Tone.BAD,
        lead=f"{error['kind']}: {error['message']}",
        facts=facts(document),
    )


# --- draw -------------------------------------------------------------------------------------------------------------
# A page as HTML: the template lays it out.
#
# The result needs nothing beside itself: no request is made for it, and no script runs in it.

_HERE = Path(__file__).resolve().parent
_SEPARATORS = re.compile(r"(?<=[^ /][/.=,_])(?=[^/ ])")


def require_libraries() -> None:
    """RefusedError where what draws a page is not installed."""
    if find_spec("jinja2") is None:
        raise RefusedError("Cannot write a report: jinja2 is not installed; pip install 'acidlib[report]' adds it.")


def require_writable(path: Path) -> None:
    """RefusedError where no file can be made or replaced at a path, as far as that can be told before."""
    folder = path.parent
    if not folder.is_dir():
        reason = f"{folder} is no directory"
    elif path.exists() and not path.is_file():
        reason = "it is there and is no file"
    elif not os.access(folder, os.W_OK | os.X_OK):
        reason = f"nothing may be written to {folder}"
    else:
        return
    raise RefusedError(f"Cannot write the report to {path}: because {reason}")


def html_of(page: Page) -> str:
    """The page as one HTML document. RefusedError where the libraries for it are not installed."""
    require_libraries()
    return _template().render(page=page, style=_style())


def write_page(html: str, path: Path, *, unique: str) -> None:
    """Write a page as a whole or not at all. RetryError where it cannot be written; then what was there is still there.

    unique  belongs to the name of the temporary file
    """
    temporary = path.with_name(f".{path.name}.{unique}.tmp")
    try:
        try:
            with temporary.open("x", encoding="utf-8") as file:
                file.write(html)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RetryError(f"Cannot write the report to {path}: because {error.strerror or error}") from error


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters["breakable"] = _breakable
    return environment.get_template("page.html.j2")


def _printable(value: Any) -> Any:
    """Nothing that turns the direction of a line or cannot be written; what is marked as HTML stays as it is."""
    return value if hasattr(value, "__html__") or not isinstance(value, str) else one_line(value)


def _breakable(text: str) -> Any:
    """A name or path that may go on in another line behind one of its separators."""
    from markupsafe import Markup, escape

    parts = _SEPARATORS.split(one_line(text))
    return Markup("<wbr>").join(escape(part) for part in parts if part)


def _style() -> Any:
    from markupsafe import Markup

    return Markup((_HERE / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - a file of ours


def drawing_error(error: Exception, path: Path) -> AcidError:
    """What is said of a page that could not be drawn or written, when all else is done."""
    text = str(error)
    if not isinstance(error, AcidError):
        text = f"Cannot write the report to {path}: because of an unexpected {type(error).__name__}: {error}"
    return RetryError(f"{text}; what was done is done")
