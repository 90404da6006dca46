"""Real metastores that ask for Kerberos, in a real realm: who is let in, what others are told, and for how long."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from long_runs import LONG, in_a_long_run
from runners import LocalRunner
from servers.fleet import Servers
from servers.kdc import Kdc
from servers.metastore import SERVICE, Metastore

from acidlib.acid.names import Generation
from acidlib.errors import RefusedError
from acidlib.execute.task import Task
from acidlib.metastore.hms import Hms, connect_hms
from acidlib.metastore.options import (
    ConnectionOptions,
    HttpOptions,
    KerberosLogin,
    Protection,
    options_from_settings,
)
from acidlib.metastore.transactions import TxnType
from acidlib.metastore.transport import SocketTransport
from acidlib.model.tables import TableRef
from acidlib.stores.hadoop import JavaSecrets
from integration.conftest import KERBEROS
from integration.harness import AROUND, ROOT, Jobs
from integration.hive4_jobs import Service, only_line
from integration.hive4_model import Lake
from integration.kerberos_logins import kinit, reach, refusal, sasl
from integration.keystore import keystore

gssapi = pytest.importorskip("gssapi", reason="tests/servers/gssapi.sh could not install it", exc_type=ImportError)
pytestmark = pytest.mark.live

COURSE_SECONDS = float(os.environ.get("ACIDLIB_KERBEROS_SECONDS", "60"))
COURSE_TICKET_SECONDS = int(os.environ.get("ACIDLIB_KERBEROS_TICKET_SECONDS", "20"))


def _with_other_keys(keytab: bytes) -> bytes:
    """The same names with keys of nobody. Source: MIT Kerberos, `Keytab file format`, version 2."""
    found = bytearray(keytab)
    at = 2
    while at < len(found):
        size = int.from_bytes(found[at : at + 4])
        place = at + 4
        for _ in range(int.from_bytes(found[place : place + 2]) + 1):  # the parts of a name, and its realm
            place += 2 + int.from_bytes(found[place + 2 : place + 4])
        key = place + 2 + 4 + 4 + 1 + 2 + 2
        found[key] ^= 255
        at += 4 + size
    return bytes(found)


@pytest.fixture
def metastore(with_kerberos: dict[Generation, Metastore]) -> Metastore:
    return with_kerberos[Generation.HIVE4]


@pytest.mark.parametrize("generation", KERBEROS, ids=str)
def test_who_is_let_in(
    with_kerberos: dict[Generation, Metastore],
    generation: Generation,
    anna: KerberosLogin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri = with_kerberos[generation].uri
    monkeypatch.setenv("KRB5CCNAME", "")
    logins = [sasl(anna, one) for one in Protection]
    logins += [sasl(anna), sasl(kinit(anna, tmp_path / "cache"))]
    logins.append(replace(sasl(anna, Protection.INTEGRITY, Protection.PRIVACY), host="localhost", realm="ACID.TEST"))
    for options in logins:
        with reach(uri, options) as hms:
            assert (hms.calls, "default" in hms.database_names()) == (generation, True)
            # a message and an answer of more than any buffer
            names = [TableRef("default", f"{'long' * 30}{number}") for number in range(600)]
            assert len(hms.valid_write_ids(names, hms.open_txns())) == 600
            hms.abort_txn(hms.open_txn(TxnType.DEFAULT, "kerberos test"), TxnType.DEFAULT)
            # the metastore offers all of them, and the first one wanted is used
            assert _protection_of(hms) is (options.protection or (Protection.AUTHENTICATION,))[0]


def _protection_of(hms: Hms) -> Protection:
    """By what becomes of a message."""
    connection = hms._line.connection
    assert connection is not None
    assert isinstance(connection.transport, SocketTransport)
    assert connection.transport._sasl is not None
    sent = connection.transport._sasl.wrap(b"plain text")
    if b"plain text" not in sent:
        return Protection.PRIVACY
    return Protection.AUTHENTICATION if sent == b"plain text" else Protection.INTEGRITY


def test_a_line_for_each_wrong_setting(
    realm: Kdc,
    metastore: Metastore,
    hive4_metastore: Metastore,
    anna: KerberosLogin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri, at = metastore.uri, realm.realm
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none'}")
    (tmp_path / "text").write_text("no keytab")
    stale = tmp_path / "stale"
    stale.write_bytes(_with_other_keys(Path(anna.keytab or "").read_bytes()))

    def told(login: KerberosLogin, **options: str) -> str:
        line = refusal(uri, replace(sasl(login), **{"host": "localhost", "realm": at} | options))
        start = f"Cannot log in to the metastore {uri}: "
        assert line.startswith(start), line
        return line.removeprefix(start)

    def with_keytab(path: str | Path, principal: str = "anna") -> KerberosLogin:
        return KerberosLogin(principal=f"{principal}@{at}", keytab=str(path))

    assert told(KerberosLogin()).startswith("there is no ticket; run kinit, or give --principal and --keytab (Kerb")
    assert told(KerberosLogin(principal="bob")).startswith("there is no ticket of bob; run kinit")
    assert told(with_keytab("/no/keytab")).startswith("the keytab /no/keytab cannot be read (")
    assert told(with_keytab(tmp_path / "text")).startswith(f"{tmp_path}/text is no keytab (")
    service = realm.keytab(SERVICE)
    assert told(with_keytab(service)).startswith(f"the keytab {service} has no keys of anna@{at} (")
    assert told(with_keytab(stale)).startswith(f"the keys of anna@{at} in {stale} are not those of the realm: have")
    assert told(anna, service="other").startswith(f"the realm knows no service other/localhost@{at}: does hive.")
    assert told(anna, realm="OTHER").startswith("the realm knows no service hive/localhost@OTHER: does hive.")
    realm.keytab("HTTP/localhost")
    # the metastore has no keys of that service
    assert told(anna, service="HTTP").startswith(
        "it does not accept the ticket, and says: GSS initiate failed; its log"
    )
    # somebody who does not ask for a login, and somebody who is not asked for one
    unasked = f"thrift://localhost:{hive4_metastore.port}"
    assert refusal(unasked, sasl(anna)).endswith("in the login (does the metastore ask for one, by SASL?)")
    assert refusal(uri, None).endswith("(is it a metastore, with the same settings of framed transport, TLS and SASL?)")

    def told_of_krb5_conf(change: Callable[[str], str]) -> str:
        (tmp_path / "krb5.conf").write_text(change(realm.krb5_conf.read_text()))
        # another name of the same file, for which no tickets were fetched yet
        link = tmp_path / f"keytab {time.monotonic_ns()}"
        link.symlink_to(anna.keytab or "")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
            return refusal(uri, replace(sasl(with_keytab(link)), host="localhost", realm=at))

    nobody = told_of_krb5_conf(lambda text: re.sub(r"(kdc = .*:).*", r"\g<1>9", text))
    assert nobody.startswith(f"Cannot reach the metastore {uri}: no KDC of the realm answers (Kerberos says: ")
    assert "krb5.conf names no KDC of the realm; " in told_of_krb5_conf(lambda text: text.split("[realms]")[0])
    assert "krb5.conf cannot be understood (" in told_of_krb5_conf(lambda text: f"[libdefaults\n{text}")


def test_a_protection_that_is_not_offered(servers: Servers, realm: Kdc, anna: KerberosLogin) -> None:
    if not LONG:
        pytest.skip("a metastore of its own")
    with servers.metastore(Generation.HIVE4, realm=realm, properties={"hadoop.rpc.protection": "privacy"}) as made:
        assert "default" in reach(made.uri, sasl(anna)).database_names()
        assert refusal(made.uri, sasl(anna, Protection.AUTHENTICATION)).endswith(
            "the server offers privacy, and hadoop.rpc.protection is authentication here"
        )


@in_a_long_run
def test_a_login_over_tls(servers: Servers, realm: Kdc, anna: KerberosLogin, tmp_path: Path) -> None:
    """As the settings of both sides have it, where all is to be encrypted: TLS does that, and nobody does it twice."""
    store = keystore(tmp_path)
    tls = {"hive.metastore.use.SSL": "true", "hadoop.rpc.protection": "privacy"}
    given = {"hive.metastore.keystore.path": str(store), "hive.metastore.keystore.password": "changeit"}
    with servers.metastore(Generation.HIVE4, realm=realm, properties=tls | given) as made:
        uri = f"thrift://127.0.0.1:{made.port}"  # whose the certificate is
        settings = tls | {
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.principal": f"{SERVICE}@{realm.realm}",
            "acidlib.metastore.ca.file": str(store.with_name("ca.pem")),
        }
        options = options_from_settings(settings, secrets=JavaSecrets(), login=anna)
        with connect_hms([uri], options, user="tester", host="here") as hms:
            hms.abort_txn(hms.open_txn(TxnType.DEFAULT, "over TLS"), TxnType.DEFAULT)
            assert _protection_of(hms) is Protection.AUTHENTICATION
        with pytest.raises(RefusedError, match=r"the server does not speak SASL$"):
            connect_hms([uri], replace(options, tls=None, attempts=1), user="tester", host="here")


def test_a_job_logs_in_as_spark_was_told(
    jobs: Jobs,
    lake: Lake,
    metastore: Metastore,
    anna: KerberosLogin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HIVE_CONF_DIR", str(metastore.conf_dir))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none'}")
    service = Service(jobs=jobs, uri=metastore.uri)
    made = lake.table("logged_in")
    line = only_line(service("major_compact", "--table", made.full))
    assert line.startswith(f"error: Cannot log in to the metastore {metastore.uri}: there is no ticket; run ")
    monkeypatch.setattr(AROUND, "login", anna)
    assert service.compact(made).states == ["ready for cleaning"]
    lake.check(made)
    assert service.good("show_compactions").compactions


@pytest.mark.skipif(not LONG, reason="starts Spark")
@pytest.mark.spark
def test_what_stands_before_the_command_logs_in(
    lake: Lake, metastore: Metastore, anna: KerberosLogin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By spark-submit, by a session of the command's own, and without Spark."""
    monkeypatch.setenv("HIVE_CONF_DIR", str(metastore.conf_dir))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none'}")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    made = lake.table("submitted")

    def command(*words: str, login: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        start = [sys.executable, "-P", "-c", "from acidlib.cli.main import main; main()"]
        queue = f"sqlite:///{tmp_path / 'queue.db'}"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [*start, *login, *words, "--queue-url", queue], capture_output=True, text=True, env=environment, check=False
        )

    given = ["--principal", anna.principal or "", "--keytab", anna.keytab or ""]
    for login in (["--master", "local[1]", *given], []):
        ran = command("major-compact", "--table", made.full, login=login)
        assert ran.returncode == (0 if login else 1), ran.stderr
        assert "Traceback" not in ran.stderr
        assert ("there is no ticket; run kinit" in ran.stderr) == (not login)
    assert lake.states(made) == ["ready for cleaning"]
    for job in (("show",), ("status",), ("doctor",)):
        ran = command(*job, login=given)
        assert "Kerberos" not in ran.stdout + ran.stderr, ran.stderr
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "there is no ticket; run kinit" in (ran := command(*job)).stdout + ran.stderr


