"""What cannot be done: one clear line, the documented exit status, and the table as it was."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from judges import merge, tables
from judges.values import open_orc
from mounts import unmount

from acidlib.arguments import said
from acidlib.runs import compact
from acidlib.runs.environment import QUEUE_IN_A_FILE
from acidlib.stores.renaming.store import RenameStage, RenameStore
from integration.children import without_rights
from integration.harness import AROUND, COMMANDS, IN_PROCESS, Jobs, Ran, added, fixture, names, tree

ALL = "--all-committed"
NAMED = (ALL, "--location")


@pytest.fixture
def crud(tmp_path: Path) -> Path:
    return fixture("hive3/a_crud", tmp_path / "lake" / "db.db" / "crud")


GIVEN = ["--location", "{}", "--all-committed"]
WRONG_USAGE = [
    (["--location", "{}"], "what is committed cannot be known from files"),
    ([*GIVEN, "--warehouse", "{}"], "exclude each other"),
    ([*GIVEN, "--table", "a.b"], "--table goes with --warehouse"),
    ([*GIVEN, "--exclude", "a.b"], "--exclude goes with --warehouse"),
    (["--table", "a.b", "--all-committed"], "--table needs --metastore-uri, or --warehouse"),
    (["--warehouse", "{}", "--all-committed"], "--warehouse needs --table"),
    (["--warehouse", "{}", "--all-committed", "--table", "b"], "--table: 'b' is not of the form DB.NAME"),
    (["--warehouse", "{}", "--all-committed", "--table", "a.*", "--exclude", ".b"], "--exclude: '.b' is not of"),
    (["--warehouse", "{}", "--table", "a.b", "--write-ids", "a:1:2::"], "--write-ids is for one table"),
    ([*GIVEN, "--metastore-uri", "thrift://h:9083"], "--metastore-uri excludes"),
    (["--metastore-uri", "h:9083"], "it has to be thrift://host:port"),
    (["--metastore-uri", ""], "no URI is given"),
    (["--metastore-uri", "thrift://h:9083", "--table", "t"], "--table: 't' is not of the form DB.NAME"),
    (["--metastore-uri", "thrift://h:9083", "--table", "d.t", "--partition", "x"], "is not of the form key=glob"),
    (
        ["--metastore-uri", "thrift://h:9083", "--table", "d.t", "--all-committed"],
        "for directories without a metastore",
    ),
    (
        ["--metastore-uri", "thrift://h:9083", "--table", "d.t", "--write-ids", ""],
        "for directories without a metastore",
    ),
    (["--metastore-uri", "thrift://h:9083", "--partition", "p=1"], "--partition needs --table"),
    (["--metastore-uri", "thrift://h:9083", "--exclude", "d.t"], "--exclude needs --table"),
    (["--metastore-uri", "thrift://h:9083", "--pool", " "], "--pool names no pool"),
    (["--pool", "spark"], "--pool needs a metastore"),
    (["--partition", "p=1"], "--partition needs --table"),
    (["--exclude", "d.t"], "--exclude needs --table"),
    (["--all-committed"], "--all-committed goes with --location or --warehouse"),
    (["--hive-version", "4"], "--hive-version goes with --location or --warehouse"),
    ([*GIVEN, "--max-bytes", "many"], "--max-bytes"),
    ([*GIVEN, "--max-bytes", "9" * 5000], "--max-bytes"),
    ([*GIVEN, "--max-partitions", "-1"], "--max-partitions"),
    ([*GIVEN, "--time-budget", "soon"], "--time-budget"),
    ([*GIVEN, "--time-budget", "-1h"], "--time-budget"),
    ([*GIVEN, "--idle", "1x"], "--idle"),
    ([*GIVEN, "--idle", "9" * 400 + "d"], "--idle"),
    ([*GIVEN, "--idle"], "--idle"),
    ([*GIVEN, "--order", "random"], "--order"),
    ([*GIVEN, "--hive-version", "2"], "--hive-version"),
    ([*GIVEN, "--table-kind", "parquet"], "--table-kind"),
    ([*GIVEN, "--visibility-txn", "0"], "--visibility-txn"),
    ([*GIVEN, "--no-such-option"], "No such option"),
    ([*GIVEN, "--write-ids", "db.crud:4:5::"], "contradict"),
    ([*GIVEN, "--partition", "2026"], "Cannot use the partition pattern '2026': '2026' is not of the form"),
    ([*GIVEN, "--partition", "=2026"], "is not of the form key=glob"),
    ([*GIVEN, "--partition", ""], "is not of the form key=glob"),
    ([*GIVEN, "--set", "hive.compactor.no.such.key=1"], "hive.compactor.no.such.key"),
    ([*GIVEN, "--set", "hive.compactor.delta.num.threshold=x"], "it is not a whole number"),
    ([*GIVEN, "--set", "hive.compactor.delta.num.threshold"], "it is not of the form key=value"),
    ([*GIVEN, "--set", "hive.compactor.worker.timeout=" + "9" * 400], "it is not a duration"),
    (["--location", "{}", "--write-ids", "db.other:4:9223372036854775807::"], "the table is db.crud"),
    (
        ["--location", "{}", "--write-ids", "db.crud"],
        "Cannot read the write-id list 'db.crud': it has 1 fields",
    ),
    (["--location", "{}", "--write-ids", "db.crud:four:5::"], "'four' in field 2 is not a write id"),
    (["--location", "{}", "--write-ids", ""], "Cannot read the write-id list ''"),
    (["--location", "", "--all-committed"], "it names no path"),
    (["--location", "wasb://c@a/t", "--all-committed"], "Azure Blob Storage, which renames no directories, is not sup"),
    (
        ["--location", "webhdfs://nn/t", "--all-committed"],
        "Cannot open webhdfs://nn/t: HDFS over HTTP is not",
    ),
    (["--location", "o3fs://bucket/t", "--all-committed"], "its authority is not BUCKET.VOLUME"),
    (["--location", "hdfs:///t", "--all-committed"], "fs.defaultFS is not set"),
    (["--location", "file://other/t", "--all-committed"], "names this machine only"),
    (["stray"], "unexpected extra argument"),
]


@pytest.mark.parametrize(("options", "told"), WRONG_USAGE)
def test_wrong_usage_ends_with_2(jobs: Jobs, crud: Path, options: list[str], told: str) -> None:
    before = tree(crud)
    ran = jobs("major_compact", *(option.format(crud) for option in options))
    assert ran.status == 2
    assert told in " ".join(ran.err.split())
    assert ran.error["kind"] == "usage"
    assert told in ran.error["message"]
    assert tree(crud) == before


OF_OTHER_JOBS = [
    ("initiator", [], "give --metastore-uri, --warehouse or --location"),
    ("initiator", ["--location", "{}", "--write-ids", "x.y:4:9223372036854775807::"], "the table is db.crud"),
    ("initiator", [*GIVEN, "--partition", "ds"], "is not of the form key=glob"),
    ("initiator", ["--warehouse", "{}", "--all-committed", "--exclude", "raw"], "--exclude: 'raw' is not of the form"),
    ("initiator", [*GIVEN, "--pool", "x"], "--pool needs a metastore"),
    ("initiator", [*GIVEN, "--set", "x=1"], "Cannot set x: there is no such setting"),
    ("cleaner", ["--retention", "-1d"], "is not a duration"),
    ("cleaner", ["--location", "s3:///t"], "it names no bucket"),
    ("cleaner", ["--location", "{}", "--metastore-uri", "thrift://h"], "--metastore-uri excludes"),
    ("cleaner", ["--location", "{}", "--table", "a.b"], "names the table already"),
    ("cleaner", ["--metastore-uri", "none", "--table", "a.b"], "need --metastore-uri or --warehouse"),
    ("cleaner", ["--metastore-uri", "thrift://h", "--table", "b"], "--table: 'b' is not of the form DB.NAME"),
    ("cleaner", ["--metastore-uri", "thrift://h", "--partition", "2026"], "is not of the form key=glob"),
    ("cleaner", ["--older-than", "1d"], "go with --orphans"),
    ("cleaner", ["--delete"], "go with --orphans"),
    ("cleaner", ["--orphans"], "--orphans needs"),
    ("cleaner", ["--orphans", "--location", "{}", "--warehouse", "{}"], "exclude each other"),
    ("cleaner", ["--orphans", "--location", "{}", "--retention", "1d"], "--orphans excludes --retention"),
    ("cleaner", ["--orphans", "--location", "{}", "--delete", "--trash"], "--delete excludes"),
    ("show_compactions", ["--blockers"], "--blockers needs a metastore"),
    ("show_compactions", ["--metastore-uri", "ftp://h"], "it has to be thrift://host:port"),
    ("show_compactions", ["--set", "x=1"], "Cannot set x: there is no such setting"),
    ("show_compactions", ["--no-such-option"], "No such option"),
    ("show_compactions", ["--hive"], "--hive excludes"),
    ("status", ["--location", "{}", "--metastore-uri", "thrift://h"], "--metastore-uri excludes"),
    ("status", ["--location", "{}", "--warehouse", "{}"], "exclude each other"),
    ("status", ["--metrics-file", "a.txt"], "has to end in .prom"),
]


@pytest.mark.parametrize(("job", "options", "told"), OF_OTHER_JOBS)
def test_wrong_usage_of_other_jobs(jobs: Jobs, crud: Path, job: str, options: list[str], told: str) -> None:
    before = tree(crud)
    ran = jobs(job, *(option.format(crud) for option in options))
    assert (ran.status, ran.document["job"]) == (2, job)
    assert ran.error["kind"] == "usage"
    assert told in ran.error["message"]
    assert told in " ".join(ran.err.split())
    assert tree(crud) == before


NAMING = {
    "major_compact": ["--all-committed"],
    "minor_compact": ["--all-committed"],
    "initiator": ["--all-committed"],
    "show_place": ["--all-committed"],
    "cleaner": [],
    "cleaner of orphans": ["--orphans"],
    "status": [],
}
"""The jobs that look at what is named, and the words that they need for it."""


@pytest.mark.parametrize("name", NAMING)
def test_typos_and_what_is_no_acid_table_end_alike_in_all_jobs(jobs: Jobs, crud: Path, name: str) -> None:
    job, words = name.partition(" ")[0], NAMING[name]
    other = crud.parent / "plain"
    other.mkdir()
    (other / "part-0.parquet").write_bytes(b"PAR1")
    typo = jobs(job, "--location", crud.parent / "cruz", *words)
    assert (typo.status, typo.error["kind"]) == (1, "missing")
    assert str(crud.parent / "cruz") in typo.error["message"]
    (note,) = jobs.good(job, "--location", crud.parent / "cruz", *words, "--if-exists").document.get("notes", [""])[:1]
    assert job == "show_place" or str(crud.parent / "cruz") in note
    for more in ((), ("--if-exists",)):
        ran = jobs(job, "--location", other, *words, *more)
        assert (ran.status, ran.error["kind"]) == (1, "refused")
        assert "original files only" in ran.error["message"]
    assert jobs(job, "--location", crud, *words).begun


NOT_DONE = [
    (["--location", "{}/nothing", "--all-committed"], "missing", "no such file"),
    (["--location", "{}/delta_0000001_0000001_0000/bucket_00000", "--all-committed"], "refused", "not a directory"),
    (["--location", "{}/delta_0000001_0000001_0000", "--all-committed"], "refused", "original files only"),
    (["--location", "{}/..", "--all-committed"], "refused", "it is a directory of tables, such as crud"),
    (["--location", "{}/../..", "--all-committed"], "refused", "it is a directory of databases, such as db.db"),
    (["--warehouse", "{}", "--all-committed", "--table", "a.b"], "refused", "is a part of a table"),
    (["--warehouse", "{}/nothing", "--all-committed", "--table", "a.b"], "missing", "no such file"),
]


@pytest.mark.parametrize(("options", "kind", "told"), NOT_DONE)
def test_what_cannot_be_done_ends_with_1_and_one_line(
    jobs: Jobs, crud: Path, options: list[str], kind: str, told: str
) -> None:
    before = tree(crud)
    ran = jobs("major_compact", *(option.format(crud) for option in options))
    assert ran.status == 1
    assert len(ran.err.strip().splitlines()) == 1
    assert ran.err.startswith("error: Cannot ")
    assert told in ran.err
    assert "unexpected" not in ran.err
    assert ran.error == {"kind": kind, "message": ran.err.removeprefix("error: ").strip()}
    assert tree(crud) == before


def test_settings_of_files_are_no_usage(
    jobs: Jobs, crud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hive-site.xml").write_text(
        "<configuration><property><name>hive.compactor.delta.num.threshold</name><value>x</value></property>"
        "</configuration>"
    )
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    ran = jobs("major_compact", *NAMED, crud)
    assert (ran.status, ran.error["kind"]) == (1, "refused")
    assert "from hive-site.xml" in ran.error["message"]


@pytest.mark.parametrize(
    ("url", "status"), [("nonsense", 2), ("oracle+none://h/q", 2), ("sqlite:////proc/none/q.db", 1)]
)
def test_a_queue_that_cannot_be_opened(jobs: Jobs, crud: Path, url: str, status: int) -> None:
    before = tree(crud)
    ran = jobs("major_compact", "--location", crud, "--all-committed", queue_url=url)
    assert (ran.status, ran.error["kind"]) == (status, "usage" if status == 2 else "retry")
    assert ran.error["message"].startswith("Cannot open the queue")
    assert ran.err.strip().splitlines()[-1].lower().startswith("error: cannot open the queue")
    assert tree(crud) == before


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("closed/queue.db", "there is no such file, and this user may not create one in"),
        ("dark/queue.db", "/dark/queue.db cannot be accessed (Permission denied)"),
        ("dark/more/queue.db", "its folder cannot be created (Permission denied)"),
        ("folder", "/folder is a directory"),
    ],
)
def test_a_queue_that_may_not_be_made_says_why(jobs: Jobs, tmp_path: Path, made: str, told: str) -> None:
    jobs.good("show_compactions")  # loads what another user may not be allowed to read of the interpreter's files
    for name, mode in (("closed", 0o555), ("dark", 0), ("folder", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    url = f"sqlite:///{tmp_path / made}"
    ran = without_rights(tmp_path, lambda: jobs("show_compactions", queue_url=url))
    assert (ran.status, ran.error["kind"]) == (1, "retry")
    assert ran.error["message"].startswith(f"Cannot open the queue {url}: ")
    assert told in ran.error["message"]


def test_a_list_file_that_cannot_be_read(jobs: Jobs, crud: Path, tmp_path: Path) -> None:
    for file, told in (
        (tmp_path, f"Cannot read the write-id lists {tmp_path}: it is a directory"),
        (crud / "no-file", f"Cannot read the write-id lists {crud}/no-file: there is no such file or directory"),
        (__file__, f"Cannot use the write-id lists {__file__}: Cannot read the write-id list "),
    ):
        ran = jobs("major_compact", "--location", crud, "--write-ids-file", file)
        assert (ran.status, ran.error["kind"]) == (2, "usage")
        assert ran.error["message"].startswith(told)
    (tmp_path / "lists").touch(mode=0)
    ran = without_rights(
        tmp_path, lambda: jobs("major_compact", "--location", crud, "--write-ids-file", tmp_path / "lists")
    )
    assert (ran.status, ran.error["kind"]) == (1, "retry")
    assert "/lists: the permission is missing: user nobody needs the right to read (r) on " in ran.error["message"]


def test_a_queue_on_a_machine_that_spark_chose(
    jobs: Jobs, crud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run would not find it; what is named is taken at its word."""
    monkeypatch.setattr(AROUND, "placed", True)
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    words = ("--output", "json", *NAMED, str(crud))
    ran = CliRunner().invoke(COMMANDS["major_compact"], words, obj=IN_PROCESS)
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["error"] == {"kind": "refused", "message": said(QUEUE_IN_A_FILE)}
    assert not (tmp_path / "home").exists()
    assert jobs.good("major_compact", *words).states == ["ready for cleaning"]


