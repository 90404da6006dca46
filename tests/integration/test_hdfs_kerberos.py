"""Jobs on an HDFS that asks for Kerberos, in a real realm: who is let in, and what others are told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hdfs_tables import downloaded, names, uploaded
from judges import merge
from long_runs import LONG
from servers.fleet import Servers
from servers.hdfs import SERVICE, WEB, Hdfs
from servers.kdc import Kdc
from tickets import ticket

import acidlib
from acidlib.api.caller import Caller
from acidlib.location import Location
from acidlib.metastore.options import KerberosLogin
from integration.harness import AROUND, IN_PROCESS, Jobs, fixture

pytest.importorskip("gssapi", reason="tests/servers/gssapi.sh could not install it", exc_type=ImportError)
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not LONG, reason="a realm and an HDFS of its own: tests/run long"),
]
ALL = ("--all-committed",)
NOW = ("--retention", "0s")
KEYTABS = [(SERVICE, WEB), ("zoe", "etl")]
"""Those of several: which one is meant is never left to chance."""


@pytest.fixture(scope="module")
def realm(servers: Servers) -> Iterator[Kdc]:
    with servers.kdc() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(made.krb5_conf))
        patch.delenv("KRB5_CLIENT_KTNAME", raising=False)
        yield made


@pytest.fixture(scope="module")
def secure(servers: Servers, realm: Kdc) -> Iterator[Hdfs]:
    with servers.hdfs(data_nodes=1, realm=realm) as made:
        yield made


class Logged:
    """Who is logged in, in this process: hdfs-native finds it where Kerberos has it."""

    def __init__(self, realm: Kdc, hdfs: Hdfs, patch: pytest.MonkeyPatch, directory: Path) -> None:
        self._realm, self._hdfs, self._patch, self._directory = realm, hdfs, patch, directory
        self._made = 0

    def by(self, cache: str, *, login: KerberosLogin | None = None) -> None:
        """With a cache of tickets, and maybe a keytab; with clients of their own."""
        self._made += 1
        self._patch.setenv("KRB5CCNAME", cache)
        self._patch.delenv("KRB5_CLIENT_KTNAME", raising=False)
        self._patch.setattr(AROUND, "login", login or KerberosLogin())
        own = {"dfs.client.of": f"{self._directory.name} {self._made}"}
        self._patch.setattr(AROUND, "hadoop", self._hdfs.configuration | own)

    def as_(self, principal: str) -> None:
        """With a ticket in a file."""
        keytab = self._realm.keytab(*next((one for one in KEYTABS if principal in one), (principal,)))
        self.by(ticket(self._realm, principal, keytab, self._directory / f"cache {self._made}"))


@pytest.fixture
def logged(realm: Kdc, secure: Hdfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Logged:
    return Logged(realm, secure, monkeypatch, tmp_path)


@pytest.fixture
def table(secure: Hdfs, logged: Logged, tmp_path: Path) -> Location:
    """One that belongs to the user etl, who is logged in."""
    logged.as_(SERVICE)
    home = secure.new_directory(owner="etl", group="etl")
    logged.as_("etl")
    place = uploaded(secure, fixture("hive3/a_crud", tmp_path / "before/t"), below=home)
    secure.client().set_permission(place.path, 0o700)
    return place


def compacted_and_cleaned(jobs: Jobs, secure: Hdfs, table: Location, tmp_path: Path) -> None:
    before = merge.read(tmp_path / "before/t", generation=3)
    read = acidlib.directory(str(table), all_committed=True, hive_version=3, caller=Caller(IN_PROCESS)).to_arrow()
    assert read.num_rows == len(before)
    assert jobs("major_compact", "--location", str(table), *ALL).states == ["ready for cleaning"]
    cleaned = jobs.good("cleaner", "--location", str(table), *NOW).document["cleanings"]
    assert [one["state"] for one in cleaned] == ["succeeded"]
    assert [name for name in names(secure, table) if name[0] not in "_."] == ["base_0000004"]
    assert merge.read(downloaded(secure, table, tmp_path / "after/t"), generation=3) == before


def test_with_a_ticket(jobs: Jobs, secure: Hdfs, table: Location, tmp_path: Path) -> None:
    compacted_and_cleaned(jobs, secure, table, tmp_path)


def test_with_a_keytab(jobs: Jobs, realm: Kdc, secure: Hdfs, table: Location, logged: Logged, tmp_path: Path) -> None:
    keytab = str(realm.keytab("zoe", "etl"))
    logged.by("FILE:/none", login=KerberosLogin(principal=f"etl@{realm.realm}", keytab=keytab))
    compacted_and_cleaned(jobs, secure, table, tmp_path)


def test_who_is_not_let_in(
    jobs: Jobs, servers: Servers, realm: Kdc, secure: Hdfs, table: Location, logged: Logged, tmp_path: Path
) -> None:
    def told(*, status: int = 1) -> str:
        ran = jobs("major_compact", "--location", str(table), *ALL)
        assert ran.status == status, ran
        assert "\n" not in ran.told
        return ran.told

    at = f"Cannot look at {table}:"
    logged.by(f"FILE:{tmp_path}/none")
    missing = f"No Kerberos credentials available (default cache: FILE:{tmp_path}/none)"
    assert told() == f"{at} there was no log-in with Kerberos ({missing})"
    logged.as_("bob")
    assert told().startswith(f"Cannot list {table}: the permission is missing: user bob needs the right to")
    with servers.kdc(ticket_seconds=4) as other, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(other.krb5_conf))
        logged.by(ticket(other, "etl", other.keytab("etl"), tmp_path / "short"))
        time.sleep(5)
        assert told() == f"{at} there was no log-in with Kerberos (Ticket expired)"
    keytab = str(realm.keytab("zoe", "etl"))
    logged.by("FILE:/none", login=KerberosLogin(principal=f"nobody@{realm.realm}", keytab=keytab))
    assert told(status=2).startswith(f"Cannot log in with Kerberos as nobody@{realm.realm}: the keytab")
    logged.as_("etl")
    AROUND.hadoop = {**AROUND.hadoop, "hadoop.security.authentication": "simple"}
    assert "; does it ask for Kerberos, which core-site.xml does not mention?)" in told()
    assert [name for name in names(secure, table) if name.startswith("base")] == []
