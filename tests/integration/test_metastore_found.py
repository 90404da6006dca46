"""A real metastore of Hive 4 behind HTTP that registers itself in a real ZooKeeper: found, let in, with faults."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from kazoo.client import KazooClient
from long_runs import LONG, amount
from servers.fleet import Servers
from servers.metastore import Metastore
from servers.process import free_port
from servers.zookeeper import ZooKeeper, ensemble

from acidlib.acid.names import Generation
from acidlib.errors import RefusedError, RetryError
from acidlib.metastore.connection import Effect, effect_of
from acidlib.metastore.hms import Hms, connect_hms, registered
from acidlib.metastore.options import ConnectionOptions, HttpOptions, TlsOptions, parse_endpoints
from acidlib.metastore.transactions import TxnType
from acidlib.model.tables import TableRef
from integration.harness import Jobs
from integration.hive4_jobs import Service, only_line, settle, wait_for
from integration.hive4_model import Lake
from integration.hive4_proxy import Proxy
from integration.keystore import key_as_pem, keystore

pytestmark = pytest.mark.live
HTTP = {
    "metastore.server.thrift.transport.mode": "http",
    "metastore.server.thrift.http.path": "some/path",
    "metastore.client.thrift.transport.mode": "http",
    "metastore.client.thrift.http.path": "some/path",
}
NAMESPACE = "hive/metastores"
OPTIONS = HttpOptions(path="/some/path/*")


@pytest.fixture(scope="module")
def zookeepers_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keystore(tmp_path_factory.mktemp("keystore"))


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory, zookeepers_store: Path) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper"), keystore=zookeepers_store) as made:
        yield made


@pytest.fixture(scope="module")
def client(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    made = KazooClient(hosts=zookeeper.server)
    made.start()
    yield made
    made.stop()
    made.close()


@pytest.fixture(scope="module")
def http_metastore(
    servers: Servers, hive4_metastore: Metastore, zookeeper: ZooKeeper, client: KazooClient
) -> Iterator[Metastore]:
    """Clients with its settings look for it in the ZooKeeper."""
    registering = {
        "hive.metastore.service.discovery.mode": "zookeeper",
        # a server takes no notice of the older name: it clears that for itself
        "metastore.thrift.uris": zookeeper.server,
        "hive.zookeeper.namespace": NAMESPACE,
        "metastore.zookeeper.session.timeout": "60s",
    }
    with servers.metastore(Generation.HIVE4, beside=hive4_metastore, properties=HTTP | registering) as made:
        # it listens before that
        wait_for(lambda: bool(client.exists(f"/{NAMESPACE}") and client.get_children(f"/{NAMESPACE}")))
        yield made


@pytest.fixture
def service(jobs: Jobs, http_metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Our jobs, told by its settings that the metastore is behind HTTP."""
    monkeypatch.setenv("HIVE_CONF_DIR", str(http_metastore.conf_dir))
    return Service(jobs=jobs, uri=http_metastore.uri)


def reach(metastore: Metastore, http: HttpOptions | None = OPTIONS, tls: TlsOptions | None = None) -> Hms:
    options = ConnectionOptions(connect_timeout_seconds=60, attempts=1, http=http, tls=tls)
    return connect_hms([metastore.uri], options, user="tester", host="here", sleep=lambda _seconds: None)


def test_who_is_let_in(http_metastore: Metastore, hive4_metastore: Metastore) -> None:
    with reach(http_metastore) as hms:
        assert (hms.calls, "default" in hms.database_names()) == (Generation.HIVE4, True)
        # an answer of more than any buffer
        names = [TableRef("default", f"{'long' * 30}{number}") for number in range(100)]
        assert len(hms.valid_write_ids(names, hms.open_txns())) == 100
        hms.abort_txn(hms.open_txn(TxnType.DEFAULT, "http test"), TxnType.DEFAULT)
    with pytest.raises(RefusedError, match=r"^Cannot use the metastore .*: there is no metastore at this path"):
        reach(http_metastore, HttpOptions(path="/other/*"))
    with pytest.raises(RefusedError, match=r"^Cannot use thrift://.*: the answer of set_ugi cannot be read"):
        reach(http_metastore, None)
    with pytest.raises(RetryError, match=r"^Cannot reach the metastore .*: the server closed the connection "):
        reach(hive4_metastore)


