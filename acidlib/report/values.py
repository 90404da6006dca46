"""Results as values for programs: the document of a job, its text, and its picture in a notebook."""

from __future__ import annotations

import gzip
import io
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, overload

import msgspec

from acidlib.arguments import Word, option, said_in
from acidlib.errors import RefusedError
from acidlib.model.results import Head, Texts
from acidlib.report.html import fragment_of, has_libraries, html_of, require_libraries, write_page
from acidlib.report.page import ReportPage
from acidlib.report.text import JsonEntry, json_text, wrapped
from acidlib.wording import plural

EXIT_DONE, EXIT_NOT_DONE, EXIT_SOME_FAILED = 0, 1, 3
EXIT_HAS_WARNINGS, EXIT_HAS_ERRORS = 4, 5
"""Exit statuses; 2 is that of a wrong command line (click), the last two are of the status alone."""


T = TypeVar("T")


def plain(value: object) -> Any:
    """Return a value as JSON has it."""
    return json.loads(json.dumps(msgspec.to_builtins(value)))


@dataclass(frozen=True, slots=True, repr=False)
class Packed(Sequence[T]):
    """Values of one kind, compressed: the results of ten thousand places take a few megabytes.

    Each pass over them unpacks them anew. Values that are no dataclasses are as JSON has them, and a caller may change
    them without a change here.
    """

    kind: Any
    compressed: bytes
    length: int

    @property
    def entries(self) -> Packed[JsonEntry]:
        """The same values as JSON has them."""
        return Packed(dict[str, Any], self.compressed, self.length)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[T]:
        with gzip.open(io.BytesIO(self.compressed), "rt", encoding="ascii") as lines:
            for line in lines:
                yield msgspec.convert(json.loads(line), self.kind)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return list(self)[index]
        position = index + self.length if index < 0 else index
        if not 0 <= position < self.length:
            raise IndexError(f"entry {index} of {self.length}")
        return next(islice(self, position, None))

    def __repr__(self) -> str:
        return f"<{plural(self.length, 'entry', 'entries')}>"


class Packer(Generic[T]):
    """Compresses values of one kind as they come, with arguments in the words of a caller."""

    def __init__(self, kind: type[T], *, word: Word = option) -> None:
        self._kind = kind
        self._word = word
        self._buffer = io.BytesIO()
        self._lines = gzip.open(self._buffer, "wt", compresslevel=1, encoding="ascii")  # noqa: SIM115 - open to the end of the run
        self._count = 0

    def add(self, value: T) -> None:
        """Add a value."""
        self._lines.write(json.dumps(msgspec.to_builtins(said_in(value, self._word))) + "\n")
        self._count += 1

    def packed(self) -> Packed[T]:
        """Return all values; none can be added after that."""
        self._lines.close()
        return Packed(self._kind, self._buffer.getvalue(), self._count)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(ABC):
    """The result of a verb: a frozen value. It is what `acidlib JOB --output json` prints, as a program wants it.

    `str()` is the text that the command prints for people, with its notes; a notebook shows the report of the command.

    >>> table = acidlib.directory("warehouse/sales.db/orders", all_committed=True)
    >>> result = table.plan("major")
    >>> result.ok, result.to_dict()["job"], result.places[0].state.value
    (True, 'major_compact', 'planned')
    >>> print(str(result).splitlines()[0])
    sales.orders: major, planned
    >>> result.to_arrow().num_rows
    1
    """

    head: Head
    document: Any
    """The fields after the head, typed by each kind of result."""
    word: Word = field(default=option, compare=False)
    """Has all texts name arguments in the words of the caller."""

    listed: ClassVar[str]
    """The field of the document with the list of entries."""
    kind: ClassVar[type]
    """The type of an entry."""

    def __post_init__(self) -> None:
        """Have the document name arguments in the words of the caller."""
        object.__setattr__(self, "document", said_in(self.document, self.word))

    @property
    def entries(self) -> Sequence[JsonEntry]:
        """The list of the document as JSON has it, an entry for each place or request; docs/json.md has its fields."""
        entries: Sequence[JsonEntry] = plain(getattr(self.document, self.listed))
        return entries

    @property
    @abstractmethod
    def exit_status(self) -> int:
        """The exit status of the command line (docs/operations.md)."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of the job (docs/json.md)."""
        document: dict[str, Any] = plain(self.head) | plain(self.document)
        return document

    def json_pieces(self) -> Iterator[str]:
        """Yield the JSON document as text, piece by piece."""
        yield json_text(self.to_dict())

    @abstractmethod
    def text_pieces(self) -> Iterator[str]:
        """Yield the text for people, piece by piece."""

    @property
    def notes(self) -> Texts:
        """Sentences about the run as a whole."""
        return ()

    @property
    def _untold(self) -> Texts:
        """The notes that the text does not say."""
        return self.notes

    @property
    def nothing(self) -> str:
        """What is said where there was nothing to do; empty where something was done or looked at."""
        return ""

    def page(self) -> ReportPage | None:
        """Return the page for a browser; None for a job that has no page."""
        return None

    @property
    def ok(self) -> bool:
        """Whether all is done that was to be done: the exit status of the command line would be 0."""
        return self.exit_status == EXIT_DONE

    def to_arrow(self) -> Any:
        """Return the entries as a `pyarrow.Table`. Its columns are the fields of an entry, also where there is none."""
        import pyarrow as pa  # slow to import

        from acidlib.report.columns import schema_of

        return pa.Table.from_pylist(list(self.entries), schema=schema_of(self.kind))

    def write_report(self, path: str | Path) -> None:
        """Write the report, a page for a browser, as a whole.

        Raises RefusedError for a job without a report and where jinja2 is not installed, RetryError where the file
        cannot be written.
        """
        page = self.page()
        if page is None:
            raise RefusedError(f"Cannot write a report to {path}: {type(self).__name__} has none")
        require_libraries()
        write_page(html_of(page), Path(path), unique=uuid.uuid4().hex[:16])

    def __str__(self) -> str:
        notes = [line for note in self._untold for line in wrapped(f"note: {note}", "", "      ")]
        text = "".join(self.text_pieces())
        return "\n".join([text, "", *notes]) if notes else text

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {plural(len(self.entries), 'entry', 'entries')}, {'ok' if self.ok else 'not ok'}>"
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the report of the command, or its text where no page can be drawn."""
        page = self.page()
        if page is None or not has_libraries():
            return f"<pre>{escape(str(self))}</pre>"
        return fragment_of(page)
