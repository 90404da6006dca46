"""Our jobs on a Hive 4 metastore, in this process or in one of their own that can be killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acidlib.metastore.transactions import TxnType
from integration.harness import Jobs, Ran, at_time
from integration.hive4_model import Lake, Made

LATER_SECONDS = 3700


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Our jobs on one metastore."""

    jobs: Jobs
    uri: str
    options: tuple[str, ...] = ()
    """Of each job."""

    def __call__(self, job: str, *arguments: str | Path, uri: str | None = None) -> Ran:
        return self.jobs(job, *arguments, *self.options, "--metastore-uri", uri or self.uri)

    def good(self, job: str, *arguments: str | Path, uri: str | None = None) -> Ran:
        """A run that has to end with status 0."""
        ran = self(job, *arguments, uri=uri)
        assert ran.status == 0, ran
        return ran

    def compact(self, made: Made, kind: str = "major") -> Ran:
        """By name: a minor, a major or a rebalance."""
        job = "minor_compact" if kind == "minor" else "major_compact"
        return self.good(job, "--table", made.full, *(("--rebalance",) if kind == "rebalance" else ()))

    def clean(self, *arguments: str | Path) -> list[dict[str, Any]]:
        """At once; what became of each request, in their order."""
        found: list[dict[str, Any]] = self.good("cleaner", "--retention", "0s", *arguments).document["cleanings"]
        return sorted(found, key=lambda one: one["id"] or 0)


def only_line(ran: Ran) -> str:
    """The one line in which a run that could not be done says why; the document says the same."""
    (line,) = ran.err.splitlines()
    assert line.startswith("error: Cannot "), line
    assert ran.error["message"] == line.removeprefix("error: ")
    return line


def check_told(ran: Ran, states: list[str]) -> None:
    """Whether what a run whose connection broke says of its only request is what the queue has now."""
    assert "Traceback" not in ran.err
    if ran.begun:
        (state,) = ran.states
        assert ran.status == (3 if state in ("failed", "conflict") else 0)
        assert ran.compactions[0]["reason"] in ran.err
        expected = {
            "ready for cleaning": ["ready for cleaning"], "failed": ["failed"], "conflict": ["refused", "initiated"],
        }  # fmt: skip
        assert states == expected[state]
    else:
        assert ran.status == 1
        (line,) = [line for line in ran.err.splitlines() if line.startswith("error: ")]
        assert line.startswith("error: Cannot ")
        assert states in (["initiated"], ["working"], ["refused", "initiated"])


def settle(lake: Lake, service: Service, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever went wrong: nothing is lost, and a run later on ends what is left, compacts and cleans.

    It is later than the time after which a run is taken for dead, and the metastore has aborted its transactions.
    """
    lake.check(made)
    for txn in lake.hms.open_txns_info():
        if txn.state == "open":
            lake.hms.abort_txn(txn.id, TxnType.COMPACTION)
    at_time(monkeypatch, LATER_SECONDS)
    service.good("major_compact")  # what was given back
    assert lake.seen(made) == made.expected
    clean_up(lake, service, made)
    assert set(service.compact(made).states) <= {"ready for cleaning", "already compact", "refused"}
    assert lake.seen(made) == made.expected
    clean_up(lake, service, made)
    assert not {"initiated", "working"} & set(lake.states(made))
    for place in made.places:
        (left,) = place.directories()
        assert left.startswith("base_")
        assert [name for name in place.litter() if not name.startswith("_tmp_")] == []
    lake.check(made)


def clean_up(lake: Lake, service: Service, made: Made) -> None:
    """Runs the cleaner until nothing of a table awaits it, as long as every run gets further."""
    while "ready for cleaning" in lake.states(made):
        cleaned = service.clean("--table", made.full)
        assert "succeeded" in {entry["state"] for entry in cleaned}, cleaned
        assert lake.seen(made) == made.expected


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
