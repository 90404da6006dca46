"""Whole jobs on tables on HDFS: what they leave there is what they leave on a local disk."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from crud_walk_through import BASE, TABLE, check_base, check_row_ids, files_below
from hdfs_tables import downloaded, mount_table, uploaded, viewed
from judges import merge
from judges.fixtures import Fixture
from servers.hdfs import Hdfs
from store_tables import StoreTables

from acidlib.location import HDFS, S3, parse_location
from acidlib.stores.stores import Stores
from integration.harness import AROUND, Jobs, visible
from integration.store_jobs import NOW, each_table, leave_the_same_bytes

pytestmark = pytest.mark.live


@pytest.fixture(autouse=True)
def configured(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))


@each_table(usual=slice(0, None, 3))
def test_the_same_bytes_as_on_a_local_disk(
    hdfs: Hdfs, jobs: Jobs, tmp_path: Path, table: Fixture, kind: str, steady_deflate: None
) -> None:
    to_and_fro = {"upload": partial(uploaded, hdfs), "download": partial(downloaded, hdfs)}
    leave_the_same_bytes(jobs, tmp_path, table, kind, **to_and_fro)


@pytest.mark.parametrize(("store", "scheme"), [(HDFS, "hdfs"), (HDFS, "viewfs"), (S3, "s3a")])
def test_the_walk_through(
    hdfs: Hdfs,
    stores: StoreTables,
    jobs: Jobs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store: str,
    scheme: str,
) -> None:
    """From the scan to the cleaning: the files, rows and row ids of Hive."""
    hives = TABLE.copy(tmp_path / "hives", "after_major")
    table = stores.uploaded(TABLE.before, store, "crud")
    monkeypatch.setattr(AROUND, "hadoop", {**AROUND.hadoop, **mount_table(hdfs)})
    named = viewed(table) if scheme == "viewfs" else str(table)
    before = merge.read(TABLE.before, strict=True)

    def copied() -> Path:
        copy = stores.downloaded(table, tmp_path / "copy")
        assert merge.read(copy, strict=True) == before
        return copy

    warehouse = ("--warehouse", named.rpartition("/")[0], "--all-committed")
    scanned = jobs.good("initiator", *warehouse, "--set", "hive.compactor.delta.num.threshold=1")
    [decided] = scanned.document["decisions"]
    assert (decided["location"], decided["type"]) == (str(table), "major")
    [compacted] = jobs.good("major_compact").compactions
    assert compacted["location"] == str(table)
    copy = copied()
    assert files_below(copy) == files_below(hives)
    check_base(copy, hives)
    check_row_ids(copy)
    [cleaned] = jobs.good("cleaner", "--location", named, *NOW).document["cleanings"]
    assert (cleaned["state"], cleaned["location"]) == ("succeeded", str(table))
    assert visible(copied()) == [BASE]
    check_base(copy, hives)


def test_a_mount_table_means_what_hadoop_makes_of_it(hdfs: Hdfs) -> None:
    """One directory each for the links, and one that the longer of two names that begin alike may not hide."""
    root = parse_location(hdfs.new_directory())
    for name in ("a", "ab/x", "b/ab/y", "rest/c/z", "rest/d"):
        hdfs.client().mkdirs(root.child(name).path, create_parent=True)
    table = {
        "link./a": str(root),
        "link./ab": f"{root}/ab/",
        "link./deep/er": f"{root}/b",
        "linkFallback": f"{root}/rest",
    }
    table = {f"fs.viewfs.mounttable.t.{entry}": target for entry, target in table.items()}
    stores = Stores(configuration=hdfs.configuration | table)
    paths = {"/a/ab": f"{root}/ab", "/ab": f"{root}/ab", "/deep/er/ab": f"{root}/b/ab", "/c": f"{root}/rest/c"}
    words = [word for entry in table.items() for word in ("-D", "=".join(entry))]
    seen = hdfs.shell(*words, "-ls", "-C", *(f"viewfs://t{path}" for path in paths)).split()
    assert seen == [f"viewfs://t{path}" for path in ("/a/ab/x", "/ab/x", "/deep/er/ab/y", "/c/z")]
    found = [stores.locate(f"viewfs://t{path}") for path in paths]
    assert list(map(str, found)) == list(paths.values())
    assert [entry.name for place in found for entry in stores.fs(place).list_directory(str(place))] == list("xxyz")
