"""Where paths lie on HDFS, by their names and by mount tables."""

from __future__ import annotations

import pickle

import pytest

from acidlib.errors import RefusedError
from acidlib.model.location import parse_location
from acidlib.storage.hdfs.mounts import Mount, mount_of, plain_mount
from acidlib.storage.stores import Stores

TABLE = {
    "fs.viewfs.mounttable.c.link./w": "hdfs://ns1/warehouse/",
    "fs.viewfs.mounttable.c.link./w/far": "hdfs://ns2:9000/far",
    "fs.viewfs.mounttable.c.link./data/one": "hdfs://ns1/one",
    "fs.viewfs.mounttable.c.link./data/two": "hdfs:///two",
    "fs.viewfs.mounttable.c.link./disk": "file:///disk",
    "fs.viewfs.mounttable.c.link./gone": "webhdfs://ns1/gone",
    "fs.viewfs.mounttable.c.homedir": "/users",
    "fs.viewfs.mounttable.rest.link./w": "hdfs://ns1/warehouse",
    "fs.viewfs.mounttable.rest.linkFallback": "hdfs://ns2/rest",
    "fs.viewfs.mounttable.whole.linkMergeSlash": "hdfs://ns1/",
    "fs.viewfs.mounttable.odd.link./w": "hdfs://ns1/w",
    "fs.viewfs.mounttable.odd.linkRegex.replaceresolveddstpath:_:-#.^/x": "hdfs://ns1/x",
    "fs.viewfs.mounttable.default.link./w": "hdfs://ns3/w",
    "fs.defaultFS": "hdfs://nn:8020",
    "dfs.ha.namenodes.ns": "a,b",
}


def test_paths_are_those_of_the_name_node() -> None:
    mount = plain_mount("ns")
    assert mount.inside("hdfs://ns/w/t%3A/") == "/w/t%3A"
    assert mount.inside("hdfs://ns") == mount.inside("hdfs://ns/") == "/"
    assert mount.outside("/w/t") == "hdfs://ns/w/t"
    for other in ("hdfs://ns2/t", "hdfs://other/t", "/t", "hdfs://ns/a\0b"):
        with pytest.raises(RefusedError, match="does not name something on hdfs://ns"):
            mount.inside(other)


@pytest.mark.parametrize(
    ("uri", "inside"),
    [
        ("viewfs://c/w/db.db/t", ("ns1", "/warehouse/db.db/t")),
        ("viewfs://c/w/farther", ("ns1", "/warehouse/farther")),
        ("viewfs://c/w/far", ("ns2:9000", "/far")),
        ("viewfs://c/w/far/t=%3A", ("ns2:9000", "/far/t=%3A")),
        ("viewfs://c/data/two/t", ("nn:8020", "/two/t")),
        ("viewfs://rest/w/t", ("ns1", "/warehouse/t")),
        ("viewfs://rest/x/t", ("ns2", "/rest/x/t")),
        ("viewfs://whole", ("ns1", "/")),
        ("viewfs://whole/x", ("ns1", "/x")),
        ("viewfs:///w/t", ("ns3", "/w/t")),
        ("hdfs://ns/w/t", ("ns", "/w/t")),
    ],
)
def test_the_longest_link_wins(uri: str, inside: tuple[str, str]) -> None:
    location = Stores(configuration=TABLE).locate(uri)
    mount = mount_of(location, TABLE)
    assert (mount.authority, mount.inside(str(location))) == inside
    assert mount.inside(f"{location}/x") == f"{inside[1].rstrip('/')}/x"
    assert mount.outside(mount.inside(f"{location}/x")) == f"{location}/x"


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("viewfs://c", r"links below it \(/data/one, /data/two, /disk, …\): name what is below one"),
        ("viewfs://c/data", r"links below it \(/data/one, /data/two\)"),
        ("viewfs://c/w", r"links below it \(/w, /w/far\)"),
        ("viewfs://c/d", "has no link for it"),
        ("viewfs://rest", "links below it"),
        ("viewfs://C/w/t", "no mount table of that name"),
        ("viewfs://odd/w/t", r"fs\.viewfs\.mounttable\.odd\.linkRegex\..* is not supported in its mount table"),
        ("viewfs://c/disk/t", "links it to file:///disk, and only links to hdfs: are supported"),
        ("viewfs://c/gone/t", "HDFS over HTTP is not supported"),
    ],
)
def test_what_is_not_one_directory_of_hdfs(uri: str, why: str) -> None:
    with pytest.raises(RefusedError, match=f"^Cannot open {uri}: because .*{why}"):
        Stores(configuration=TABLE).locate(uri)


def test_the_default_table() -> None:
    by_default_fs = TABLE | {"fs.defaultFS": "viewfs://whole/"}
    assert str(Stores(configuration=by_default_fs).locate("viewfs:///w")) == "viewfs://whole/w"
    named = TABLE | {"fs.viewfs.mounttable.default.name.key": "rest"}
    assert str(Stores(configuration=named).locate("viewfs:///w/t")) == "viewfs://rest/w/t"


def test_a_mount_table_for_hdfs_itself() -> None:
    view = {"fs.hdfs.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"}
    with pytest.raises(RefusedError, match=r"because fs\.hdfs\.impl is ViewFileSystemOverloadScheme"):
        Stores(configuration=view).locate("hdfs://ns/t")
    usual = {"fs.hdfs.impl": "org.apache.hadoop.hdfs.DistributedFileSystem"}
    assert mount_of(Stores(configuration=usual).locate("hdfs://nn/t"), usual) == Mount("hdfs://nn:8020", "nn:8020", "")


def test_it_is_pickled_with_its_stores() -> None:
    stores = pickle.loads(pickle.dumps(Stores(configuration=TABLE)))
    assert stores.fs(parse_location("viewfs://c/w/t"))
