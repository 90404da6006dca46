"""Each extra brings all that its store imports, also what a library imports without asking for it by itself."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

GCS = """
from dataclasses import replace
from acidlib.stores.gcs import bucket
from acidlib.stores.gcs.options import GcsOptions, LogInAs, google_credentials
assert google_credentials(GcsOptions(bucket="b", log_in=LogInAs.NOBODY)) is None
google_credentials(GcsOptions(bucket="b", log_in=LogInAs.MACHINE))
"""
USES = {
    "gcs": GCS,
    "s3": "from acidlib.stores.s3 import bucket; import boto3; boto3.session.Session().client",
    "azure": "from acidlib.stores.renaming import abfs_client; from azure.identity import DefaultAzureCredential",
}
# run with modules as they are named in a list alone
WITH_THESE = """
import sys
from importlib.abc import MetaPathFinder
class Others(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
missing = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Others())
"""


def distributions(*requirements: str) -> set[str]:
    """The distributions that these bring, by what each says of itself."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        name, extras = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            asked: Iterable[str] = importlib.metadata.requires(name) or ()
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
        found.add(name)
        for text in asked:
            more = Requirement(text)
            if more.marker is None or any(more.marker.evaluate({"extra": extra}) for extra in (*extras, "")):
                waiting.append(more)
    return found


@pytest.mark.parametrize("extra", USES)
def test_an_extra_brings_all_that_its_store_imports(extra: str) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    brought = distributions(*project["dependencies"], *project["optional-dependencies"][extra])
    missing = {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not brought & {canonicalize_name(owner) for owner in owners} and not module.startswith("_")
    }
    missing.discard("acidlib")
    assert {"pytest", "hypothesis"} <= missing
    ran = subprocess.run(
        [sys.executable, "-c", WITH_THESE + USES[extra], ",".join(missing)], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