def test_a_queue_file_that_is_no_database(jobs: Jobs, crud: Path, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database" * 100)
    ran = jobs("major_compact", "--location", crud, "--all-committed", queue_url=f"sqlite:///{tmp_path / 'text.db'}")
    assert ran.status == 1
    assert "Cannot open the queue" in ran.err
    assert len(ran.err.strip().splitlines()) == 1


INSERT_ONLY = [
    "hive3/h_mm_orc", "hive3/h_mm_parquet", "hive3/h_mm_textfile", "hive3/h2_mm_part", "hive4/insert_only_orc",
    "hive4/insert_only_parquet",
]  # fmt: skip


@pytest.mark.pairs
@pytest.mark.parametrize("name", INSERT_ONLY)
@pytest.mark.parametrize("kind", ["major_compact", "minor_compact"])
def test_insert_only_tables_have_to_be_named_so(jobs: Jobs, tmp_path: Path, name: str, kind: str) -> None:
    place = fixture(name, tmp_path / "db.db" / "t")
    before = tree(place)
    ran = jobs(kind, *NAMED, place)
    assert ran.status == 0, ran
    assert {"refused"} <= set(ran.states) <= {"refused", "already compact"}
    reasons = [entry["reason"] for entry in ran.compactions]
    assert any("if the table is insert-only" in r or "whether the table is full ACID or" in r for r in reasons)
    after = tree(place)
    assert added(before, after) == set()


@pytest.mark.parametrize("kind", ["major_compact", "minor_compact"])
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("start", "state", "told"),
    [
        (None, "refused", "is Parquet, and a full ACID table is ORC; if the table is insert-only, give --table-kind"),
        (b"Obj\x01", "refused", "is Avro, and a full ACID table is ORC"),
        (b"SEQ\x06", "refused", "is a sequence file, and a full ACID table is ORC"),
        (b"RCF\x01", "refused", "is RCFile, and a full ACID table is ORC"),
        (b"1,a\n2", "failed", "does not begin as an ORC file does; if the table is insert-only, give --table-kind"),
        (b"1", "failed", "does not begin as an ORC file does"),
    ],
)
def test_a_table_of_another_format_is_not_full_acid_because_somebody_says_so(
    jobs: Jobs, tmp_path: Path, kind: str, dry: tuple[str, ...], start: bytes | None, state: str, told: str
) -> None:
    place = fixture("hive3/h_mm_parquet", tmp_path / "db.db" / "t")
    for file in place.glob("*/000000_0"):
        file.write_bytes(file.read_bytes() if start is None else start)
    before = tree(place)
    ran = jobs(kind, *NAMED, place, "--table-kind", "full", *dry)
    assert (ran.status, ran.states) == (0 if state == "refused" else 1, [state])
    assert told in ran.compactions[0]["reason"]
    assert added(before, tree(place)) == set()


