"""Hadoop's configuration, as far as HDFS is concerned."""

from __future__ import annotations

import pytest

from acidlib.errors import RefusedError
from acidlib.stores.renaming.hdfs_client import (
    NameNode,
    about_hdfs,
    default_authority,
    size_or_number,
    whole_authority,
)
from acidlib.stores.stores import Stores


def test_no_properties_of_other_stores_are_for_hdfs() -> None:
    given = {"fs.s3a.secret.key": "secret", "fs.defaultFS": "hdfs://ns", "dfs.a": "b", "hadoop.security.x": "y"}
    assert about_hdfs(given) == {key: value for key, value in given.items() if not key.startswith("fs.s3a.")}


@pytest.mark.parametrize(
    ("uri", "authority"), [("hdfs://ns", "ns"), ("hdfs://nn:9000/", "nn:9000"), ("HDFS://nn/user", "nn")]
)
def test_the_default_authority(uri: str, authority: str) -> None:
    assert default_authority({"fs.defaultFS": uri}) == authority


@pytest.mark.parametrize("uri", ["", "file:///", "hdfs:///", "s3a://bucket", "ns"])
def test_a_default_that_names_no_name_node(uri: str) -> None:
    with pytest.raises(RefusedError, match=r"Cannot open hdfs:///: because fs\.defaultFS is"):
        default_authority({"fs.defaultFS": uri} if uri else {})


def test_a_host_has_a_port_and_a_name_service_none() -> None:
    services = {"dfs.ha.namenodes.ns": "a,b", "dfs.namenode.rpc-address.one": "nn:9000"}
    assert whole_authority("ns", services) == "ns"
    assert whole_authority("one", services) == "one"
    assert whole_authority("nn", services) == "nn:8020"
    assert whole_authority("nn:9000", services) == "nn:9000"


def test_modes_of_what_is_new() -> None:
    assert NameNode.of("ns", {}).mode(is_directory=True) == 0o755
    assert NameNode.of("ns", {}).mode(is_directory=False) == 0o644
    assert NameNode.of("ns", {"fs.permissions.umask-mode": "077"}).mode(is_directory=True) == 0o700
    with pytest.raises(RefusedError, match=r"fs\.permissions\.umask-mode = u=rwx,g=,o=: because only octal"):
        NameNode.of("ns", {"fs.permissions.umask-mode": "u=rwx,g=,o="}).mode(is_directory=True)


def test_numbers() -> None:
    assert size_or_number("dfs.replication", {}) is None
    assert size_or_number("dfs.replication", {"dfs.replication": "2"}) == 2
    assert size_or_number("dfs.blocksize", {"dfs.blocksize": "134217728"}) == 1 << 27
    assert size_or_number("dfs.blocksize", {"dfs.blocksize": "64M"}) == 1 << 26
    with pytest.raises(RefusedError, match=r"dfs\.blocksize = big"):
        size_or_number("dfs.blocksize", {"dfs.blocksize": "big"})


@pytest.mark.parametrize("uri", ["hdfs://nn/t", "hdfs://nn:8020/t", "hdfs:///t"])
def test_a_host_with_the_default_port_and_without_is_one_place(uri: str) -> None:
    stores = Stores(configuration={"fs.defaultFS": "hdfs://nn", "dfs.ha.namenodes.ns": "a,b"})
    assert stores.locate(uri).stored_text == "hdfs://nn:8020/t"
    assert str(stores.locate("hdfs://ns/t")) == "hdfs://ns/t"