CALLS = ("find_next_compact2", "open_txns", "lock", "update_compactor_state", "mark_compacted", "commit_txn")
LOST = amount(
    [("commit_txn", True), ("mark_compacted", True)], long=[(call, lost) for call in CALLS for lost in (False, True)]
)


@pytest.mark.parametrize(("call", "answer"), LOST)
def test_a_compaction_whose_calls_are_lost(
    hive4_metastore: Metastore,
    http_metastore: Metastore,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    answer: bool,
) -> None:
    """What may be asked twice is, over new connections; of the rest nothing is done twice, and a later run ends it."""
    with Lake(hive4_metastore) as lake:
        made = lake.table("over_http")
        lake.request(made)
        with Proxy(http_metastore) as proxy:
            proxy.lose(call, answer=answer)
            ran = service("major_compact", uri=proxy.uri)
            assert proxy.happened == [f"{'after' if answer else 'before'} {call}"]
            assert proxy.calls["set_ugi"] == 0
        if effect_of(call) is not Effect.NOT_IDEMPOTENT:
            assert (ran.status, ran.states) == (0, ["ready for cleaning"])
            assert proxy.calls[call] == 2
        settle(lake, service, made, monkeypatch)


@pytest.mark.skipif(not LONG, reason="a metastore of its own is started in a long run only")
def test_a_token_over_tls(
    servers: Servers, hive4_metastore: Metastore, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = keystore(tmp_path)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [public(key)]}))
    properties = HTTP | {
        "metastore.authentication": "JWT",
        "metastore.authentication.jwt.jwks.url": (tmp_path / "jwks.json").as_uri(),
        "metastore.client.auth.mode": "JWT",
        "hive.metastore.use.SSL": "true",
        "hive.metastore.keystore.path": str(store),
        "hive.metastore.keystore.password": "changeit",
        # Jetty wants them named
        "metastore.keystore.type": "PKCS12",
        "metastore.keymanagerfactory.algorithm": "PKIX",
        "acidlib.metastore.ca.file": str(store.with_name("ca.pem")),
    }
    with servers.metastore(Generation.HIVE4, beside=hive4_metastore, properties=properties) as metastore:
        monkeypatch.setenv("HIVE_CONF_DIR", str(metastore.conf_dir))
        service = Service(jobs=jobs, uri=metastore.uri)
        monkeypatch.setenv("HMS_JWT", token(key, time.time() + 600))
        assert service("show_compactions").status == 0
        http = replace(OPTIONS, token=os.environ["HMS_JWT"], https=TlsOptions(ca_file=str(store.with_name("ca.pem"))))
        by_its_uri = [metastore.uri.replace("thrift", "https")]
        with connect_hms(by_its_uri, ConnectionOptions(attempts=1, http=http), user="nobody", host="here") as hms:
            assert hms.calls is Generation.HIVE4
        told = f"error: Cannot use the metastore {metastore.uri}: it does not let us in: 401 Unauthorized"
        for wrong in (token(key, time.time() - 600), token(rsa.generate_private_key(65537, 2048), time.time() + 600)):
            monkeypatch.setenv("HMS_JWT", wrong)
            line = only_line(service("show_compactions"))
            assert line.startswith(told)
            assert wrong not in line
        monkeypatch.delenv("HMS_JWT")
        assert "the variable HMS_JWT is not set" in only_line(service("show_compactions"))
        with pytest.raises(RefusedError, match=r"^Cannot trust the metastore .*: its certificate is not valid"):
            reach(metastore, OPTIONS, TlsOptions())
        with pytest.raises(RefusedError, match=r"^Cannot use .*: the server does not speak HTTP \(is it .* TLS"):
            reach(metastore)


