"""What the pages of all jobs tell alike: when the run was, what was set for it, that it could not be done."""

from __future__ import annotations

from datetime import UTC, datetime

from acidlib.report.page.parts import Entry, Page, Tone
from acidlib.wording import duration_words


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
