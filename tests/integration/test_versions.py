"""Each Python with each Spark that pyproject.toml allows: all that is shown to a new user, and a run on a cluster.

In a long run only, with those Pythons that the machine has: python3.12 on the PATH, or one of pyenv's.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from installed import alone, build, outside
from judges import merge
from long_runs import LONG
from servers.java import SMALL
from servers.spark import SparkCluster

from integration.harness import SMALL_SPARK, fixture

pytestmark = [
    *(pytest.mark.spark, pytest.mark.slow, pytest.mark.live),
    pytest.mark.skipif(not LONG, reason="environments of their own are made in a long run only"),
]
PYTHONS = ("3.11", "3.12", "3.13")
SPARKS = ("3.5", "4")


@cache
def python(version: str) -> Path:
    """An interpreter of that version; the test is skipped where there is none."""
    on_path = shutil.which(f"python{version}")
    found = [Path(on_path)] if on_path else []
    found += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for one in found:
        told = subprocess.run([one, "--version"], check=False, capture_output=True, text=True).stdout
        if told.startswith(f"Python {version}."):
            return one
    pytest.skip(f"there is no Python {version} on this machine")


@pytest.fixture(scope="module", params=PYTHONS)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The command of an installation with compiled kernels, which has a gigabyte and is not kept."""
    place, chosen = tmp_path_factory.mktemp("version"), python(request.param)
    command = alone(place / "environment", build(place)[1], python=chosen)
    subprocess.run([command, "warm"], env=outside(), check=True, capture_output=True)
    yield command
    shutil.rmtree(place)


@pytest.mark.parametrize("spark", SPARKS)
def test_a_pair(installed: Path, spark: str, tmp_path: Path) -> None:
    command = installed
    words = [command.with_name("python"), "-m", "pip", "install", "--quiet", "--no-compile", f"pyspark=={spark}.*"]
    subprocess.run(words, env=outside(), check=True, capture_output=True)
    (home_of_spark,) = command.parents[1].glob("lib/python3*/site-packages/pyspark")
    assert re.search(rf"__version__: str = ['\"]{re.escape(spark)}\.", (home_of_spark / "version.py").read_text())
    home = {"HOME": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}

    def run(*words: str | Path) -> str:
        ran = subprocess.run(
            [command, *words], env=outside(**home, **SMALL_SPARK), cwd="/", check=False, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "Traceback" not in ran.stderr
        return ran.stdout

    told = run("quickstart")
    assert "DIFFERS" not in told
    assert len([line for line in told.splitlines() if line.endswith("same")]) >= 3 * 4
    table = fixture("hive3/b_part", tmp_path / "default.db" / "part")
    rows = {place.name: merge.read(place) for place in table.iterdir()}
    (tmp_path / "cluster").mkdir()
    small = ("--conf", f"spark.executor.extraJavaOptions={' '.join(SMALL)}", "--executor-memory", "512m")
    with SparkCluster(tmp_path / "cluster", workers=1, spark_home=home_of_spark) as cluster:
        words = ("major-compact", "--location", table, "--all-committed", "--output", "json")
        document = json.loads(run("--master", cluster.url, *small, *words))
    assert [entry["state"] for entry in document["compactions"]] == ["ready for cleaning"] * len(rows)
    assert {place.name: merge.read(place, strict=True) for place in table.iterdir()} == rows
