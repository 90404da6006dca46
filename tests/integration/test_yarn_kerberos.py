"""Runs on a YARN and an HDFS that ask for Kerberos, by executors that have no ticket. In a long run only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hdfs_tables import names, uploaded
from long_runs import LONG
from servers.fleet import Servers
from servers.hdfs import SERVICE, WEB, Hdfs
from servers.kdc import Kdc
from servers.spark import SPARK_HOME
from servers.yarn import Yarn
from tickets import ticket

from acidlib.location import Location
from integration.harness import ROOT, SMALL_SPARK, TASKS_PATH, fixture
from integration.test_yarn import CLIENT, CLUSTER, SETTINGS

pytest.importorskip("gssapi", reason="tests/servers/gssapi.sh could not install it", exc_type=ImportError)
pytestmark = [
    *(pytest.mark.spark, pytest.mark.slow, pytest.mark.live),
    pytest.mark.skipif(not LONG, reason="a realm, an HDFS and a YARN of its own: tests/run long"),
]
# hdfs-native passes over a token that ends for good within a minute
TOKENS = {
    "dfs.namenode.delegation.token.renew-interval": "60000",
    "dfs.namenode.delegation.token.max-lifetime": "180000",
}
TOKENS_END_SECONDS = "200"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The clusters, and what the user etl has who uses them: a keytab, and a ticket."""

    realm: Kdc
    hdfs: Hdfs
    yarn: Yarn
    conf: Path
    home: str
    keytab: Path
    cache: str

    def run(self, program: Sequence[str | Path], *words: str | Path, has_ticket: bool) -> str:
        """What a program printed, that is started as on a machine outside."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("KRB5", "HADOOP_", "SPARK_", "PYSPARK_"))}
        java = f"-Djava.security.krb5.conf={self.realm.krb5_conf}"
        variables = {
            **SMALL_SPARK,
            "SPARK_SUBMIT_OPTS": f"{SMALL_SPARK['SPARK_SUBMIT_OPTS']} {java}",
            "SPARK_CONF_DIR": self.conf,
            "YARN_CONF_DIR": self.yarn.conf_dir,
            "HADOOP_CONF_DIR": self.yarn.conf_dir,
            "ACIDLIB_HOME": self.conf / "home",
            "KRB5_CONFIG": self.realm.krb5_conf,
            "KRB5CCNAME": self.cache if has_ticket else "FILE:/none",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": TASKS_PATH,
        }
        command = [*program, "--master", "yarn", "--conf", f"spark.driver.extraJavaOptions={java}", *words]
        environment = kept | {key: str(value) for key, value in variables.items()}
        done = subprocess.run(
            [*map(str, command)], env=environment, check=False, capture_output=True, text=True, timeout=600
        )
        logs = self.yarn.output("*", "std*") if done.returncode else {}
        assert done.returncode == 0, (done.stdout, done.stderr[-5000:], logs)
        return done.stdout

    def table(self, tmp_path: Path) -> Location:
        return uploaded(self.hdfs, fixture("hive3/a_crud", tmp_path / "t"), tmp_path.name, below=self.home)


@pytest.fixture(scope="module")
def site(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    place = tmp_path_factory.mktemp("site")
    with servers.kdc() as realm, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(realm.krb5_conf))
        java = f"-Djava.security.krb5.conf={realm.krb5_conf}"
        settings = {
            **SETTINGS,
            "spark.executor.extraJavaOptions": f"{SETTINGS['spark.executor.extraJavaOptions']} {java}",
            "spark.yarn.am.extraJavaOptions": java,
            "spark.yarn.appMasterEnv.KRB5_CONFIG": str(realm.krb5_conf),
        }
        (place / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        with servers.hdfs(data_nodes=1, realm=realm, properties=TOKENS) as hdfs:
            patch.setenv("KRB5CCNAME", ticket(realm, SERVICE, realm.keytab(SERVICE, WEB), place / "superuser"))
            home = hdfs.new_directory(owner="etl", group="etl")
            client = hdfs.client()
            client.mkdirs("/user/etl", create_parent=True)
            client.set_owner("/user/etl", "etl", "etl")
            keytab = realm.keytab("zoe", "etl")
            cache = ticket(realm, "etl", keytab, place / "cache")
            patch.setenv("KRB5CCNAME", cache)
            with servers.yarn(hdfs) as yarn:
                yield Site(realm=realm, hdfs=hdfs, yarn=yarn, conf=place, home=home, keytab=keytab, cache=cache)


@pytest.mark.parametrize("has_ticket", [True, False], ids=["ticket", "keytab"])
@pytest.mark.parametrize("mode", [CLIENT, CLUSTER], ids=["client", "cluster"])
def test_a_compaction(site: Site, mode: Sequence[str], has_ticket: bool, tmp_path: Path) -> None:
    table = site.table(tmp_path)
    login = () if has_ticket else ("--principal", f"etl@{site.realm.realm}", "--keytab", site.keytab)
    job = (ROOT / "jobs/major_compact.py", "--location", str(table), "--all-committed", "--output", "json")
    queue = ("--queue-url", f"sqlite:///{tmp_path / 'queue.db'}")
    out = site.run((ROOT / "spark-submit.sh",), *mode, *login, *job, *queue, has_ticket=has_ticket)
    if not mode:
        assert [one["state"] for one in json.loads(out)["compactions"]] == ["ready for cleaning"]
    assert "base_0000004" in names(site.hdfs, table)


def test_tasks_bring_tokens_that_their_executor_does_not_have(site: Site, tmp_path: Path) -> None:
    """What YARN has given a container ends; YARN renews it as long as it may be."""
    delta = f"{site.table(tmp_path)}/delta_0000001_0000001_0000"
    settings = [
        word for item in site.hdfs.configuration.items() for word in ("--conf", "spark.hadoop.{}={}".format(*item))
    ]
    settings += ["--conf", "spark.executor.instances=1", "--conf", f"spark.executorEnv.PYTHONPATH={TASKS_PATH}"]
    program = (ROOT / "tests/integration/long_tokens.py", delta, "_orc_acid_version", TOKENS_END_SECONDS)
    out = site.run((SPARK_HOME / "bin/spark-submit",), *settings, *program, has_ticket=True)
    first, handed, later, handed_later = out.splitlines()
    assert (first, handed, handed_later) == ("given: b'2'", "handed: b'2'", "handed: b'2'")
    assert later.startswith("given: Cannot ")