class Gateway(ThreadingHTTPServer):
    """Stands before a metastore behind HTTP and lets nobody in without Kerberos; `users` are those it let in."""

    def __init__(self, metastore: Metastore, keytab: Path) -> None:
        super().__init__(("127.0.0.1", 0), GatewayHandler)
        self.metastore = metastore
        self.keytab = keytab
        self.users: list[str] = []


class GatewayHandler(BaseHTTPRequestHandler):
    server: Gateway
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        _, _, token = self.headers.get("Authorization", "").partition("Negotiate ")
        if not token:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Negotiate")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        held = gssapi.Credentials(usage="accept", store={"keytab": f"FILE:{self.server.keytab}"})
        context = gssapi.SecurityContext(usage="accept", creds=held)
        context.step(base64.b64decode(token))
        user = str(context.initiator_name)
        self.server.users.append(user)
        behind = HTTPConnection("127.0.0.1", self.server.metastore.port)
        headers = {"Content-Type": "application/x-thrift", "x-actor-username": user.partition("@")[0]}
        behind.request("POST", self.path, body=body, headers=headers)
        answer = behind.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/x-thrift")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        behind.close()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.mark.skipif(not LONG, reason="a metastore of its own")
def test_http_behind_a_gateway_that_asks_for_kerberos(
    servers: Servers, realm: Kdc, anna: KerberosLogin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none'}")
    settings = {"metastore.server.thrift.transport.mode": "http", "metastore.server.thrift.http.path": "metastore"}
    with servers.metastore(Generation.HIVE4, realm=realm, properties=settings) as made:
        # the metastore itself asks for nothing, though it has a realm
        options = ConnectionOptions(connect_timeout_seconds=30, attempts=1, http=HttpOptions(login=anna))
        with connect_hms([made.uri], options, user="anna", host="here", sleep=time.sleep) as hms:
            assert "default" in hms.database_names()
        gateway = Gateway(made, realm.keytab("HTTP/localhost"))
        thread = threading.Thread(target=gateway.serve_forever)
        thread.start()
        uri = f"http://localhost:{gateway.server_port}"
        try:
            with connect_hms([uri], options, user="anna", host="here", sleep=time.sleep) as hms:
                hms.abort_txn(hms.open_txn(TxnType.DEFAULT, "gateway"), TxnType.DEFAULT)
            assert set(gateway.users) == {f"anna@{realm.realm}"}
            told = rf"^Cannot use the metastore {uri}: it demands Kerberos, and there is no ticket; run kinit"
            with pytest.raises(RefusedError, match=told):
                connect_hms([uri], replace(options, http=HttpOptions(login=KerberosLogin())), user="x", host="here")
        finally:
            gateway.shutdown()
            gateway.server_close()
            thread.join()


class SlowRunner(LocalRunner):
    """Does what there is to do, and is busy with it for a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__(lambda: uuid.uuid4().hex)
        self._seconds = seconds

    def run_batches(self, batches: Sequence[Sequence[Task]], *, group: str) -> list[list[Any]]:
        time.sleep(self._seconds)
        return super().run_batches(batches, group=group)


@pytest.mark.skipif(not LONG, reason="takes longer than a ticket lives")
def test_a_run_longer_than_its_tickets(
    servers: Servers, jobs: Jobs, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long, and with tickets that live as long, as variables say; the metastore is restarted in the middle."""
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'cache'}")
    with servers.kdc(ticket_seconds=COURSE_TICKET_SECONDS) as realm:
        monkeypatch.setenv("KRB5_CONFIG", str(realm.krb5_conf))
        anna = KerberosLogin(principal=f"anna@{realm.realm}", keytab=str(realm.keytab("anna")))
        cached = kinit(anna, tmp_path / "cache")
        # without heartbeats the run would have lost its transaction long before its end
        asked = servers.metastore(Generation.HIVE4, beside=lake.metastore, realm=realm, txn_timeout_seconds=15)
        try:
            monkeypatch.setenv("HIVE_CONF_DIR", str(asked.conf_dir))
            monkeypatch.setattr(AROUND, "login", anna)
            service = Service(jobs=jobs, uri=asked.uri)
            made, other = lake.table("first"), lake.table("second")
            with reach(asked.uri, sasl(cached)) as open_before:
                monkeypatch.setattr(AROUND, "runner", SlowRunner(COURSE_SECONDS))
                ran = service.good("major_compact", "--table", made.full)
                assert ran.states == ["ready for cleaning"]
                # what is open stays open, what is new needs a ticket
                assert "default" in open_before.database_names()
            told = refusal(asked.uri, sasl(cached))
            assert re.search(rf"the ticket of anna@{realm.realm} ended at \d{{4}}-.* UTC; run kinit, or ", told)
            asked.restart()
            assert service.compact(other).states == ["ready for cleaning"]
            for table in (made, other):
                lake.check(table)
            realm.stop()
            time.sleep(COURSE_TICKET_SECONDS + 1)
            told = f"Cannot reach the metastore {asked.uri}: no KDC of the realm answers (Kerberos says: "
            assert refusal(asked.uri, sasl(anna)).startswith(told)
        finally:
            asked.remove()
