"""From the name of a location to its store, through links and mount tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from acidlib.errors import RefusedError
from acidlib.location import parse_location
from acidlib.stores.hadoop import resolve_viewfs
from acidlib.stores.renaming.hdfs_client import NameNode
from acidlib.stores.stores import Stores
from unit.stores.places import put

TABLE = {
    "fs.viewfs.mounttable.c.link./w": "hdfs://ns1/warehouse/",
    "fs.viewfs.mounttable.c.link./w/far": "hdfs://ns2:9000/far",
    "fs.viewfs.mounttable.c.link./data/one": "hdfs://ns1/one",
    "fs.viewfs.mounttable.c.link./data/two": "hdfs:///two",
    "fs.viewfs.mounttable.c.link./disk": "file:///disk",
    "fs.viewfs.mounttable.c.link./bucket": "s3a://b/w",
    "fs.viewfs.mounttable.c.link./gone": "webhdfs://ns1/gone",
    "fs.viewfs.mounttable.c.link./other": "viewfs://rest/w",
    "fs.viewfs.mounttable.c.linkNfly.minReplication=2,readMostRecent=true./copies": "hdfs://ns1/a,hdfs://ns2/b",
    "fs.viewfs.mounttable.c.homedir": "/users",
    "fs.viewfs.mounttable.rest.link./w": "hdfs://ns1/warehouse",
    "fs.viewfs.mounttable.rest.linkFallback": "hdfs://ns2/rest",
    "fs.viewfs.mounttable.whole.linkMergeSlash": "hdfs://ns1/",
    "fs.viewfs.mounttable.some.link./w": "hdfs://ns1/w",
    "fs.viewfs.mounttable.some.linkNfly../copies": "hdfs://ns1/a,hdfs://ns2/b",
    "fs.viewfs.mounttable.some.linkRegex.replaceresolveddstpath:_:-#.^/x": "hdfs://ns1/x",
    "fs.viewfs.mounttable.odd.linkAnew./w": "hdfs://ns1/w",
    "fs.viewfs.mounttable.default.link./w": "hdfs://ns3/w",
    "fs.defaultFS": "hdfs://nn:8020",
    "dfs.ha.namenodes.ns": "a,b",
}


def test_keys_are_not_printed() -> None:
    assert "s3cret" not in repr(Stores(configuration={"fs.s3a.secret.key": "s3cret"}))


def test_paths_are_those_of_the_name_node() -> None:
    names = NameNode.of("ns", {})
    assert names.inside("hdfs://ns/w/t%3A/") == "/w/t%3A"
    assert names.inside("hdfs://ns") == names.inside("hdfs://ns/") == "/"
    assert names.outside("/w/t") == "hdfs://ns/w/t"
    for other in ("hdfs://ns2/t", "hdfs://other/t", "/t", "hdfs://ns/a\0b"):
        with pytest.raises(RefusedError, match="does not name a file on hdfs://ns"):
            names.inside(other)


@pytest.mark.parametrize(
    ("uri", "behind"),
    [
        ("viewfs://c/w/db.db/t", "hdfs://ns1:8020/warehouse/db.db/t"),
        ("viewfs://c/w/farther", "hdfs://ns1:8020/warehouse/farther"),
        ("viewfs://c/w/far", "hdfs://ns2:9000/far"),
        ("viewfs://c/w/far/t=%3A", "hdfs://ns2:9000/far/t=%3A"),
        ("viewfs://c/data/two/t", "hdfs://nn:8020/two/t"),
        ("viewfs://c/disk", "/disk"),
        ("viewfs://c/disk/db.db/t", "/disk/db.db/t"),
        ("viewfs://c/bucket/t", "s3a://b/w/t"),
        ("viewfs://rest/w/t", "hdfs://ns1:8020/warehouse/t"),
        ("viewfs://rest/x/t", "hdfs://ns2:8020/rest/x/t"),
        ("viewfs://whole", "hdfs://ns1:8020"),
        ("viewfs://whole/x", "hdfs://ns1:8020/x"),
        ("viewfs:///w/t", "hdfs://ns3:8020/w/t"),
        ("hdfs://ns/w/t", "hdfs://ns/w/t"),
    ],
)
def test_the_longest_link_wins(uri: str, behind: str) -> None:
    assert str(Stores(configuration=TABLE).locate(uri)) == behind


def test_what_lies_below_a_table_in_a_mount_table_lies_below_it() -> None:
    stores = Stores(configuration=TABLE)
    found = stores.locate_below("viewfs://c/w/t/p=1", "viewfs://c/w/t")
    assert found == stores.locate_below("hdfs://ns1/warehouse/t/p=1", "viewfs://c/w/t") == stores.locate(str(found))


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("viewfs://c", r"links below it \(/bucket, /copies, /data/one, …\): name a directory below one of them"),
        ("viewfs://c/data", r"links below it \(/data/one, /data/two\)"),
        ("viewfs://c/w", r"links below it \(/w, /w/far\)"),
        ("viewfs://c/d", "has no link for it"),
        ("viewfs://rest", "links below it"),
        ("viewfs://C/w/t", "no mount table of that name"),
        ("viewfs://c/copies/t", r"has it in several places at once \(linkNfly"),
        ("viewfs://some/copies/t", r"has it in several places at once \(linkNfly"),
        ("viewfs://odd/w/t", r"fs\.viewfs\.mounttable\.odd\.linkAnew./w is not supported in its mount table"),
        ("viewfs://some/w/t", "only the driver, with the JVM of its Spark, can do so"),
        ("viewfs://c/other/t", "it is linked to viewfs://rest/w, another mount table"),
        ("viewfs://c/gone/t", "HDFS over HTTP is not supported"),
    ],
)
def test_what_is_not_one_directory_of_one_store(uri: str, why: str) -> None:
    with pytest.raises(RefusedError, match=f"^Cannot open {uri}: .*{why}"):
        Stores(configuration=TABLE).locate(uri)


@pytest.mark.parametrize(
    ("resolved", "why"), [("viewfs://some/x", "has no link for it"), ("nfly:///x", "'nfly' is unknown")]
)
def test_what_hadoop_finds_may_be_no_directory_of_a_store(resolved: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        resolve_viewfs(parse_location("viewfs://some/x"), TABLE, lambda uri: resolved)


def test_the_default_table() -> None:
    by_default_fs = TABLE | {"fs.defaultFS": "viewfs://whole/"}
    assert str(Stores(configuration=by_default_fs).locate("viewfs:///w")) == "hdfs://ns1:8020/w"
    named = TABLE | {"fs.viewfs.mounttable.default.name.key": "rest"}
    assert str(Stores(configuration=named).locate("viewfs:///w/t")) == "hdfs://ns1:8020/warehouse/t"


def test_a_mount_table_for_hdfs_itself() -> None:
    view = {"fs.hdfs.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"}
    with pytest.raises(RefusedError, match=r"fs\.hdfs\.impl is ViewFileSystemOverloadScheme"):
        Stores(configuration=view).locate("hdfs://ns/t")
    usual = {"fs.hdfs.impl": "org.apache.hadoop.hdfs.DistributedFileSystem"}
    assert str(Stores(configuration=usual).locate("hdfs://nn/t")) == "hdfs://nn:8020/t"


def test_the_name_of_a_mount_table_is_the_location_of_nothing() -> None:
    with pytest.raises(RefusedError, match="it is a name in a mount table, not the location behind it"):
        Stores(configuration=TABLE).fs(parse_location("viewfs://c/w/t"))


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/a/b", "/a/b"),
        ("/a//b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("FILE://localhost/a", "/a"),
        ("file:///t/ts=2024-01-01 10%3A00", "/t/ts=2024-01-01 10%3A00"),
        ("/t/p=%2Fa#b?c", "/t/p=%2Fa#b?c"),
        ("/t/x=1:2", "/t/x=1:2"),
    ],
)
def test_local_paths_are_taken_literally(uri: str, path: str) -> None:
    assert str(Stores().locate(uri)) == path


def test_a_bare_path_is_local_and_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(Stores().locate("warehouse/t")) == f"{tmp_path}/warehouse/t"


def test_a_link_in_the_location_itself_is_resolved(tmp_path: Path) -> None:
    put(tmp_path, "real/t/")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert str(Stores().locate(f"file://{tmp_path}/link/t")) == f"{tmp_path}/real/t"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3a:///t", "no bucket"),
        ("hdfs:///t", "fs.defaultFS is not set"),
        ("hdfs://nn/a/../t", "is not taken"),
        ("gs:///t", "no bucket"),
        ("gs://key:secret@b/t", "credentials of Google Cloud Storage stand in Hadoop"),
        ("wasb://c@a.blob.core.windows.net/t", "Azure Blob Storage, which renames no directories, is not supported"),
        ("wasbs://c@a.blob.core.windows.net/t", "Azure Blob Storage, which renames no directories, is not supported"),
        ("abfss:///t", "names no container"),
        ("abfss://a.dfs.core.windows.net/t", "takes container@account"),
        ("abfss://data:key@a.dfs.core.windows.net/t", r"abfss://data:\*\*\*@a.*takes container@account"),
        ("abfss://a@b@a.dfs.core.windows.net/t", "takes container@account"),
        ("abfss://No_Container@a.dfs.core.windows.net/t", "takes container@account"),
        ("ftp://x/t", "'ftp'"),
        ("file://server/t", "'server'"),
        ("file:t", "absolute"),
        ("file://", "no path"),
        ("", "no path"),
        ("/a\0b", "no path"),
    ],
)
def test_other_uris_are_refused_by_name(uri: str, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        Stores().locate(uri)
