"""Names and links that somebody with a right to write below a table could lay: nothing beyond the table is touched."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from judges import merge

from integration.harness import Jobs, Ran, at_time, fixture, names, tree, visible

ALL = ("--all-committed",)
NOW = ("--retention", "0s")
TWO_RENAMES = ("--minor-as-major-bytes", "0")

VALUES = {
    "dots": "..",
    "escaped dots": "%2e%2e",
    "escaped path": "..%2F..%2Foutside",
    "escaped zero": "%00",
    "broken escape": "%zz%",
    "newline": "a\nb\r\n",
    "quotes": "a'b\"c`d\\e",
    "statement": "'; DROP TABLE COMPACTION_QUEUE; --",
    "shell": "$(touch outside);`id`|&>x *?[a]{b}~",
    "terminal": "\x1b[2J\x1b]0;title\x07\x9b31m",
    "turned": "\u202egpj.exe",
    "composed": "é",
    "decomposed": "e\u0301",
    "blank": " ",
    "option": "--delete",
    "long": "x" * 250,
    "default": "__HIVE_DEFAULT_PARTITION__",
}


def harmless(ran: Ran) -> None:
    """Nothing in what is printed is a command of a terminal."""
    for stream in (ran.out, ran.err):
        assert all(line.isprintable() for line in stream.split("\n"))


def test_partitions_of_any_name_from_the_scan_to_the_cleaning(jobs: Jobs, tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    table = root / "db.db" / "t"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious")
    places = {name: fixture("hive3/a_crud", table / f"p={value}") for name, value in VALUES.items()}
    rows = {name: merge.read(place) for name, place in places.items()}
    before, beside = tree(outside), {*names(tmp_path), "queue.db"}

    scan = jobs.good("initiator", "--location", table, *ALL, "--set", "hive.compactor.delta.num.threshold=1")
    named = [entry["location"] for entry in scan.document["decisions"]]
    assert sorted(named) == sorted(map(str, places.values()))
    for value in VALUES.values():  # passed over, and told so in a note
        (root / "db.db" / value.replace("..", "dots")).mkdir()
    notes = jobs("initiator", "--warehouse", root, *ALL, "--dry-run", text=True)
    for value in VALUES.values():
        (root / "db.db" / value.replace("..", "dots")).rmdir()
    assert notes.err.count("note: ") >= len(VALUES) - 2
    shown = jobs("show_compactions", text=True)
    planned = jobs("major_compact", "--dry-run", text=True)
    done = jobs.good("major_compact")
    assert done.states == ["ready for cleaning"] * len(VALUES)
    assert {entry["location"] for entry in done.compactions} == set(named)
    told = jobs("cleaner", *NOW, "--dry-run", text=True)
    cleaned = jobs.good("cleaner", *NOW)
    text = jobs("show_compactions", text=True)
    for ran in (scan, notes, shown, planned, done, told, cleaned, text, jobs("show_compactions")):
        harmless(ran)
    assert {entry["state"] for entry in cleaned.document["cleanings"]} == {"succeeded"}
    for name, place in places.items():
        assert names(place) == ["base_0000004"], name
        assert merge.read(place, strict=True) == rows[name]
    assert sorted(os.listdir(table)) == sorted(f"p={value}" for value in VALUES.values())  # noqa: PTH208 - as it is
    assert (tree(outside), names(root), names(table.parent)) == (before, ["db.db"], ["t"])
    assert set(names(tmp_path)) <= beside


@pytest.mark.parametrize("location", ["t\x1b[2J\x9b", "t\nx", "t\udcff"])
def test_an_error_about_a_hostile_name_is_one_harmless_line(jobs: Jobs, tmp_path: Path, location: str) -> None:
    ran = jobs("major_compact", "--location", f"{tmp_path}/{location}", *ALL)
    assert ran.status == 1
    assert len(ran.err.rstrip("\n").split("\n")) == 1
    harmless(ran)


def test_values_of_one_look_are_two_partitions(jobs: Jobs, tmp_path: Path) -> None:
    """Unicode has two forms of é; Hive and file systems of Linux tell them apart."""
    table = tmp_path / "db.db" / "t"
    one, two = (fixture("hive3/a_crud", table / f"p={value}") for value in ("é", "e\u0301"))
    jobs.good("major_compact", "--location", table, *ALL, "--partition", "p=é")
    assert "base_0000004" in visible(one)
    assert "base_0000004" not in visible(two)


# --- links ------------------------------------------------------------------------------------------------------------


def lay(place: Path, outside: Path, what: str) -> None:
    """Replace something of a table by a link to what lies outside, or add one."""
    links = {
        "delta": ("delta_0000002_0000002_0000", outside / "delta"),
        "new delta": ("delta_0000009_0000009_0000", outside / "delta"),
        "base": ("base_0000001", outside / "base"),
        "result": ("base_0000004", outside / "empty"),
        "half of a result": ("delete_delta_0000001_0000004", outside / "empty"),
        "data file": ("delta_0000002_0000002_0000/bucket_00000", outside / "delta" / "bucket_00000"),
        "version file": ("delta_0000002_0000002_0000/_orc_acid_version", outside / "version"),
        "side file": ("delta_0000002_0000002_0000/bucket_00000_flush_length", outside / "version"),
        "original file": ("000000_0", outside / "delta" / "bucket_00000"),
        "directory of original files": ("HIVE_UNION_SUBDIR_1", outside / "delta"),
        "claim": ("_acidlib_claim", outside / "claim"),
        "dangling claim": ("_acidlib_claim", outside / "nowhere"),
        "staging": ("_tmp_old", outside / "staging"),
        "publication": ("_tmp_rec/publish.json", outside / "publish.json"),
        "trash": ("_acidlib_trash", outside / "empty"),
        "half-made claim": ("_acidlib_claim.x.tmp", outside / "claim"),
        "Hive's staging": (".hive-staging_1", outside / "staging"),
    }
    name, target = links[what]
    link = place / name
    link.parent.mkdir(exist_ok=True)
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


LINKS = [
    "delta", "new delta", "base", "result", "half of a result", "data file", "version file", "side file",
    "original file", "directory of original files", "claim", "dangling claim", "staging", "publication", "trash",
    "half-made claim", "Hive's staging",
]  # fmt: skip


@pytest.mark.parametrize("when", ["before", "after the compaction"])
@pytest.mark.parametrize("what", LINKS)
def test_no_link_leads_out_of_a_table(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, when: str
) -> None:
    """Whatever is done then, and done days later: what lies behind the link is as it was, and the link is no input."""
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "t")
    outside = tmp_path / "outside"
    fixture("hive3/a_crud", outside / "table")
    shutil.copytree(outside / "table" / "delta_0000001_0000001_0000", outside / "delta")
    shutil.copytree(outside / "delta", outside / "base")
    (outside / "empty").mkdir()
    (outside / "version").write_bytes(b"2")
    (outside / "claim").write_text(json.dumps({"owner": "o", "token": "t", "start": 1.0, "beat": 1.0}))
    (outside / "staging" / "_attempts").mkdir(parents=True)
    (outside / "staging" / "_acidlib_staging").write_text("{}")
    record = {"version": 1, "directories": [{"name": "base_0000009", "files": {}}], "inputs": []}
    (outside / "publish.json").write_text(json.dumps(record))
    for path in (*outside.rglob("*"), outside):
        os.utime(path, (time.time() - 30 * 86_400,) * 2)
    if when != "before":
        jobs.good("major_compact", "--location", place, *ALL)
        jobs.good("initiator", "--location", place, *ALL, "--set", "hive.compactor.delta.num.threshold=1")
    before = tree(outside)
    lay(place, outside, what)
    runs = [
        ("major_compact", "--location", place, *ALL),
        ("minor_compact", "--location", place, *ALL, *TWO_RENAMES),
        ("minor_compact",),
        ("cleaner", *NOW, "--dry-run"),
        ("cleaner", *NOW),
        ("cleaner", *NOW, "--trash"),
        ("cleaner", "--orphans", "--location", place, "--older-than", "0s", "--delete"),
    ]
    for days in (0, 5):
        with monkeypatch.context() as patch:
            at_time(patch, days * 86_400)
            for words in runs:
                ran = jobs(*words)
                assert "unexpected" not in ran.out + ran.err, (words, ran)
                assert tree(outside) == before, words
    for base in place.glob("base_*"):
        if base.is_dir() and not base.is_symlink():
            assert not [path for path in base.rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("job", ["major_compact", "minor_compact", "cleaner"])
def test_a_place_that_became_a_link_since_it_was_queued(jobs: Jobs, tmp_path: Path, job: str) -> None:
    place = fixture("hive3/a_crud", tmp_path / "db.db" / "t")
    other = fixture("hive3/a_crud", tmp_path / "other.db" / "precious")
    if job == "cleaner":
        jobs.good("major_compact", "--location", place, *ALL)
    else:
        threshold = "hive.compactor.delta.num.threshold=1"
        jobs.good("initiator", "--location", place, *ALL, "--set", threshold)
    place.rename(tmp_path / "aside")
    place.symlink_to(other)
    before = tree(other)
    ran = jobs(job, *(NOW if job == "cleaner" else ()))
    assert tree(other) == before
    if job != "minor_compact":
        (entry,) = ran.document["cleanings"] if job == "cleaner" else ran.compactions
        assert entry["state"] in ("refused", "failed", "conflict")


def test_a_link_among_tables_and_partitions_is_passed_over(jobs: Jobs, tmp_path: Path) -> None:
    real = fixture("hive3/b_part", tmp_path / "warehouse" / "db.db" / "part")
    outside = fixture("hive3/a_crud", tmp_path / "outside")
    (tmp_path / "warehouse" / "db.db" / "linked").symlink_to(outside)
    (tmp_path / "warehouse" / "linked.db").symlink_to(tmp_path / "warehouse" / "db.db")
    (real / "dt=9999-12-31").symlink_to(outside)
    before = tree(outside)
    ran = jobs.good("major_compact", "--warehouse", tmp_path / "warehouse", "--table", "*", *ALL)
    assert ran.states == ["ready for cleaning"] * 3
    assert sum("it is a symbolic link" in note for note in ran.document["notes"]) == 3
    jobs.good("cleaner", *NOW)
    assert tree(outside) == before