def test_original_files_alone_are_not_proven_transactional(jobs: Jobs, tmp_path: Path) -> None:
    place = fixture("hive3/g_orig", tmp_path / "t")
    for path in list(place.iterdir()):
        if path.is_dir():
            shutil.rmtree(path)
    ran = jobs("major_compact", *NAMED, place)
    assert ran.status == 1
    assert "do not prove that the table is transactional" in ran.err


def spoil(place: Path, how: str) -> None:
    if how == "unknown directory":
        (place / "delta_1_x").mkdir()
    elif how == "stray file in a delta":
        (place / "delta_0000001_0000001_0000" / "notes.txt").write_text("hello")
    elif how == "symlink":
        (place / "delta_0000009_0000009_0000").symlink_to(place / "delta_0000001_0000001_0000")
    elif how == "symlink to a file":
        (place / "delta_0000001_0000001_0000" / "bucket_00001").symlink_to("bucket_00000")
    elif how == "fifo":
        os.mkfifo(place / "delta_0000001_0000001_0000" / "bucket_00001")
    elif how == "directory as file":
        (place / "delta_0000001_0000001_0000" / "bucket_00001").mkdir()
        (place / "delta_0000001_0000001_0000" / "bucket_00001" / "bucket_00000").write_bytes(b"x")
    elif how == "name that is not UTF-8":
        os.mkdir(os.fsencode(place) + b"/delta_\xff")  # noqa: PTH102 - a path of bytes
    elif how == "base with an unknown kind":
        (place / "base_0000001").mkdir()
        (place / "base_0000001" / "bucket_00000").write_bytes(b"")
        (place / "base_0000001" / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"new"}')
    elif how == "damaged side file":
        (place / "delta_0000001_0000001_0000" / "bucket_00000_flush_length").write_bytes(b"1234")


