"""What only Hadoop can open, through the JVM of Spark: other schemes are listed, odd mount tables are followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from filesystem_behaviour import FileSystemBehaviour
from hdfs_tables import downloaded, names, uploaded
from judges import merge
from servers.hdfs import Hdfs
from servers.java import SMALL
from servers.process import free_port
from sqlalchemy import create_engine, text

from acidlib.engine.spark import hadoop_in_jvm
from acidlib.errors import RetryError
from acidlib.storage.hdfs.filesystem import HdfsFileSystem
from acidlib.storage.jvm.filesystem import JvmFileSystem
from acidlib.storage.jvm.hadoop import Hadoop
from acidlib.storage.local import LocalFileSystem
from acidlib.storage.unanswered import Unanswered
from integration.harness import AROUND, Jobs, fixture, tree

pytestmark = [pytest.mark.live, pytest.mark.spark]

ALL = ("--all-committed",)
SOON = ("--set", "hive.compactor.delta.num.threshold=1")
OPEN = "bucket_00000_flush_length: because it is still being written: 0 of its 8 bytes can be read"
REFUSED = "because of Apache Ozone only listings are supported: nothing here reads or writes data files there"

Jvm = Callable[[Mapping[str, str]], tuple[Any, Any]]


@pytest.fixture(scope="module")
def jvm() -> Jvm:
    """What Spark has, with a configuration that says more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_LAUNCHER_OPTS", " ".join(SMALL))
        view, configuration = hadoop_in_jvm()

    def with_more(properties: Mapping[str, str]) -> tuple[Any, Any]:
        more = view.org.apache.hadoop.conf.Configuration(configuration)
        for name, value in properties.items():
            more.set(name, value)
        return view, more

    return with_more


class Looking:
    """A file system that is looked at by Hadoop and changed in another way."""

    def __init__(self, looks: JvmFileSystem, changes: LocalFileSystem | HdfsFileSystem) -> None:
        self._looks, self._changes = looks, changes

    def __getattr__(self, name: str) -> Any:
        looks = ("exists", "is_directory", "entry", "owner", "list_directory", "list_tree", "read")
        return getattr(self._looks if name in looks else self._changes, name)


class TestLooking:
    """The same as of local disks and HDFS, on both."""

    @pytest.fixture(params=["local", "hdfs"])
    def place(self, request: pytest.FixtureRequest, hdfs: Hdfs, tmp_path: Path) -> str:
        return str(tmp_path) if request.param == "local" else hdfs.new_directory()

    @pytest.fixture
    def fs(self, jvm: Jvm, hdfs: Hdfs, place: str) -> Looking:
        local = place.startswith("/")
        return Looking(
            JvmFileSystem(Hadoop(lambda: jvm({}))),
            LocalFileSystem() if local else HdfsFileSystem(hdfs.authority, hdfs.configuration),
        )

    test_what_is_there = FileSystemBehaviour.test_what_is_there
    test_reading = FileSystemBehaviour.test_reading
    test_listing_one_directory = FileSystemBehaviour.test_listing_one_directory
    test_listing_a_tree = FileSystemBehaviour.test_listing_a_tree
    test_odd_names = FileSystemBehaviour.test_odd_names


NAME = "ofs://om/vol/db.db/t"
OZONE = {
    "fs.ofs.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
    "fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.viewfs.overload.scheme.target.hdfs.impl": "org.apache.hadoop.hdfs.DistributedFileSystem",
}
"""Another class of Hadoop's in the place of Ozone's; it shows local directories by names of that scheme."""


