"""Which page belongs to which document: also a saved one can be drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from acidlib.errors import RefusedError
from acidlib.report.page.compactions import CompactionsFold
from acidlib.report.page.decisions import CleanerFold, InitiatorFold
from acidlib.report.page.parts import Fold, Page, error_page
from acidlib.report.page.status import StatusFold

_FOLDS: Mapping[str, tuple[str, Callable[[], Fold]]] = {
    "major_compact": ("compactions", CompactionsFold),
    "minor_compact": ("compactions", CompactionsFold),
    "initiator": ("decisions", InitiatorFold),
    "cleaner": ("cleanings", CleanerFold),
    "status": ("tables", StatusFold),
}


def fold_of(job: str | None) -> Fold:
    """What makes a page of the entries of a job's document. RefusedError for a job that has none."""
    return _found(job)[1]()


def page_of(document: Mapping[str, Any]) -> Page:
    """The page of a whole document. RefusedError for one of a job that has none."""
    if "error" in document:
        return error_page(document)
    entries, make = _found(document["job"])
    fold = make()
    for entry in document[entries]:
        fold.add(entry)
    return fold.page({name: value for name, value in document.items() if name != entries})


def _found(job: str | None) -> tuple[str, Callable[[], Fold]]:
    found = _FOLDS.get(job or "")
    if found is None:
        raise RefusedError(f"Cannot draw a report: because {job} has none")
    return found