@pytest.mark.parametrize(
    "how",
    [
        "unknown directory", "stray file in a delta", "symlink", "symlink to a file", "fifo", "directory as file",
        "name that is not UTF-8", "base with an unknown kind", "damaged side file",
    ],
)  # fmt: skip
def test_what_does_not_belong_in_a_table(jobs: Jobs, crud: Path, how: str) -> None:
    spoil(crud, how)
    before = sorted(os.listdir(os.fsencode(crud)))  # noqa: PTH208 - names of bytes
    contents = {path: path.read_bytes() for path in crud.glob("d*/bucket_00000") if path.is_file()}
    ran = jobs("major_compact", *NAMED, crud)
    if ran.begun:
        assert ran.states[0] in ("failed", "refused", "conflict"), how
        assert ran.status == (0 if ran.states == ["refused"] else 1)
    else:
        assert ran.status == 1
    told = ran.told
    assert told.startswith("Cannot ")
    assert "unexpected" not in told
    assert "\n" not in told.strip()
    assert sorted(os.listdir(os.fsencode(crud))) == before  # noqa: PTH208 - names of bytes
    assert {path: path.read_bytes() for path in contents} == contents


def test_a_hidden_directory_and_a_foreign_staging_are_nothing_to_us(jobs: Jobs, crud: Path) -> None:
    (crud / ".hive-staging_1").mkdir()
    (crud / ".hive-staging_1" / "bucket_00000").write_bytes(b"x")
    (crud / "_tmp_space").mkdir()
    (crud / "_link").symlink_to("/")
    assert jobs.good("major_compact", *NAMED, crud).states == ["ready for cleaning"]
    assert {".hive-staging_1", "_tmp_space", "_link"} <= set(names(crud))