def test_places_of_a_scheme_that_only_hadoop_knows(
    jvm: Jvm, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are scanned. Whatever would change them is refused, dry runs of it too, and nothing is touched."""
    table = fixture("hive3/a_crud", tmp_path / "vol/db.db/t")
    before = tree(table)
    mounts = {"fs.viewfs.mounttable.om.link./vol": f"file://{tmp_path}/vol"}
    monkeypatch.setattr(AROUND, "jvm", lambda: jvm(OZONE | mounts))
    for words in (("--location", NAME), ("--warehouse", "ofs://om/vol")):
        [decided] = jobs.good("initiator", *words, *ALL, *SOON).document["decisions"]
        assert (decided["location"], decided["type"], decided["queued"]) == (NAME, "major", None)
        assert REFUSED in decided["reason"]
        assert decided["deltas"] > 0
    for job, options in (("major_compact", ()), ("major_compact", ("--dry-run",)), ("minor_compact", ())):
        ran = jobs(job, "--location", NAME, *ALL, *options)
        assert (ran.status, ran.states) == (0, ["refused"]), ran
        assert REFUSED in ran.told
        assert "\n" not in ran.told
        assert tree(table) == before
    jobs.good("major_compact", "--location", str(table), *ALL)
    noted = {name: f"location{len(place)}:{place}" for name, place in (("here", str(table)), ("there", NAME))}
    with create_engine(jobs.queue_url).begin() as queue:
        change = "UPDATE COMPACTION_QUEUE SET CQ_TBLPROPERTIES = replace(CQ_TBLPROPERTIES, :here, :there)"
        queue.execute(text(change), noted)
    before = tree(table)
    for options in (("--dry-run",), ()):
        ran = jobs("cleaner", "--retention", "0s", *options)
        cleaned = next(one for one in ran.document["cleanings"] if one["id"] is not None)
        assert (cleaned["location"], cleaned["state"]) == (NAME, "failed")
        assert REFUSED in cleaned["reason"]
    assert tree(table) == before


def test_a_scheme_of_which_hadoop_has_no_class(jvm: Jvm, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AROUND, "jvm", lambda: jvm({}))
    for uri in ("o3fs://bucket.volume/t", "abfss://c@a.dfs.core.windows.net/t"):
        ran = jobs("initiator", "--location", uri, *ALL)
        assert ran.status == 2
        told = ran.error["message"]
        scheme = uri.partition(":")[0]
        assert f"Cannot open {uri}: because Spark's Hadoop has no file system for {scheme}:" in told
        assert told.endswith("bring its jar by --packages or --jars")


def test_a_server_that_is_away_is_waited_for_once(jvm: Jvm) -> None:
    away = f"hdfs://127.0.0.1:{free_port()}"
    unanswered = Unanswered()
    fs = JvmFileSystem(Hadoop(lambda: jvm({"ipc.client.connect.max.retries": "0"})), unanswered)
    with pytest.raises(RetryError, match=f"Cannot look at {away}/t: because Hadoop said ConnectException: "):
        fs.exists(f"{away}/t")
    with pytest.raises(RetryError, match=f"Cannot list {away}/other: because {away} does not answer"):
        JvmFileSystem(Hadoop(), unanswered).list_directory(f"{away}/other")
    with pytest.raises(RetryError, match=f"Cannot open {away}/t: because {away} does not answer"):
        Hadoop().require(f"{away}/t", unanswered)
    with pytest.raises(RetryError, match=f"Cannot open {away}/t: because {away} does not answer"):
        Hadoop().resolve(f"{away}/t", unanswered)


def test_links_by_expressions_are_followed_by_hadoop(
    hdfs: Hdfs, jvm: Jvm, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the scan to the cleaning: what lies behind is HDFS, by its own name."""
    table = uploaded(hdfs, fixture("hive3/a_crud", tmp_path / "t"), "crud")
    before = merge.read(downloaded(hdfs, table, tmp_path / "copy"), strict=True)
    link = r"fs.viewfs.mounttable.rx.linkRegex.^/of/(?<which>[\w-]+)"
    mounts = {link: f"{hdfs.uri}/tests/${{which}}", "fs.viewfs.mounttable.rx.link./of/copies": str(table)}
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    monkeypatch.setattr(AROUND, "hadoop", mounts)
    monkeypatch.setattr(AROUND, "jvm", lambda: jvm(mounts))
    named = f"viewfs://rx/of/{table.path.split('/')[2]}/crud"
    [decided] = jobs.good("initiator", "--location", named, *ALL, *SOON).document["decisions"]
    assert (decided["location"], decided["type"]) == (str(table), "major")
    jobs.good("major_compact")
    [cleaned] = jobs.good("cleaner", "--location", named, "--retention", "0s").document["cleanings"]
    assert (cleaned["location"], cleaned["state"]) == (str(table), "succeeded")
    assert [name for name in names(hdfs, table) if name[0] != "_"] == ["base_0000004"]
    assert merge.read(downloaded(hdfs, table, tmp_path / "copy"), strict=True) == before
    gone = jobs("initiator", "--location", f"{named}/absent", *ALL)
    assert gone.error["message"].endswith("because there is no such file or directory")
    inside = jobs("initiator", "--location", "viewfs://rx/of", *ALL)
    assert "links below it" in inside.error["message"]


def test_a_streaming_writer_that_has_its_files_open(
    hdfs: Hdfs, jvm: Jvm, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Hive's does, it flushes with each commit. Beside its open transactions all goes on; below them, later."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    local = fixture("hive3/j_stream", tmp_path / "j_stream")
    table = uploaded(hdfs, local, "j_stream")
    writing, ended = "default.j_stream:10:8:8,9,10:3,5", "default.j_stream:10:9223372036854775807::3,5"
    rows = merge.read(local, ended, strict=True)
    delta = "delta_0000006_0000010"
    view, configuration = jvm({})
    root = view.org.apache.hadoop.fs.Path(str(table))
    files = root.getFileSystem(configuration)
    streams = []
    for name, first in (("bucket_00000", 583), ("bucket_00000_flush_length", 8)):
        hdfs.client().delete(table.child(f"{delta}/{name}").path)
        stream = files.create(view.org.apache.hadoop.fs.Path(f"{table}/{delta}/{name}"), False)
        data = (local / delta / name).read_bytes()
        for piece in (data[:first], data[first:]):
            stream.write(bytearray(piece))
            stream.hflush()
        streams.append(stream)
        # the name node is told of a block by the first flush, and not of what comes after it
        assert hdfs.client().get_file_info(table.child(f"{delta}/{name}").path).length == first
    (beside,) = jobs.good("major_compact", "--location", str(table), "--write-ids", writing).compactions
    assert (beside["state"], beside["output_directories"]) == ("ready for cleaning", ["base_0000005"])
    jobs.good("cleaner", "--retention", "0s")
    assert names(hdfs, table)[-2:] == ["base_0000005", delta]
    ran = jobs("major_compact", "--location", str(table), "--write-ids", ended)
    assert (ran.status, ran.states) == (1, ["failed"])
    assert OPEN in ran.told
    assert "\n" not in ran.told
    for stream in streams:
        stream.close()
    (whole,) = jobs.good("major_compact", "--location", str(table), "--write-ids", ended).compactions
    assert whole["output_directories"] == ["base_0000010"]
    jobs.good("cleaner", "--retention", "0s")
    assert merge.read(downloaded(hdfs, table, tmp_path / "copy"), ended, strict=True) == rows
