"""The manifests in docs/kubernetes: what they name exists, and the account of a driver may do what Spark does there.

Nothing is started here: tests/integration/test_kubernetes.py runs a driver, and tests/integration/test_image.py makes
the image.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from acidlib.cli.launch import job_named
from acidlib.cli.main import group
from acidlib.config.files import read_site
from acidlib.documents import ROOT
from acidlib.execute.spark_options import SparkOptions, read_properties, split_words

FOLDER = ROOT / "docs" / "kubernetes"
COMMAND = "/opt/acidlib/bin/acidlib"
# what Spark's driver asks of the API server, as tests/integration/test_kubernetes.py recorded it
ASKED = {
    ("pods", "create"), ("pods", "get"), ("pods", "list"), ("pods", "watch"), ("pods", "deletecollection"),
    ("configmaps", "create"), ("configmaps", "deletecollection"), ("services", "deletecollection"),
    ("persistentvolumeclaims", "list"), ("persistentvolumeclaims", "deletecollection"),
}  # fmt: skip
_VARIABLE = re.compile(r"\$\((\w+)\)")


def documents() -> list[dict[str, Any]]:
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            found += document["items"] if document["kind"] == "List" else [document]
    return found


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in documents() if one["kind"] == kind}


def pods() -> dict[str, dict[str, Any]]:
    return {name: job["spec"]["jobTemplate"]["spec"]["template"]["spec"] for name, job in named("CronJob").items()}


def defaults() -> dict[str, str]:
    return read_properties(named("ConfigMap")["acidlib"]["data"]["spark-defaults.conf"])


def spark_and_words(pod: dict[str, Any]) -> tuple[SparkOptions, list[str]]:
    (container,) = pod["containers"]
    command, *words = container["args"]
    assert command == COMMAND
    spark, behind = split_words(words)
    return SparkOptions(spark, defaults()), list(behind)


def references(value: Any, kind: str) -> Iterator[dict[str, Any]]:
    """All that is named as a Secret or a ConfigMap below a value."""
    if isinstance(value, dict):
        yield from (value[key] for key in (f"{kind}KeyRef", kind) if key in value)
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from references(one, kind)


def test_a_service_is_complete() -> None:
    done = {spark_and_words(pod)[1][0] for pod in pods().values()}
    assert done == {"initiator", "minor-compact", "major-compact", "cleaner"}
    assert {one["metadata"].get("namespace", "acidlib") for one in documents()} == {"acidlib"}
    assert list(named("Namespace")) == ["acidlib"]


@pytest.mark.parametrize("name", list(pods()))
def test_a_job_is_one_that_there_is(name: str) -> None:
    pod = pods()[name]
    spark, words = spark_and_words(pod)
    assert name == f"acidlib-{words[0]}"
    job, command, rest = group.resolve_command(click.Context(group), words)
    assert job is not None
    assert command is not None
    known = job_named(job)
    assert known is not None
    known.load().make_context(job, rest).close()
    assert re.fullmatch(r"[\d*]+ [*] [*] [*] [*]", named("CronJob")[name]["spec"]["schedule"])
    (container,) = pod["containers"]
    assert container["image"] == defaults()["spark.kubernetes.container.image"]
    assert set(_VARIABLE.findall(" ".join(container["args"]))) <= {one["name"] for one in container["env"]}
    assert not spark.driver_is_placed


def allowed(account: str) -> set[tuple[str, str]]:
    found = set()
    for binding in named("RoleBinding").values():
        if {"kind": "ServiceAccount", "name": account, "namespace": "acidlib"} in binding["subjects"]:
            for rule in named(binding["roleRef"]["kind"])[binding["roleRef"]["name"]]["rules"]:
                assert rule["apiGroups"] == [""]
                found |= {(resource, verb) for resource in rule["resources"] for verb in rule["verbs"]}
    return found


@pytest.mark.parametrize("name", list(pods()))
def test_the_account_of_a_driver_may_start_executors_and_no_other_has_rights(name: str) -> None:
    pod = pods()[name]
    spark, _ = spark_and_words(pod)
    if spark.is_local:
        assert pod["automountServiceAccountToken"] is False
        assert "serviceAccountName" not in pod
        return
    assert spark.master.startswith("k8s://")
    assert pod["serviceAccountName"] in named("ServiceAccount")
    assert allowed(pod["serviceAccountName"]) >= ASKED
    assert spark.property("spark.driver.host") == "$(POD_IP)"
    assert spark.property("spark.kubernetes.driver.pod.name") == "$(POD_NAME)"
    assert spark.property("spark.kubernetes.namespace") == "acidlib"


@pytest.mark.parametrize("name", list(pods()))
def test_files_and_secrets_are_there(name: str, tmp_path: Path) -> None:
    pod = pods()[name]
    (container,) = pod["containers"]
    files = named("ConfigMap")["acidlib"]["data"]
    secrets = {name: secret["stringData"] for name, secret in named("Secret").items()}
    assert [one["name"] for one in references(pod, "configMap")] == ["acidlib"]
    for one in references(pod, "secret"):
        secret = one.get("name") or one["secretName"]
        assert one["optional"] is True, "it may be left out"
        assert one.get("key") in secrets.get(secret, {None: ""})
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    places = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    variables = {one["name"]: one.get("value", "") for one in container["env"]}
    for variable, file in (("HIVE_CONF_DIR", "hive-site.xml"), ("HADOOP_CONF_DIR", "core-site.xml")):
        assert variables[variable] == places["conf"]
        (tmp_path / file).write_text(files[file])
        assert bool(read_site(tmp_path / file)) == (file == "hive-site.xml"), "what is not for all is a comment"
    assert "spark-defaults.conf" in files
    assert variables["SPARK_CONF_DIR"] == places["conf"]
    assert variables["KRB5_CONFIG"] == f"{places['conf']}/krb5.conf"
    assert "krb5.conf" in files
    keytab = re.search(r"# spark.kerberos.keytab +(\S+)", files["spark-defaults.conf"])
    assert keytab is not None
    assert keytab[1].startswith(f"{places['keytab']}/")


def test_settings_of_spark_are_understood() -> None:
    properties = defaults()
    assert all(key.startswith("spark.") and value for key, value in properties.items())
    secrets = named("Secret")
    for key, value in properties.items():
        if ".secretKeyRef." in key:
            name, _, entry = value.partition(":")
            assert entry in secrets[name]["stringData"]


def test_the_image_has_all_extras_and_runs_as_the_user_of_the_pods() -> None:
    image = (FOLDER / "Dockerfile").read_text()
    extras = re.search(r"\*\.whl\)\[([\w,]+)\]", image)
    assert extras is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    of_developers = {"advisories", "docs", "test", "trino"}
    assert set(extras[1].split(",")) == set(project["optional-dependencies"]) - of_developers
    assert f"USER {next(iter(pods().values()))['securityContext']['runAsUser']}\n" in image
    tags = set(re.findall(r"registry\.example/acidlib:(\S+)", "".join(p.read_text() for p in FOLDER.iterdir())))
    assert {tag.strip('"') for tag in tags} == {project["version"]}
