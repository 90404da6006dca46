"""What is understood of spark-submit's own options."""

from __future__ import annotations

import pytest

from acidlib.service.spark_driver import SparkOptions, read_properties, split_words


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
