"""Hadoop's configuration, as far as HDFS is concerned."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers.settings import write_site

from acidlib.config.files import read_hadoop_configuration
from acidlib.errors import CorruptError, RefusedError
from acidlib.stores.renaming.hdfs_client import (
    about_hdfs,
    block_size,
    client_uri,
    default_authority,
    new_mode,
    replication,
)
from acidlib.stores.stores import Stores


def test_both_files_are_read_and_references_filled_in(tmp_path: Path) -> None:
    core = {
        "fs.defaultFS": "hdfs://${cluster}",
        "cluster": "ns",
        "fs.s3a.secret.key": "secret",
        "dfs.a": "core",
        "io.a": "b",
    }
    write_site(tmp_path / "core-site.xml", core)
    hdfs = {"dfs.a": "hdfs", "dfs.b": "${dfs.a}-${unknown}", "dfs.c": "${dfs.c}", "hadoop.security.authentication": "x"}
    write_site(tmp_path / "hdfs-site.xml", hdfs)
    found = read_hadoop_configuration(tmp_path)
    assert about_hdfs(found) == {key: value for key, value in found.items() if not key.startswith("fs.s3a.")}
    assert found == {
        "fs.s3a.secret.key": "secret",
        "fs.defaultFS": "hdfs://ns",
        "dfs.a": "hdfs",
        "dfs.b": "hdfs-${unknown}",
        "dfs.c": "${dfs.c}",
        "hadoop.security.authentication": "x",
    }


def test_files_that_are_not_there_say_nothing(tmp_path: Path) -> None:
    assert read_hadoop_configuration(tmp_path) == {}


def test_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(CorruptError, match="it is not XML"):
        read_hadoop_configuration(tmp_path)


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
    assert client_uri("ns", services) == "hdfs://ns"
    assert client_uri("one", services) == "hdfs://one"
    assert client_uri("nn", services) == "hdfs://nn:8020"
    assert client_uri("nn:9000", services) == "hdfs://nn:9000"


def test_modes_of_what_is_new() -> None:
    assert new_mode({}, is_directory=True) == 0o755
    assert new_mode({}, is_directory=False) == 0o644
    assert new_mode({"fs.permissions.umask-mode": "077"}, is_directory=True) == 0o700
    with pytest.raises(RefusedError, match=r"fs\.permissions\.umask-mode = u=rwx,g=,o=: because only octal"):
        new_mode({"fs.permissions.umask-mode": "u=rwx,g=,o="}, is_directory=True)


def test_numbers() -> None:
    assert (replication({}), block_size({})) == (None, None)
    assert replication({"dfs.replication": "2"}) == 2
    assert block_size({"dfs.blocksize": "134217728"}) == 1 << 27
    assert block_size({"dfs.blocksize": "64M"}) == 1 << 26
    with pytest.raises(RefusedError, match=r"dfs\.blocksize = big"):
        block_size({"dfs.blocksize": "big"})


XI = 'xmlns:xi="http://www.w3.org/2001/XInclude"'


def test_a_file_may_include_others(tmp_path: Path) -> None:
    write_site(tmp_path / "mounts.xml", {"dfs.a": "included", "dfs.b": "included"})
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>dfs.a</name><value>before</value></property>"
        f'<xi:include {XI} href="mounts.xml"/>'
        f'<xi:include {XI} href="{tmp_path}/absent.xml"><xi:fallback>'
        "<property><name>dfs.c</name><value>instead</value></property></xi:fallback></xi:include>"
        "<property><name>dfs.b</name><value>after</value></property></configuration>"
    )
    assert read_hadoop_configuration(tmp_path) == {"dfs.a": "included", "dfs.b": "after", "dfs.c": "instead"}


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("absent.xml", r"Cannot read .*/core-site.xml: because it includes .*/absent.xml, which is not there"),
        ("core-site.xml", "it includes itself"),
        ("http://conf.example/core.xml", "which is no file here"),
    ],
)
def test_what_cannot_be_included(tmp_path: Path, reference: str, why: str) -> None:
    (tmp_path / "core-site.xml").write_text(f'<configuration><xi:include {XI} href="{reference}"/></configuration>')
    with pytest.raises((CorruptError, RefusedError), match=why):
        read_hadoop_configuration(tmp_path)


@pytest.mark.parametrize("uri", ["hdfs://nn/t", "hdfs://nn:8020/t", "hdfs:///t"])
def test_a_host_with_the_default_port_and_without_is_one_place(uri: str) -> None:
    stores = Stores(configuration={"fs.defaultFS": "hdfs://nn", "dfs.ha.namenodes.ns": "a,b"})
    assert stores.locate(uri).stored_text == "hdfs://nn:8020/t"
    assert str(stores.locate("hdfs://ns/t")) == "hdfs://ns/t"