def test_zero_byte_files_are_empty_and_listed(jobs: Jobs, crud: Path) -> None:
    empty = crud / "delta_0000002_0000002_0000" / "bucket_00000"
    empty.write_bytes(b"")
    rows = merge.read(crud)
    (entry,) = jobs.good("major_compact", *NAMED, crud).compactions
    assert merge.read(crud, strict=True) == rows
    assert entry["empty_files"] == [str(empty.relative_to(crud))]


def test_only_zero_byte_files(jobs: Jobs, crud: Path) -> None:
    for file in crud.glob("*delta*/bucket_00000"):
        file.write_bytes(b"")
    ran = jobs("major_compact", *NAMED, crud)
    assert ran.status == 0
    assert "unexpected" not in ran.out
    assert merge.read(crud) == []


@pytest.mark.pairs
@pytest.mark.parametrize("kind", ["major_compact", "minor_compact"])
@pytest.mark.parametrize("lone", [False, True], ids=["with its file", "alone"])
@pytest.mark.parametrize("noted", [b"", b"\0" * 7, (1 << 40).to_bytes(8)], ids=["empty", "torn", "too much"])
def test_a_side_file_of_a_writer_that_was_aborted(
    jobs: Jobs, tmp_path: Path, kind: str, noted: bytes, lone: bool
) -> None:
    """Nobody wants its rows; of a writer that committed some, the side file has to tell which."""
    stream = fixture("hive3/j_stream", tmp_path / "j_stream")
    aborted = "default.j_stream:10:9223372036854775807::3,5,6,7,8,9,10"
    before = merge.read(stream, aborted)
    file = stream / "delta_0000006_0000010" / "bucket_00000"
    side = file.with_name("bucket_00000_flush_length")
    side.write_bytes(noted)
    if lone:
        file.unlink()
    for some in ("3,5,7,8,9,10", "6"):
        ran = jobs(kind, "--location", stream, "--write-ids", f"default.j_stream:10:9223372036854775807::{some}")
        assert (ran.status, ran.states) == (1, ["failed"])
        assert str(side.relative_to(stream)) in ran.compactions[0]["reason"]
    (entry,) = jobs.good(kind, "--location", stream, "--write-ids", aborted).compactions
    assert entry["state"] == "ready for cleaning"
    for path in (stream / "delta_0000006_0000010").iterdir():
        path.unlink()
    assert merge.read(stream, aborted, strict=True) == before


