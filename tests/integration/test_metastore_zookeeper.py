"""Metastores that a real ZooKeeper knows: a real one of Hive 4 that registered itself, and what else may be there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from servers.fleet import Servers
from servers.metastore import Metastore
from servers.process import free_port
from servers.zookeeper import ZooKeeper

from acidlib.errors import RefusedError, RetryError
from acidlib.metastore.discovery import Ensemble, registered
from acidlib.model.generation import Generation
from integration.harness import Jobs
from integration.hive4_jobs import Service, wait_for
from integration.hive4_model import Lake
from integration.hive4_proxy import Proxy

pytestmark = pytest.mark.live
NAMESPACE = "hive/metastores"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as made:
        yield made


@pytest.fixture(scope="module")
def client(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    made = KazooClient(hosts=zookeeper.server)
    made.start()
    yield made
    made.stop()
    made.close()


@pytest.fixture(scope="module")
def metastore(
    servers: Servers, hive4_metastore: Metastore, zookeeper: ZooKeeper, client: KazooClient
) -> Iterator[Metastore]:
    """One that registers itself; clients with its settings look for it there."""
    properties = {
        "hive.metastore.service.discovery.mode": "zookeeper",
        # a server takes no notice of the older name: it clears that for itself
        "metastore.thrift.uris": zookeeper.server,
        "hive.zookeeper.namespace": NAMESPACE,
        "metastore.zookeeper.session.timeout": "2000ms",
        "metastore.thrift.bind.host": "127.0.0.1",
    }
    with servers.metastore(Generation.HIVE4, beside=hive4_metastore, properties=properties) as made:
        # it listens before that
        wait_for(lambda: bool(client.exists(f"/{NAMESPACE}") and client.get_children(f"/{NAMESPACE}")))
        yield made


def test_a_run_finds_the_metastores_and_goes_on_with_another(
    hive4_metastore: Metastore,
    metastore: Metastore,
    zookeeper: ZooKeeper,
    client: KazooClient,
    jobs: Jobs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HIVE_CONF_DIR", str(metastore.conf_dir))
    ensemble = Ensemble(servers=(zookeeper.server,), namespace=NAMESPACE)
    assert [one.uri for one in registered(ensemble, timeout_seconds=10)] == [f"thrift://127.0.0.1:{metastore.port}"]
    with Lake(hive4_metastore) as lake:
        made = lake.table("found")
        lake.request(made)
        # the run begins with one that ends in its middle, and asks then who else is there
        proxy = Proxy(hive4_metastore)
        uri = f"zookeeper://{zookeeper.server}/alone"
        client.create("/alone/one", proxy.uri.removeprefix("thrift://").encode(), makepath=True)

        def end() -> None:
            client.create("/alone/two", f"127.0.0.1:{metastore.port}".encode())
            threading.Thread(target=proxy.close).start()

        proxy.after("update_compactor_state", end)
        ran = Service(jobs=jobs, uri=uri).good("major_compact")
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
        ensemble = Ensemble(servers=(server,), namespace=namespace)
        return [one.uri for one in registered(ensemble, timeout_seconds=10)]

    with pytest.raises(RefusedError) as refused:
        found("nowhere")
    assert str(refused.value) == (
        f"Cannot find the metastore: because the ZooKeeper {server} has no node /nowhere: hive.zookeeper.namespace "
        "names it, and no metastore may have registered yet"
    )
    client.create("/some")
    with pytest.raises(RetryError) as retry:
        found("some")
    assert str(retry.value) == (
        f"Cannot find a metastore: because none is registered in the ZooKeeper {server} below /some"
    )
    client.create("/some/b", b"host2:9084")
    client.create("/some/a", b"host1:9083")
    client.create("/some/c", b"host2:9084")
    assert found("some") == ["thrift://host1:9083", "thrift://host2:9084"]
    for data in (b"", b"host", b"host:port", b"\xff\xfe", b"a:1,b:2", b"serverUri=h:1;version=4", b"x@h:1", b"h:1/p"):
        client.set("/some/b", data)
        with pytest.raises(
            RefusedError, match=r"^Cannot find the metastore: because the node /some/b of .* is not host"
        ):
            found("some")


def test_a_zookeeper_that_does_not_answer(jobs: Jobs) -> None:
    server = f"127.0.0.1:{free_port()}"
    with pytest.raises(RetryError) as caught:
        registered(Ensemble(servers=(server,), namespace="hive"), timeout_seconds=1)
    assert str(caught.value) == (f"Cannot find the metastore: because the ZooKeeper {server} did not answer within 1 s")
    ran = jobs("show_compactions", "--metastore-uri", f"zookeeper://{server}/hive?x=1")
    assert ran.err.rstrip().endswith("because it names no node; it has to be zookeeper://host:port/namespace")