def test_a_run_finds_the_metastores_and_goes_on_with_another(
    hive4_metastore: Metastore,
    http_metastore: Metastore,
    zookeeper: ZooKeeper,
    client: KazooClient,
    jobs: Jobs,
    service: Service,
) -> None:
    servers = parse_endpoints([f"zookeeper://{zookeeper.server}/{NAMESPACE}"])
    # by the name that this machine has for itself
    assert [one.port for one in registered(servers, timeout_seconds=60)] == [http_metastore.port]
    with Lake(hive4_metastore) as lake:
        made = lake.table("found")
        lake.request(made)
        # the run begins with one that ends in its middle, and asks then who else is there
        proxy = Proxy(http_metastore)
        uri = f"zookeeper://{zookeeper.server}/alone"
        client.create("/alone/one", proxy.uri.removeprefix("thrift://").encode(), makepath=True)

        def end() -> None:
            client.create("/alone/two", f"127.0.0.1:{http_metastore.port}".encode())
            threading.Thread(target=proxy.close).start()

        proxy.after("update_compactor_state", end)
        ran = service.good("major_compact", uri=uri)
        assert proxy.happened == ["after update_compactor_state"]
        assert ran.states == ["ready for cleaning"]
        # by the settings alone, and what was done is there
        cleaned = jobs("cleaner", "--retention", "0s", "--table", made.full)
        assert cleaned.status == 0, cleaned
        assert [one["state"] for one in cleaned.document["cleanings"]] == ["succeeded"]
        lake.check(made)


def test_what_is_no_metastore_there(zookeeper: ZooKeeper, client: KazooClient, tmp_path: Path) -> None:
    server = zookeeper.server

    def found(namespace: str) -> list[str]:
        servers = parse_endpoints([f"zookeeper://{server}/{namespace}"])
        return [one.uri for one in registered(servers, timeout_seconds=60)]

    with pytest.raises(RefusedError) as refused:
        found("nowhere")
    assert str(refused.value) == (
        f"Cannot find the metastore: the ZooKeeper {server} has no node /nowhere: hive.zookeeper.namespace "
        "names it, and no metastore may have registered yet"
    )
    client.create("/some")
    with pytest.raises(RetryError) as retry:
        found("some")
    assert str(retry.value) == (f"Cannot find a metastore: none is registered in the ZooKeeper {server} below /some")
    client.create("/some/b", b"host2:9084")
    client.create("/some/a", b"host1:9083")
    client.create("/some/c", b"host2:9084")
    assert found("some") == ["thrift://host1:9083", "thrift://host2:9084"]
    for data in (b"", b"host", b"host:port", b"\xff\xfe", b"a:1,b:2", b"serverUri=h:1;version=4", b"x@h:1", b"h:1/p"):
        client.set("/some/b", data)
        with pytest.raises(RefusedError, match=r"^Cannot find the metastore: the node /some/b of .* is not host"):
            found("some")


def test_a_zookeeper_over_tls(
    zookeeper: ZooKeeper, client: KazooClient, zookeepers_store: Path, tmp_path: Path
) -> None:
    client.create("/secure", makepath=True)
    client.create("/secure/a", b"host1:9083")

    def found(tls: TlsOptions, *, server: str = zookeeper.secure_server, seconds: float = 60) -> list[str]:
        servers = parse_endpoints([f"zookeeper://{server}/secure"])
        return [one.uri for one in registered(servers, timeout_seconds=seconds, tls=tls)]

    ca_file = str(zookeepers_store.with_name("ca.pem"))
    trusting = TlsOptions(ca_file=ca_file)
    for password in (None, "s3cret"):
        key = {"key_file": str(key_as_pem(zookeepers_store, password)), "key_password": password}
        assert found(replace(trusting, **key)) == ["thrift://host1:9083"]
    with pytest.raises(RefusedError, match=r"^Cannot use the key in .*key-s3cret\.pem: it cannot be read"):
        found(replace(trusting, **key | {"key_password": None}))
    # it does not say whom it asks for a certificate, and to whom it speaks without TLS
    for tls, server in ((trusting, zookeeper.secure_server), (replace(trusting, **key), zookeeper.server)):
        with pytest.raises(RetryError, match=r"^Cannot find the metastore: the ZooKeeper .* did not answer"):
            found(tls, server=server, seconds=1)
    with pytest.raises(RefusedError) as caught:
        found(replace(trusting, ca_file=None, **key), seconds=4)  # of which half for the question why
    assert str(caught.value) == (
        f"Cannot trust the ZooKeeper {zookeeper.secure_server} below /secure: the certificate of "
        f"{zookeeper.secure_server} is not valid: self-signed certificate"
    )


