"""A job of docs/kubernetes as Spark's own scheduler for Kubernetes runs it, against a small API server.

The server lets in what the role of the manifests allows; the executors that Spark asks for are started by the image's
entrypoint, as processes of this machine. Not tried: images, volumes, networks, an API server of Kubernetes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from judges import merge
from long_runs import LONG
from servers.kubernetes import Kubernetes
from unit.test_kubernetes import ASKED, FOLDER, allowed, named, pods

from integration.harness import SMALL_SPARK, fixture, names

pytestmark = [
    *(pytest.mark.spark, pytest.mark.slow),
    pytest.mark.skipif(not LONG, reason="a driver and its executors are started for it in a long run only"),
]
TINI = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"


def test_a_cron_job_starts_executors_by_the_rights_that_its_account_has(tmp_path: Path) -> None:
    place = fixture("hive3/a_crud", tmp_path / "a")
    rows = merge.read(place)
    for name in ("bin", "conf", "logs", "tokens"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "tini").write_text(TINI)
    (tmp_path / "bin" / "tini").chmod(0o755)
    (tmp_path / "tokens" / "token").write_text("token")
    (tmp_path / "tokens" / "ca.crt").touch()
    pod = pods()["acidlib-major-compact"]
    _, *words = pod["containers"][0]["args"]
    spark, job = words[: words.index("major-compact")], words[words.index("major-compact") :]
    spark = [word.replace("$(POD_IP)", "127.0.0.1").replace("$(POD_NAME)", "acidlib-1") for word in spark]
    path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    of_executors = {"PATH": path, "SPARK_HOME": pyspark.__path__[0]}
    rights = allowed(pod["serviceAccountName"])
    with Kubernetes(rights, FOLDER / "entrypoint.sh", of_executors, tmp_path / "logs") as kubernetes:
        defaults = named("ConfigMap")["acidlib"]["data"]["spark-defaults.conf"]
        assert "https://kubernetes.default.svc" in defaults
        defaults = defaults.replace("https://kubernetes.default.svc", kubernetes.url)
        (tmp_path / "conf" / "spark-defaults.conf").write_text(defaults.replace(TOKENS, str(tmp_path / "tokens")))
        ran = subprocess.run(
            [
                *(Path(sys.executable).parent / "acidlib", *spark, "--conf", "spark.executor.instances=1", *job),
                *("--location", place, "--all-committed"),
            ],
            env=os.environ | SMALL_SPARK | {"SPARK_CONF_DIR": str(tmp_path / "conf"), "ACIDLIB_HOME": str(tmp_path)},
            check=False, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    told = ran.stdout + ran.stderr + "".join(log.read_text() for log in (tmp_path / "logs").glob("*.log"))
    assert ran.returncode == 0, told
    assert kubernetes.refused == set(), told
    assert kubernetes.asked <= ASKED, "the unit test of the role knows of it"
    assert kubernetes.started == 1
    assert "base_0000004" in names(place)
    assert merge.read(place) == rows
