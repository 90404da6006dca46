"""What is said to Spark is understood, and holds no secret that others see."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from acidlib.config.files import absolute_path
from acidlib.errors import RefusedError
from acidlib.execute.spark_options import (
    SparkOptions,
    read_properties,
    split_words,
    variables_without_a_name,
    without_secrets,
)
from acidlib.processes import user_name
from acidlib.runs.environment import read_environment
from acidlib.runs.open import open_queue


@pytest.mark.parametrize(
    ("line", "spark"),
    [
        ("major-compact --location show", ""),
        ("--master yarn major-compact --conf x", "--master yarn"),
        ("--name show --queue=cleaner --verbose -c a=b initiator", "--name show --queue=cleaner --verbose -c a=b"),
        ("--supervise show", "--supervise"),
        ("--conf spark.master=yarn show --output json", "--conf spark.master=yarn"),
        ("--master", "--master"),
    ],
)
def test_spark_has_what_stands_before_the_command(line: str, spark: str) -> None:
    words = line.split()
    assert split_words(words) == (tuple(spark.split()), tuple(words[len(spark.split()) :]))


def options(line: str, **properties: str) -> SparkOptions:
    return SparkOptions(tuple(line.split()), {f"spark.{name}": value for name, value in properties.items()})


@pytest.mark.parametrize(
    ("given", "master"),
    [
        (options(""), "local[*]"),
        (options("--master local[2]"), "local[2]"),
        (options("--master=yarn"), "yarn"),
        (options("--conf spark.master=k8s://one"), "k8s://one"),
        (options("-c spark.master=yarn"), "yarn"),
        (options("--master a --master b --conf spark.master=c"), "b"),
        (options("--name --master", master="yarn"), "yarn"),
        (options("--conf spark.master=c", master="d"), "c"),
    ],
)
def test_the_master_is_found_wherever_it_is_said(given: SparkOptions, master: str) -> None:
    assert given.master == master
    assert given.is_local == master.startswith("local")


def test_the_driver_is_placed_in_cluster_mode_alone() -> None:
    assert options("--deploy-mode cluster").driver_is_placed
    assert SparkOptions((), {"spark.submit.deployMode": "cluster"}).driver_is_placed
    assert not options("--deploy-mode client --master yarn").driver_is_placed
    assert not options("").driver_is_placed


def test_an_archive_is_the_environment_by_its_name() -> None:
    given = options("--archives one.zip,hdfs:///two.tar.gz#environment", **{"yarn.dist.archives": "three.zip#x"})
    assert given.archives == ("one.zip", "hdfs:///two.tar.gz#environment", "three.zip#x")
    assert given.has_environment
    assert not options("--archives environment,one.zip#other").has_environment


def test_properties_are_read_as_spark_reads_them() -> None:
    text = "# no\n! nor\n\nspark.master   yarn\nspark.a=b = c\n  spark.b: d e \nspark.c\n"
    assert read_properties(text) == {"spark.master": "yarn", "spark.a": "b = c", "spark.b": "d e", "spark.c": ""}


@pytest.mark.parametrize(
    ("given", "login"),
    [
        (options("--principal a --keytab=/k"), ("a", "/k")),
        (options("", **{"kerberos.principal": "a", "yarn.principal": "b", "yarn.keytab": "/k"}), ("a", "/k")),
        (options("--principal a -c spark.kerberos.keytab=/k", **{"kerberos.principal": "b"}), ("a", "/k")),
        (options("--master yarn"), (None, None)),
    ],
)
def test_who_logs_in_is_found_wherever_it_is_said(given: SparkOptions, login: tuple[str | None, str | None]) -> None:
    assert (given.login.principal, given.login.keytab) == login


KEY, URL = "spark.hadoop.fs.s3a.secret.key=S3/CR\\E:T= #x", "spark.x=postgresql://u:S3CRET@h/d"


def test_a_secret_is_no_word_of_a_process(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.a b")
    (tmp_path / "named.conf").write_text("spark.n=c")
    environment = {"SPARK_CONF_DIR": str(tmp_path)}
    for named, kept in ([], "spark.a b"), (["--properties-file", str(tmp_path / "named.conf")], "spark.n=c"):
        words = [*named, "--verbose", f"--conf={KEY}", "--conf", "spark.y=z", "-c", URL, "--name", "n", "pyspark-shell"]
        shown, (file,) = without_secrets(words, environment)
        try:
            path = f"/proc/self/fd/{file}"
            assert shown == [
                *("--verbose", "--conf", "spark.y=z", "--name", "n", "--properties-file", path, "pyspark-shell")
            ]
            # another process opens the file at its beginning
            told = subprocess.run(["cat", path], pass_fds=[file], capture_output=True, text=True, check=True).stdout
        finally:
            os.close(file)
        assert told.splitlines() == [
            kept,
            "",
            r"spark.hadoop.fs.s3a.secret.key=S3/CR\\E\:T\=\ #x",
            r"spark.x=postgresql\://u\:S3CRET@h/d",
        ]
    plain = ["--conf", "spark.y=z", "--properties-file", "x", "pyspark-shell"]
    assert without_secrets(plain, environment) == (plain, ())


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert variables_without_a_name({"HOME": "/h"}) == {}

    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    number = str(os.getuid())
    assert variables_without_a_name({"HOME": "/a b", "SPARK_SUBMIT_OPTS": "-Dx"}) == {
        "SPARK_USER": number,
        "SPARK_SUBMIT_OPTS": "'-Duser.home=/a b' -Dx",
    }
    assert user_name() == number
    assert read_environment(metastore=(), queue_url=None, assignments=()).user == number
    monkeypatch.delenv("ACIDLIB_HOME", raising=False)
    monkeypatch.delenv("HOME")
    with pytest.raises(RefusedError, match="this user has no home directory; ACIDLIB_HOME or --queue-url names"):
        open_queue(read_environment(metastore=(), queue_url=None, assignments=()))
    with pytest.raises(RefusedError, match="Cannot find ~/x: its user has no home directory"):
        absolute_path("~/x")