@pytest.mark.pairs
@pytest.mark.parametrize("kind", ["major_compact", "minor_compact"])
@pytest.mark.parametrize("empty", ["struct<>", "struct<a:int>", "struct<a:int,s:string,later:date>"])
def test_the_columns_are_those_of_the_newest_file_with_rows(jobs: Jobs, tmp_path: Path, empty: str, kind: str) -> None:
    """A writer without rows need not know the columns: Hive 3.1 may leave `struct<>`."""
    for write_id, columns, row in ((1, "struct<a:int>", (1,)), (2, "struct<a:int,s:string>", (2, "two"))):
        tables.write_dir(
            tmp_path / "t", tables.delta_name(write_id, write_id), columns, tables.inserts(write_id, [row])
        )
    for write_id in (3, 4):
        directory = tables.write_dir(tmp_path / "t", tables.delta_name(write_id, write_id), empty, [])
        (directory / "bucket_00000").write_bytes(tables.acid_bytes(empty, []))
    before = merge.read(tmp_path / "t")
    assert [row[-1] for row in before] == [(1, None), (2, "s:two")]
    for options in (["--dry-run"], []):
        (entry,) = jobs.good(kind, *NAMED, tmp_path / "t", *options).compactions
        assert entry["rows_out"] == 2
    (file,) = (tmp_path / "t").glob("*_0000004/bucket_00000")
    assert open_orc(file).schema.fields["row"].fields.keys() == {"a", "s"}
    assert merge.read(tmp_path / "t", strict=True) == before


