"""What only Hadoop can open, through the JVM of Spark: odd mount tables are followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hdfs_tables import downloaded, names, uploaded
from judges import merge
from servers.hdfs import Hdfs
from servers.java import SMALL
from servers.process import free_port

import acidlib
from acidlib.api.caller import Caller
from acidlib.errors import RetryError
from acidlib.execute.spark import hadoop_in_jvm
from acidlib.stores.filesystem import UnreachableServers
from acidlib.stores.hadoop import Hadoop
from integration.harness import AROUND, IN_PROCESS, Jobs, fixture

pytestmark = [pytest.mark.live, pytest.mark.spark]

ALL = ("--all-committed",)
SOON = ("--set", "hive.compactor.delta.num.threshold=1")
OPEN = "bucket_00000_flush_length: it is still being written: 0 of its 8 bytes can be read"

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


def test_a_server_that_is_away_is_waited_for_once(jvm: Jvm) -> None:
    server = f"127.0.0.1:{free_port()}"
    mounts = {
        "fs.viewfs.mounttable.away.linkRegex.^/of/.*": f"hdfs://{server}/t",
        "ipc.client.connect.max.retries": "0",
    }
    unanswered = UnreachableServers()
    with pytest.raises(RetryError, match="Cannot open viewfs://away/of/t: Hadoop said ConnectException: "):
        Hadoop(lambda: jvm(mounts)).resolve("viewfs://away/of/t", unanswered)
    with pytest.raises(RetryError, match="Cannot open viewfs://away/of/u: viewfs://away does not answer"):
        Hadoop().resolve("viewfs://away/of/u", unanswered)


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
    assert gone.error["message"].endswith("there is no such file or directory")
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
    caller = Caller(IN_PROCESS)
    reader = acidlib.directory(str(table), write_ids=writing, table_kind="full", hive_version=3, caller=caller)
    with pytest.raises(RetryError, match=rf"^Cannot read {table}/{delta}/{OPEN}$"):
        reader.to_arrow()  # two of its transactions have committed
    for stream in streams:
        stream.close()
    assert reader.to_arrow().num_rows == len(merge.read(local, writing, strict=True))
    (whole,) = jobs.good("major_compact", "--location", str(table), "--write-ids", ended).compactions
    assert whole["output_directories"] == ["base_0000010"]
    jobs.good("cleaner", "--retention", "0s")
    assert merge.read(downloaded(hdfs, table, tmp_path / "copy"), ended, strict=True) == rows
