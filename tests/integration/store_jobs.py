"""Whole jobs on tables in any store, for the suites of each: what they leave is what they leave on a local disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from judges import merge
from judges.fixtures import Fixture, fixtures
from judges.plain_rows import insert_only_rows
from long_runs import amount

from acidlib.location import Location
from integration.harness import Jobs, Ran, fixture, tree

NOW = ("--retention", "0s")
KINDS = ("minor", "major")
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