@pytest.mark.parametrize("where", ["delta_0000001_0000001_0000/bucket_00000", "delta_0000001_0000001_0000", "."])
def test_unreadable_paths(jobs: Jobs, tmp_path: Path, crud: Path, where: str) -> None:
    # loads what another user may not be allowed to read of the interpreter's files
    jobs.good("major_compact", *NAMED, fixture("hive3/a_crud", tmp_path / "other"))
    before = tree(crud)
    (crud / where).chmod(0)
    ran = without_rights(tmp_path, lambda: jobs("major_compact", *NAMED, crud))
    assert ran.status == 1
    assert "the permission is missing" in ran.told
    assert "unexpected" not in ran.told
    (crud / where).chmod(before[where][1] & 0o7777)
    assert {name: facts[0] for name, facts in tree(crud).items()} == {name: facts[0] for name, facts in before.items()}


@pytest.mark.parametrize(
    ("where", "named"), [("db.db/shut", "db.shut"), ("db.db/part", "db.part"), ("shut.db", "shut")]
)
def test_what_cannot_be_read_in_a_warehouse_is_no_empty_set(jobs: Jobs, tmp_path: Path, where: str, named: str) -> None:
    """A job ends as it does for a partition that cannot be read, and the other tables are looked at."""
    warehouse = tmp_path / "warehouse"
    fixture("hive3/a_crud", warehouse / "db.db/open")
    shut = warehouse / where
    fixture("hive3/a_crud", shut / "dt=1" if where.endswith("part") else shut)
    decide, plan = ("initiator", ALL, "--dry-run"), ("major_compact", ALL, "--dry-run", "--table", "*")
    for job, *options in (("status", ALL), decide, plan, ("cleaner", "--orphans")):
        jobs(
            job, "--warehouse", warehouse, *options
        )  # loads what another user may not be allowed to read of the interpreter's files
    (shut / "dt=1" if where.endswith("part") else shut).chmod(0)

    def run(job: str, *options: str | Path) -> Ran:
        return without_rights(tmp_path, lambda: jobs(job, "--warehouse", warehouse, *options))

    status = run("status", ALL)
    (finding,) = (one for one in status.document["findings"] if one["level"] == "error")
    assert ".".join(filter(None, (finding["database"], finding["table"]))) == named
    assert (status.status, finding["trouble"], "permission" in finding["reason"]) == (5, "not readable", True)
    assert "open" in {one["table"] for one in status.document["tables"]}
    for chosen in ((), ("--table", f"{named}*")):
        initiated = run(*decide, *chosen)
        assert (initiated.status, initiated.document["totals"]["failed"]) == (3, 1)
    assert run(*decide, "--table", "db.open", "--exclude", "shut.*").status == 0
    assert run(*plan).status == 3
    assert run("cleaner", "--orphans").status == 3


@pytest.mark.parametrize("allowed", [0, 400, 2000])
def test_no_space_in_the_middle(jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
    """The disk takes so many more bytes of data files and then no more."""
    from acidlib.stores.renaming import local as datafiles

    left = [allowed]

    def write(descriptor: int, data) -> int:
        left[0] -= len(data)
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(descriptor, data)

    class Full:
        def __getattr__(self, name: str):
            return write if name == "write" else getattr(os, name)

    monkeypatch.setattr(datafiles, "os", Full())
    before = tree(crud)
    ran = jobs("major_compact", *NAMED, crud)
    if allowed == 2000:
        assert ran.states == ["ready for cleaning"]
        return
    assert (ran.status, ran.states) == (1, ["failed"])
    assert "no space is left on the device" in ran.compactions[0]["reason"]
    assert added(before, tree(crud)) == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_disk_that_is_really_full(jobs: Jobs, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=False, capture_output=True
    ).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        place = fixture("hive3/a_crud", disk / "crud")
        filler = disk / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4096):
                pass
        rows, before = merge.read(place), tree(place)
        ran = jobs("major_compact", *NAMED, place)
        assert (ran.status, ran.states) == (1, ["failed"])
        assert "no space is left on the device" in ran.compactions[0]["reason"]
        assert added(before, tree(place)) == set()
        filler.unlink()
        assert jobs.good("major_compact", *NAMED, place).states == ["ready for cleaning"]
        assert merge.read(place, strict=True) == rows
    finally:
        unmount(disk)


