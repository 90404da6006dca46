"""Hadoop's files of settings: properties, includes and references."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from servers.settings import write_site

from acidlib.config.files import expand, read_site
from acidlib.config.settings import load_settings
from acidlib.errors import AcidError, CorruptError, RefusedError

XI = 'xmlns:xi="http://www.w3.org/2001/XInclude"'


def test_every_property_of_both_files_is_kept_as_text(tmp_path: Path) -> None:
    write_site(tmp_path / "hive-site.xml", {"hive.metastore.uris": " thrift://a,\n thrift://b ", "x": "1", "empty": ""})
    write_site(tmp_path / "metastore-site.xml", {"x": "2", "metastore.thrift.uris": "thrift://c"})
    assert load_settings(conf_dir=tmp_path).site == {
        "hive.metastore.uris": "thrift://a,\n thrift://b",
        "metastore.thrift.uris": "thrift://c",
        "x": "2",
        "empty": "",
    }


def test_properties_of_hadoop_are_read_and_references_filled_in(tmp_path: Path) -> None:
    core = {"fs.defaultFS": "hdfs://${cluster}", "cluster": "ns", "dfs.a": "core"}
    write_site(tmp_path / "core-site.xml", core)
    write_site(tmp_path / "hdfs-site.xml", {"dfs.a": "hdfs", "dfs.b": "${dfs.a}-${unknown}", "dfs.c": "${dfs.c}"})
    assert load_settings(hadoop_dir=tmp_path).hadoop == {
        "fs.defaultFS": "hdfs://ns",
        "cluster": "ns",
        "dfs.a": "hdfs",
        "dfs.b": "hdfs-${unknown}",
        "dfs.c": "${dfs.c}",
    }


def test_references_in_hive_site_lead_to_both_files_of_hive_and_to_those_of_hadoop(tmp_path: Path) -> None:
    write_site(tmp_path / "core-site.xml", {"host": "core", "port": "9083"})
    write_site(tmp_path / "metastore-site.xml", {"host": "meta", "hive.compactor.worker.timeout": "${hours}h"})
    hive = {"hive.metastore.uris": "thrift://${host}:${port}", "hours": "${env.HOURS:-2}", "own": "${user.name}"}
    write_site(tmp_path / "hive-site.xml", hive)
    found = load_settings(conf_dir=tmp_path, hadoop_dir=tmp_path, variables={"HOURS": "3"}, java={"user.name": "joe"})
    assert (found.site["hive.metastore.uris"], found.site["own"]) == ("thrift://meta:9083", "joe")
    assert found.integer("hive.compactor.worker.timeout") == 3 * 3_600_000
    alone = load_settings(conf_dir=tmp_path)
    assert alone.site["hive.metastore.uris"] == "thrift://meta:${port}"
    assert alone.integer("hive.compactor.worker.timeout") == 2 * 3_600_000


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${a}/${b}", "1/1+2"),
        ("${env.SET}-${env.EMPTY}-", "set--"),
        ("${env.NO}", "${env.NO}"),
        ("${env.NO-x}${env.NO:-y}${env.EMPTY-x}${env.EMPTY:-y}${env.SET:-y}", "xyyset"),
        ("${env.named}", "a property"),
        ("${env.}", "${env.}"),
        ("${both}", "java's"),
        ("${a} ${no} ${a}", "1 ${no} ${a}"),
        ("${ a} ${$} ${} ${${a}}", "${ a} ${$} ${} ${1}"),
        ("${a}${self}", "${a}${self}"),
    ],
)
def test_a_reference_means_what_it_means_to_hadoop(text: str, expanded: str) -> None:
    """Source: Hadoop `Configuration.substituteVars`."""
    known = {"a": "1", "b": "${a}+2", "both": "ours", "env.named": "a property", "self": "${self}x"}
    variables = {"SET": "set", "EMPTY": ""}
    assert expand({"": text}, known=known, variables=variables, java={"both": "java's"}) == {"": expanded}


def test_a_value_that_holds_its_own_reference_stays_as_it_is() -> None:
    assert expand({"x": "a${x}"}, known={"x": "a${x}"}, variables={}, java={}) == {"x": "a${x}"}


def test_references_in_a_circle_are_an_error(tmp_path: Path) -> None:
    write_site(tmp_path / "hive-site.xml", {"a": "${b}", "b": "${a}"})
    with pytest.raises(CorruptError, match=r"Cannot use a=\$\{b\}: its references lead to more than 20"):
        load_settings(conf_dir=tmp_path)


DEEP = "<a>" * 200_000 + "</a>" * 200_000
ENTITIES = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 30))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f'<configuration {XI}><xi:include href="/dev/zero"/></configuration>', "Cannot read /dev/zero: it is no reg"),
        (f'<configuration {XI}><xi:include href="fifo"/></configuration>', "Cannot read .*/fifo: it is no regular"),
        (f'<configuration {XI}><xi:include href="{"a" * 300}"/></configuration>', "File name too long"),
        (
            f"<configuration {XI}>" + '<xi:include href="large.xml"/>' * 3 + "</configuration>",
            "than a file of settings may be",
        ),
        (f"<configuration>{DEEP}</configuration>", "it has elements in more than 100 others"),
        (f'<!DOCTYPE c [<!ENTITY e0 "x">{ENTITIES}]><c><a>&e29;</a></c>', "it is not XML"),
        ('<!DOCTYPE c [<!ENTITY e SYSTEM "file:///etc/passwd">]><c>&e;</c>', "it is not XML"),
        ('<?xml version="1.0" encoding="shift-jis"?><c/>', "it is not XML"),
        ('<?xml version="1.0" encoding="nothing"?><c/>', "it is not XML"),
    ],
    ids=["device", "pipe", "long name", "large", "deep", "entities", "external", "encoding", "unknown encoding"],
)
def test_a_file_that_would_take_all_memory_or_time(tmp_path: Path, text: str, why: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    write_site(tmp_path / "large.xml", {"x": "1" * (2 << 20)})
    (tmp_path / "hive-site.xml").write_text(text)
    with pytest.raises(AcidError, match=why):
        load_settings(conf_dir=tmp_path)


@pytest.mark.parametrize("name", ["hive-site.xml", "core-site.xml", "acidlib.toml"])
def test_a_pipe_and_a_file_without_end_are_no_settings(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    toml = path if name == "acidlib.toml" else None
    os.mkfifo(path)
    with pytest.raises(RefusedError, match=f"{name}: it is no regular file"):
        load_settings(conf_dir=tmp_path, hadoop_dir=tmp_path, toml=toml)
    path.unlink()
    with path.open("wb") as file:
        file.truncate(5 << 30)
    with pytest.raises(RefusedError, match=f"{name}: it is larger than a file of settings may be"):
        load_settings(conf_dir=tmp_path, hadoop_dir=tmp_path, toml=toml)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a" + ".a" * 100_000 + " = 1", "more than 100 dots"),
        ("a = " + "9" * 5000, "it is not TOML"),
    ],
)
def test_toml_beyond_what_can_be_parsed(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "acidlib.toml").write_text(text)
    with pytest.raises(CorruptError, match=why):
        load_settings(toml=tmp_path / "acidlib.toml")


def test_a_password_is_no_part_of_a_message(tmp_path: Path) -> None:
    write_site(
        tmp_path / "hive-site.xml", {"javax.jdo.option.ConnectionPassword": "s3cret ${a}", "a": "${b}", "b": "${a}"}
    )
    with pytest.raises(CorruptError, match=r"Cannot use \S+=\*\*\*: ") as raised:
        load_settings(conf_dir=tmp_path)
    assert "s3cret" not in str(raised.value)
    write_site(tmp_path / "hive-site.xml", {"javax.jdo.option.ConnectionPassword": "s3cret"})
    assert "s3cret" not in repr(load_settings(conf_dir=tmp_path))


@pytest.mark.parametrize("name", ["hive-site.xml", "hdfs-site.xml"])
def test_a_damaged_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("<configuration>")
    with pytest.raises(CorruptError, match=f"{name}: it is not XML"):
        load_settings(conf_dir=tmp_path, hadoop_dir=tmp_path)


def test_a_file_may_include_others(tmp_path: Path) -> None:
    write_site(tmp_path / "mounts.xml", {"dfs.a": "included", "dfs.b": "included"})
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>dfs.a</name><value>before</value></property>"
        f'<xi:include {XI} href="mounts.xml"/>'
        f'<xi:include {XI} href="{tmp_path}/absent.xml"><xi:fallback>'
        "<property><name>dfs.c</name><value>instead</value></property></xi:fallback></xi:include>"
        "<property><name>dfs.b</name><value>after</value></property></configuration>"
    )
    assert read_site(tmp_path / "core-site.xml") == {"dfs.a": "included", "dfs.b": "after", "dfs.c": "instead"}


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_an_include_may_be_a_url_of_a_file(tmp_path: Path, scheme: str) -> None:
    write_site(tmp_path / "mounts.xml", {"dfs.a": "included"})
    include = f'<xi:include {XI} href="{scheme}{tmp_path}/mounts.xml"/>'
    (tmp_path / "core-site.xml").write_text(f"<configuration>{include}</configuration>")
    assert read_site(tmp_path / "core-site.xml") == {"dfs.a": "included"}


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("absent.xml", r"Cannot read .*/core-site.xml: it includes .*/absent.xml, which is not there"),
        ("core-site.xml", "it includes itself"),
        ("http://conf.example/core.xml", "which is no path of this machine"),
    ],
)
def test_what_cannot_be_included(tmp_path: Path, reference: str, why: str) -> None:
    (tmp_path / "core-site.xml").write_text(f'<configuration><xi:include {XI} href="{reference}"/></configuration>')
    with pytest.raises((CorruptError, RefusedError), match=why):
        read_site(tmp_path / "core-site.xml")
