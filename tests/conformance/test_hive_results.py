"""Names, metadata, write-id ranges, bucket files and rows: equal to what Hive's own compactor made of the same table.

Allowed to differ: the visibility transaction, the empty twin that Hive 3.1 writes beside a result of one kind, and the
number in a name where Hive 4's query-based compaction takes the high-water mark.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from compaction import MAJOR, MINOR
from judges import orc_tail as o
from judges.merge import raw_rows
from judges.values import open_orc

from conformance.conftest import Compaction
from conformance.hive_tables import HiveTable, hive_results, hive_table, hive_tables

WRONG_IN_HIVE = {("hive3/m_multiwriter", "after_minor")}  # every delete event in every bucket file
ONE_DELTA = {("hive3/j_stream", "after_minor")}  # Hive 3.1 replaces a single delta; here there is nothing to merge
NOT_COMPARED = WRONG_IN_HIVE | ONE_DELTA
RESULTS = [
    pytest.param(table, what, id=f"{table}-{what}")
    for table in hive_tables()
    for kind in ("major", "minor")
    for what in hive_results(table, kind)
    if (str(table), what) not in NOT_COMPARED
]


def kind_of(what: str):
    return MAJOR if "major" in what else MINOR


def plain(name: str) -> str:
    return re.sub(r"_v\d+$", "", name)


def bucket_rows(directory: Path) -> dict[str, list[tuple]]:
    return {path.name: raw_rows(path) for path in sorted(directory.glob("bucket_*"))}


def hives_directories(table: HiveTable, what: str) -> dict[str, Path]:
    """Hive's results by name, without those that hold no row beside one that does."""
    found = {plain(path.name): path for path in sorted(table.after(what).iterdir())}
    filled = {name: path for name, path in found.items() if any(bucket_rows(path).values())}
    return filled or dict(list(found.items())[:1])


@pytest.mark.parametrize(("table", "what"), RESULTS)
def test_directories_have_hives_names(table: HiveTable, what: str, compacted: Compaction) -> None:
    names = compacted(table, kind_of(what)).compacted.directories
    assert {plain(name) for name in names} == set(hives_directories(table, what))
    assert all(("_v" in name) is (table.generation == 4) for name in names)


@pytest.mark.parametrize(("table", "what"), RESULTS)
def test_bucket_files_and_their_rows_are_hives(table: HiveTable, what: str, compacted: Compaction) -> None:
    case = compacted(table, kind_of(what))
    hives = hives_directories(table, what)
    for name in case.compacted.directories:
        assert bucket_rows(case.location / name) == bucket_rows(hives[plain(name)])


@pytest.mark.parametrize(("table", "what"), RESULTS)
def test_markers_are_hives(table: HiveTable, what: str, compacted: Compaction) -> None:
    case = compacted(table, kind_of(what))
    hives = hives_directories(table, what)
    for name in case.compacted.directories:
        ours = {path.name: path for path in (case.location / name).iterdir()}
        theirs = {path.name: path for path in hives[plain(name)].iterdir()}
        assert set(ours) == set(theirs)
        assert ours["_orc_acid_version"].read_bytes() == theirs["_orc_acid_version"].read_bytes() == b"2"
        if "_metadata_acid" in theirs:
            assert json.loads(ours["_metadata_acid"].read_text()) == json.loads(theirs["_metadata_acid"].read_text())


@pytest.mark.parametrize(("table", "what"), RESULTS)
def test_footer_metadata_and_columns_are_hives(table: HiveTable, what: str, compacted: Compaction) -> None:
    """The keys that Hive wrote; its query-based compaction writes some of them only, and field names in lower case."""
    case = compacted(table, kind_of(what))
    hives = hives_directories(table, what)
    for path in case.files:
        theirs = hives[plain(path.parent.name)] / path.name
        ours, hive = o.read_orc(path), o.read_orc(theirs)
        assert set(ours.user) == {"hive.acid.version", "hive.acid.stats", "hive.acid.key.index"}
        assert {key: ours.user[key] for key in hive.user if key.startswith("hive.acid.")} == hive.user
        assert str(open_orc(path).schema).lower() == str(open_orc(theirs).schema).lower()
        assert str(open_orc(path).schema).startswith("struct<operation:int,originalTransaction:bigint,bucket:int,")


@pytest.mark.parametrize("what", ["after_major", "after_minor"])
def test_hives_results_that_are_compared_are_all_but_the_known_ones(what: str) -> None:
    compared = {str(p.values[0]) for p in RESULTS if p.values[1] == what}
    missing = {str(table) for table in hive_tables() if table.after(what).is_dir()} - compared
    assert missing == {table for table, where in NOT_COMPARED if where == what}


def test_the_delete_events_of_several_writers_lie_in_their_own_buckets(compacted: Compaction) -> None:
    """What Hive 3.1's minor does wrong: an event belongs to the bucket in its key, and to no other."""
    case = compacted(hive_table("hive3/m_multiwriter"), MINOR)
    events = bucket_rows(case.location / case.compacted.directories[1])
    assert len(events) == 3
    for name, rows in events.items():
        assert rows
        assert {row[2] >> 16 & 0xFFF for row in rows} == {int(name.removeprefix("bucket_"))}