def test_one_partition_does_not_stop_the_others(jobs: Jobs, tmp_path: Path) -> None:
    part = fixture("hive3/b_part", tmp_path / "db.db" / "part")
    rows = {path.name: merge.read(path) for path in part.iterdir()}
    damaged = part / "dt=2024-01-02" / "delete_delta_0000004_0000004_0000" / "bucket_00000"
    damaged.write_bytes(damaged.read_bytes()[:100])
    before = tree(damaged.parents[1])
    ran = jobs("major_compact", *NAMED, part, "--order", "name")
    assert ran.status == 3
    assert ran.states == ["ready for cleaning", "failed", "ready for cleaning"]
    assert str(damaged) in ran.compactions[1]["reason"]
    assert added(before, tree(damaged.parents[1])) == set()
    for name in ("dt=2024-01-01", "dt=2024-01-03"):
        assert merge.read(part / name, strict=True) == rows[name]
    assert [row["state"] for row in jobs.shown().values()] == ["ready for cleaning", "failed", "ready for cleaning"]


@pytest.mark.parametrize("step", ["choose_inputs", "publish", "publication_conflict_reason", "collect_results"])
def test_a_fault_of_ours_in_one_partition_does_not_stop_the_others(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    module = RenameStage if step == "publish" else compact
    part = fixture("hive3/b_part", tmp_path / "db.db" / "part")
    real, calls = getattr(module, step), []

    def faulty(*args, **more):
        calls.append(step)
        if len(calls) == 2:
            raise IndexError("a mistake")
        return real(*args, **more)

    monkeypatch.setattr(module, step, faulty)
    ran = jobs("major_compact", *NAMED, part, "--order", "name")
    assert ran.status == 3
    assert ran.states == ["ready for cleaning", "failed", "ready for cleaning"]
    assert "unexpected IndexError: a mistake" in ran.compactions[1]["reason"]
    assert not [name for name in names(part / "dt=2024-01-02") if name.startswith("_")]


def test_a_source_file_that_vanishes(jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's cleaner has taken an input while we read: nothing is published."""

    real = RenameStore.stage

    def vanished(*args, **more):
        shutil.rmtree(crud / "delta_0000002_0000002_0000")
        return real(*args, **more)

    monkeypatch.setattr(RenameStore, "stage", vanished)
    ran = jobs("major_compact", *NAMED, crud)
    assert (ran.status, ran.states) == (1, ["failed"])
    assert "delta_0000002_0000002_0000" in ran.compactions[0]["reason"]
    assert not [name for name in names(crud) if name.startswith(("_", "base"))]


def test_an_interrupt_gives_everything_back(jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    before = tree(crud)

    def interrupted(*args, **more):
        os.kill(os.getpid(), 15)
        raise AssertionError("the signal was not seen")

    monkeypatch.setattr(RenameStage, "publish", interrupted)
    ran = jobs("major_compact", *NAMED, crud)
    assert ran.status == 128 + 15
    assert ran.err.strip().splitlines()[-1] == "error: interrupted by SIGTERM: of 1 place 1 stopped"
    assert ran.error["kind"] == "interrupted"
    assert added(before, tree(crud)) == set()
    monkeypatch.undo()
    assert jobs.good("major_compact", *NAMED, crud).states == ["ready for cleaning"]
    monkeypatch.undo()


def test_an_interrupt_before_any_place_is_begun(jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("acidlib.ports.sql.SqlRequests.recover", interrupted)
    ran = jobs("major_compact", *NAMED, crud)
    assert (ran.status, ran.error["kind"]) == (130, "interrupted")
    told = "interrupted by SIGINT: what was done stays, everything else is as it was"
    assert (ran.error["message"], ran.err.splitlines()[-1]) == (told, f"error: {told}")


def test_an_interrupt_between_two_renames_leaves_what_finishes_them(
    jobs: Jobs, crud: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from integration.test_named_compaction import TWO_RENAMES, break_second_rename, raise_retry

    rows = merge.read(crud)
    steps = iter([lambda: os.kill(os.getpid(), 15), raise_retry])
    with monkeypatch.context() as patch:
        break_second_rename(patch, lambda: next(steps)())
        ran = jobs("minor_compact", *NAMED, crud, *TWO_RENAMES)
    assert ran.status == 128 + 15
    assert "_acidlib_claim" not in names(crud)
    assert merge.read(crud) != rows
    jobs.good("cleaner")
    assert merge.read(crud, strict=True) == rows
