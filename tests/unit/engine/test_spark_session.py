"""What a session of Spark begins with."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkConf

from acidlib.engine import spark
from acidlib.engine.spark import SparkSession

PATH = "spark.executorEnv.PYTHONPATH"


@pytest.mark.parametrize(
    ("stated", "checkout", "path"),
    [
        ({}, Path("/src"), "/src"),
        ({}, None, None),
        ({PATH: "/other"}, Path("/src"), "/other"),
        ({"spark.archives": "a.tar.gz#environment"}, Path("/src"), None),
        ({"spark.yarn.dist.archives": "a.tar.gz#environment"}, Path("/src"), None),
    ],
)
def test_executors_find_a_checkout_but_never_before_an_archive(
    monkeypatch: pytest.MonkeyPatch, stated: dict[str, str], checkout: Path | None, path: str | None
) -> None:
    monkeypatch.setattr(spark, "CHECKOUT", checkout)
    # what another test of this process has started with is in its JVM
    monkeypatch.setattr(spark, "SparkConf", lambda: SparkConf(loadDefaults=False))
    assert SparkSession(name="n", conf=stated)._conf.get(PATH) == path