@pytest.mark.skipif(not LONG, reason="three servers of its own: tests/run long")
def test_a_zookeeper_of_several_servers_of_which_one_dies(
    hive4_metastore: Metastore, jobs: Jobs, tmp_path: Path
) -> None:
    """It dies in the middle of a run, together with the metastore that the run speaks to."""
    made = ensemble(tmp_path)
    uri = ",".join(f"zookeeper://{one.server}/several" for one in made)
    with ExitStack() as stack:
        for one in made:
            stack.enter_context(one)
        client = KazooClient(hosts=",".join(one.server for one in made))
        client.start()
        stack.callback(client.close)
        stack.callback(client.stop)
        lake = stack.enter_context(Lake(hive4_metastore))
        table = lake.table("several")
        lake.request(table)
        proxy = Proxy(hive4_metastore)
        client.create("/several/one", proxy.uri.removeprefix("thrift://").encode(), makepath=True)

        def end() -> None:
            client.create("/several/two", f"127.0.0.1:{hive4_metastore.port}".encode())
            made[1].kill()  # the first two were most of them, so this is their leader
            threading.Thread(target=proxy.close).start()

        proxy.after("update_compactor_state", end)
        ran = Service(jobs=jobs, uri=uri).good("major_compact")
        assert proxy.happened == ["after update_compactor_state"]
        assert ran.states == ["ready for cleaning"]
        made[0].kill()  # of three, one is not enough
        with pytest.raises(RetryError, match=r"^Cannot find the metastore: the ZooKeeper .* did not answer"):
            registered(parse_endpoints([uri]), timeout_seconds=3)


def test_a_zookeeper_that_does_not_answer(jobs: Jobs) -> None:
    server = f"127.0.0.1:{free_port()}"
    with pytest.raises(RetryError) as caught:
        registered(parse_endpoints([f"zookeeper://{server}/hive"]), timeout_seconds=1)
    assert str(caught.value) == (f"Cannot find the metastore: the ZooKeeper {server} did not answer within 1 s")
    ran = jobs("show_compactions", "--metastore-uri", f"zookeeper://{server}/hive?x=1")
    assert ran.err.rstrip().endswith("it names no node; it has to be zookeeper://host:port/namespace")


def public(key: rsa.RSAPrivateKey) -> dict[str, str]:
    """The public part of a key, as a JWKS has it."""
    numbers = key.public_key().public_numbers()
    parts = {
        name: number.to_bytes((number.bit_length() + 7) // 8)
        for name, number in zip("ne", (numbers.n, numbers.e), strict=True)
    }
    return {"kty": "RSA", "kid": "test", "use": "sig", "alg": "RS256"} | {n: text_of(part) for n, part in parts.items()}


def token(key: rsa.RSAPrivateKey, expires: float) -> str:
    """A JWT of a user that this key has signed."""
    head = {"alg": "RS256", "typ": "JWT", "kid": "test"}
    claims = {"sub": "compactor", "exp": int(expires)}
    signed = ".".join(text_of(json.dumps(part).encode()) for part in (head, claims))
    return f"{signed}.{text_of(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def text_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
