"""What a run tells at its end, gathered while it goes on in little memory however many places it has."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from acidlib.report.page import Page, summary_of
from acidlib.report.text import json_text

Result = TypeVar("Result", contravariant=True)
Given = TypeVar("Given")


class Totals(Protocol[Result]):
    """Sums over all results."""

    def add(self, result: Result) -> None:
        """Count one more result."""

    def document(self) -> dict[str, Any]:
        """`totals` in the JSON document."""


class Form(Protocol[Result]):
    """Text for people, or a document for programs."""

    def add(self, result: Result) -> None:
        """One more result."""

    def pieces(self, notes: Sequence[str]) -> Iterator[str]:
        """All of it, piece by piece, without a line break at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetValue:
    """A setting that is not at its default: its value as text, and where that comes from."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """When a run began and ended (epoch milliseconds), where Spark ran its tasks, and what was set for it.

    application_id, tracking_url  of Spark; None where it had nothing to do
    """

    start_ms: int
    end_ms: int
    application_id: str | None = None
    tracking_url: str | None = None
    settings: tuple[SetValue, ...] = ()

    def document(self) -> dict[str, Any]:
        """Its fields in the JSON document of a run."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        settings = [{name: getattr(one, name) for name in one.__slots__} for one in self.settings]
        return {**facts, "settings": settings}


class JsonForm(Generic[Given]):
    """A JSON document: of which run it is, an entry for each result under the name `entries`, the totals, the notes.

    The entries are kept compressed until the document is asked for.
    """

    def __init__(
        self,
        *,
        job: str | None,
        version: str,
        run_id: str,
        entries: str,
        entry: Callable[[Given], dict[str, Any]],
        totals: Totals[Given],
        facts: Callable[[], RunFacts] | None = None,
    ) -> None:
        """`facts` are asked for when all is done."""
        self._head = {"job": job, "version": version, "run_id": run_id}
        self._facts = facts
        self._entries = entries
        self._entry = entry
        self._totals = totals
        self._compressor = zlib.compressobj(level=1)
        self._kept: list[bytes] = []
        self._is_empty = True

    def add(self, result: Given) -> None:
        """One more entry."""
        text = json_text({"entries": [self._entry(result)]})
        start, end = text.index("\n    {"), text.rindex("\n  ]")
        separator = "" if self._is_empty else ","
        self._is_empty = False
        self._keep(self._compressor.compress(f"{separator}{text[start:end]}".encode()))

    def pieces(self, notes: Sequence[str]) -> Iterator[str]:
        """The document, as `json_text` writes one. To be asked for once."""
        facts = {} if self._facts is None else self._facts().document()
        whole = json_text({**self._head, **facts, self._entries: [], **_ending(self._totals, notes)})
        if self._is_empty:
            yield whole
            return
        before, empty, after = whole.partition(f'\n  "{self._entries}": []')
        yield before + empty.removesuffix("]")
        self._keep(self._compressor.flush())
        decompressor, decoder = zlib.decompressobj(), codecs.getincrementaldecoder("utf-8")()
        for piece in self._kept:
            yield decoder.decode(decompressor.decompress(piece))
        yield "\n  ]" + after

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._kept.append(piece)


class PageForm(Generic[Given]):
    """The page of a run, made of what its JSON document says, entry by entry: see `JsonForm`."""

    def __init__(
        self,
        *,
        job: str | None,
        version: str,
        run_id: str,
        entry: Callable[[Given], dict[str, Any]],
        totals: Totals[Given],
        facts: Callable[[], RunFacts],
    ) -> None:
        """RefusedError for a job that has no page; `facts` are asked for when all is done."""
        self._head = {"job": job, "version": version, "run_id": run_id}
        self._facts = facts
        self._entry = entry
        self._totals = totals
        self._fold = summary_of(job)

    def add(self, result: Given) -> None:
        """One more entry."""
        self._fold.add(self._entry(result))

    def page(self, notes: Sequence[str]) -> Page:
        """All of it."""
        return self._fold.page({**self._head, **self._facts().document(), **_ending(self._totals, notes)})


def _ending(totals: Totals[Any], notes: Sequence[str]) -> dict[str, Any]:
    """What a document says behind its entries."""
    return {"totals": totals.document(), "notes": list(notes)}


class RunReport(Generic[Given]):
    """The results of one run, given one by one; `page` is what draws them, where that was asked for."""

    def __init__(self, totals: Totals[Given], form: Form[Given], page: PageForm[Given] | None = None) -> None:
        self._totals = totals
        self._form = form
        self.page = page

    def add(self, result: Given) -> None:
        """One more result."""
        self._totals.add(result)
        self._form.add(result)
        if self.page is not None:
            self.page.add(result)

    def pieces(self, notes: Sequence[str]) -> Iterator[str]:
        """What is written to standard output. To be asked for once."""
        return self._form.pieces(notes)
