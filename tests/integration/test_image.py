"""The image for Kubernetes: each step of its Dockerfile is run, in a folder with the system that it begins with.

No builder of images is needed for it, but root, who may enter a folder as if it were the system. In a long run only.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from installed import build
from long_runs import LONG

from integration.harness import ROOT, SMALL_SPARK

pytestmark = [
    *(pytest.mark.spark, pytest.mark.slow),
    pytest.mark.skipif(not LONG, reason="Debian, Java and Spark are fetched in a long run only"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root enters a folder as if it were the whole system"),
    pytest.mark.skipif(shutil.which("debootstrap") is None, reason="there is no debootstrap on the PATH"),
]
DOCKERFILE = ROOT / "docs" / "kubernetes" / "Dockerfile"
SYSTEM = "debian:bookworm-slim"
ENTER = """
mount -t proc none "$1/proc"
mount --rbind /dev "$1/dev"
mount --rbind /etc/ssl "$1/etc/ssl"
for file in /etc/resolv.conf /etc/hosts; do touch "$1$file"; mount --bind "$file" "$1$file"; done
exec chroot --userspec="$2" "$1" /bin/sh -c "cd $3 && $4"
"""
# how this machine reaches the registries of packages
OF_THE_MACHINE = ("PIP_CERT", "PIP_DEFAULT_TIMEOUT", "SSL_CERT_FILE", "http_proxy", "https_proxy", "no_proxy")
POD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:9",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_EXECUTOR_MEMORY": "256m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
    "SPARK_EXECUTOR_POD_NAME": "pod-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_0": "-Dspark.rpc.numRetries=1",
    "SPARK_JAVA_OPT_1": "-Done.more=with a blank",
}


def steps() -> Iterator[tuple[str, str]]:
    """Each instruction of the Dockerfile and what stands behind it, lines that go on joined."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if line and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", "").splitlines():
        name, _, rest = line.partition(" ")
        yield name, rest.strip()


@dataclass(kw_only=True)
class Image:
    """A folder that becomes what the image is."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    place: str = "/"
    entrypoint: Sequence[str] = ()

    def run(self, command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A line of the shell in it."""
        own = {name: value for name, value in os.environ.items() if name in OF_THE_MACHINE}
        environment = {"PATH": os.defpath + ":/usr/sbin:/sbin", "HOME": "/root"} | own | self.variables | more
        words = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", ENTER]
        return subprocess.run(
            [*words, "sh", str(self.root), self.user, self.place, command],
            env=environment, check=False, capture_output=True, text=True, timeout=600,
        )  # fmt: skip

    def start(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """What a container of it does."""
        return self.run(shlex.join([*self.entrypoint, *words]), **more, HOME=self.place)

    def take(self, name: str, rest: str, context: Path) -> None:
        """One step."""
        if name == "FROM":
            assert rest == SYSTEM
            words = ["debootstrap", "--variant=minbase", "bookworm", str(self.root)]
            subprocess.run(words, check=True, capture_output=True)
        elif name == "ENV":
            key, _, value = rest.partition("=")
            self.variables[key] = value
        elif name == "COPY":
            source, target = rest.split()
            (found,) = context.glob(source)
            path = self.root / target.lstrip("/")
            path = path / found.name if target.endswith("/") else path
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, path)
        elif name == "RUN":
            ran = self.run(rest)
            assert ran.returncode == 0, (rest, ran.stdout[-2000:], ran.stderr[-2000:])
        elif name == "WORKDIR":
            self.place = rest
        elif name == "USER":
            self.user = f"{rest}:0"
        else:
            assert name == "ENTRYPOINT", name
            self.entrypoint = json.loads(rest)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    context = tmp_path_factory.mktemp("context")
    (context / "dist").mkdir()
    shutil.copy(build(tmp_path_factory.mktemp("built"))[1], context / "dist")
    shutil.copytree(DOCKERFILE.parent, context / "docs" / "kubernetes")
    made = Image(root=tmp_path_factory.mktemp("image") / "root")
    made.root.parent.chmod(0o755)
    for name, rest in steps():
        made.take(name, rest, context)
    return made


def test_a_container_is_no_root_and_has_compiled_kernels(image: Image) -> None:
    assert image.start("id", "-u").stdout == "185\n"
    ran = image.start("/opt/acidlib/bin/acidlib", "quickstart", SPARK_LOCAL_IP="127.0.0.1", **SMALL_SPARK)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "DIFFERS" not in ran.stdout
    assert "compiling" not in ran.stderr


def test_what_the_extras_bring_is_there(image: Image) -> None:
    modules = "boto3, gssapi, jinja2, kazoo, prometheus_client, psycopg, pymysql, pyorc, venv_pack"
    ran = image.start("/opt/acidlib/bin/python", "-c", f"import {modules}")
    assert ran.returncode == 0, ran.stderr
    assert image.start("sh", "-c", "! command -v gcc").returncode == 0


def test_a_driver_is_started_as_spark_says(image: Image) -> None:
    job = next(image.root.glob("opt/acidlib/lib/python3*/site-packages/acidlib/cli/entry/acidlib_job.py"))
    words = ("--master", "local[1]", f"local:///{job.relative_to(image.root)}", "major-compact")
    words += ("--location", "/nowhere", "--all-committed")
    ran = image.start("driver", *words, SPARK_DRIVER_BIND_ADDRESS="127.0.0.1", **SMALL_SPARK)
    told = ran.stdout + ran.stderr
    assert ran.returncode == 1, told
    assert "Cannot list /nowhere: there is" in told


def test_an_executor_is_started_as_spark_says(image: Image) -> None:
    """It looks for its driver, which is not there; a word that it does not know it would refuse before."""
    ran = image.start("executor", **POD)
    told = ran.stdout + ran.stderr
    assert ran.returncode != 0
    assert "127.0.0.1:9" in told
    assert "Unrecognized options" not in told
