"""Whole jobs on tables in any store, for the suites of each: what they leave is what they leave on a local disk."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from judges import merge
from judges.fixtures import Fixture, fixtures
from judges.plain_rows import insert_only_rows
from long_runs import amount

from acidlib.location import Location
from integration.harness import AROUND, Jobs, Ran, fixture, tree

ALL = ("--all-committed",)
NOW = ("--retention", "0s")
KINDS = ("minor", "major")
UNCLEAR = re.compile(r"Traceback|botocore|urllib3|unexpected|Exception|object at 0x|\bNone\b(?!-)|  ")
Upload = Callable[[Path, str], Location]
Download = Callable[[Location, Path], Path]


def each_table(*, first: str = "minor", usual: slice) -> pytest.MarkDecorator:
    """Every table with one kind of compaction, in turn; with a store that begins by the other, both kinds of each.

    In a usual run some of them: a store knows names and bytes, and not what is in them.
    """
    tables = [*fixtures(), *fixtures(insert_only=True)]
    pairs = [(table, KINDS[(KINDS.index(first) + number) % 2]) for number, table in enumerate(tables)]
    pairs = amount([*pairs[usual], *pairs[-1:]], long=pairs)
    return pytest.mark.parametrize(("table", "kind"), pairs, ids=[f"{table.name}-{kind}" for table, kind in pairs])


def asked(table: Fixture) -> tuple[str, ...]:
    said = ("--write-ids", table.write_ids) if table.write_ids else ("--all-committed",)
    txn = ("--visibility-txn", "9000001") if table.generation == 4 else ()
    kind = ("--table-kind", "insert-only") if table.insert_only else ()
    return *said, *kind, *txn, "--hive-version", str(table.generation), "--order", "name"


def alike(ran: Ran, place: str) -> object:
    """The results without what differs between two runs, and with the table's own location left out."""
    text = json.dumps(ran.compactions).replace(place, "")
    varying = ("start_ms", "end_ms", "seconds", "rewrite_seconds", "verification", "id")
    return json.loads(text, object_hook=lambda found: {k: v for k, v in found.items() if k not in varying})


def contents(root: Path) -> dict[str, str]:
    return {name: facts[0] for name, facts in tree(root).items() if name != "."}


def without_claims(place: Path) -> dict[str, str]:
    """What lies there, but for the objects that say that nobody claims it."""
    return {name: what for name, what in contents(place).items() if not name.endswith("_acidlib_claim")}


def leave_the_same_bytes(
    jobs: Jobs, tmp_path: Path, table: Fixture, kind: str, *, upload: Upload, download: Download
) -> None:
    """In a store that renames: a compaction and its cleaning leave the files that they leave on a disk."""
    local = fixture(table.name, tmp_path / "local" / table.folder.name)
    remote = upload(local, local.name)
    here = jobs(f"{kind}_compact", "--location", local, *asked(table))
    there = jobs(f"{kind}_compact", "--location", str(remote), *asked(table), "--verify")
    assert there.status == here.status, there
    assert all(one["verification"] for one in there.compactions if one["output_directories"])
    assert alike(there, str(remote)) == alike(here, str(local))
    copy = tmp_path / "copy/t"
    assert contents(download(remote, copy)) == contents(local)
    for place in (local, remote):
        jobs.good("cleaner", "--location", str(place), *NOW)
    assert contents(download(remote, copy)) == contents(local)


def leave_the_same_rows(
    jobs: Jobs, tmp_path: Path, table: Fixture, kind: str, *, upload: Upload, download: Download
) -> Location:
    """In a bucket, where each compaction is a major: the rows stay, and a major leaves the files of a disk."""
    local = fixture(table.name, tmp_path / "local" / table.folder.name)
    before = _rows(table, local)
    remote = upload(local, local.name)
    there = jobs(f"{kind}_compact", "--location", str(remote), *asked(table), "--verify")
    here = jobs(f"{kind}_compact", "--location", local, *asked(table))
    assert there.status == here.status, there
    assert all(one["verification"] for one in there.compactions if one["output_directories"])
    copy = download(remote, tmp_path / "copy/t")
    assert _rows(table, copy) == before
    if kind == "major":
        assert without_claims(copy) == contents(local)
    jobs.good("cleaner", "--location", str(remote), *NOW)
    assert _rows(table, download(remote, copy)) == before
    return remote


def _rows(table: Fixture, place: Path) -> object:
    parts = merge.partitions(place)
    if table.insert_only:
        return [insert_only_rows(part, table.write_ids, generation=table.generation) for part in parts]
    return [merge.read(part, table.write_ids, generation=table.generation, strict=True) for part in parts]


# --- with something wrong ---------------------------------------------------------------------------------------------


def clear(text: str) -> str:
    """A reason: one line that people understand."""
    assert "\n" not in text
    assert not UNCLEAR.search(text), text
    assert re.match(r"Cannot .*: [^ ]", text), text
    return text


def awaiting_cleaning(
    folder: Path, upload: Callable[[Path], Location], properties: Mapping[str, str]
) -> tuple[Location, Path]:
    """A table that awaits its cleaning, and the queue that says so."""
    place, queue = upload(fixture("hive3/a_crud", folder / "t")), folder / "queue.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AROUND, "hadoop", properties)
        patch.setenv("ACIDLIB_HOME", str(folder))
        Jobs(queue_url=f"sqlite:///{queue}").good("major_compact", "--location", str(place), *ALL)
    return place, queue


def end_in_one_line(jobs: Jobs, place: Location, because: str, *, named: str | None = None) -> None:
    """Each job at a place that awaits its cleaning says why it does nothing there, and names the place, or `named`."""
    for job in ("initiator", "major_compact", "minor_compact"):
        ran = jobs(job, "--location", str(place), *ALL)
        assert ran.status == 1, ran
        assert because in clear(ran.error["message"]), ran
        assert (str(place) if named is None else named) in ran.error["message"], ran
        assert ran.err == f"error: {ran.error['message']}\n", ran
    ran = jobs("cleaner", *NOW)
    (entry,) = ran.document["cleanings"]
    assert (ran.status, entry["state"], entry["removed"]) == (3, "failed", []), ran
    assert because in clear(entry["reason"]), ran
