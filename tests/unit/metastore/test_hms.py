"""URIs of a ZooKeeper, and the order in which metastores are tried; other tests have a real ZooKeeper."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from fake_metastore import FakeMetastore, Hangup, raises

from acidlib.errors import RefusedError
from acidlib.metastore import hms
from acidlib.metastore.hms import registered
from acidlib.metastore.options import ConnectionOptions, Endpoint, parse_endpoints

ONE = tuple(
    Endpoint(host=host, port=port, scheme="zookeeper", namespace="a/b") for host, port in (("zk1", 1), ("::1", 2))
)


def test_the_servers_of_uris() -> None:
    uris = ["zookeeper://zk1:1/a/b, zookeeper://[::1]:2/a/b/", "zookeeper://ZK1:1/a/b"]
    assert parse_endpoints(uris) == ONE
    assert [one.address for one in ONE] == ["zk1:1", "[::1]:2"]


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("zookeeper://a:1/n,thrift://b:1", r"^Cannot use the URI 'thrift://b:1' of a ZooKeeper: other URIs begin"),
        ("zookeeper://a/n", "it has not just a host and a port; it has to be zookeeper://host:port/namespace$"),
        ("zookeeper://u@a:1/n", "it has not just a host"),
        ("zookeeper://a:x/n", "^Cannot .*: "),
        ("zookeeper://a:1/", "it names no node"),
        ("zookeeper://a:1/n?x", "it names no node"),
        ("zookeeper://a:1/n,zookeeper://b:1/m", r"name several nodes of a ZooKeeper: /m, /n$"),
    ],
)
def test_uris_of_a_zookeeper_that_are_refused(uri: str, told: str) -> None:
    with pytest.raises(RefusedError, match=told):
        parse_endpoints([uri])


def test_without_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("kazoo"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(
        RefusedError, match=r"the module kazoo, which reads a ZooKeeper, is not installed.*'acidlib\[zookeeper\]'"
    ):
        registered(ONE, timeout_seconds=1)


def test_uris_are_tried_in_any_order_unless_the_options_say_that_they_have_one() -> None:
    with FakeMetastore() as first, FakeMetastore() as second:
        uris = [first.uri, second.uri]

        def reached(*, in_any_order: bool, shuffled: bool) -> str:
            options = ConnectionOptions(attempts=1, in_any_order=in_any_order)
            shuffle = list.reverse if shuffled else None
            with hms.connect_hms(uris, options, user="joe", host="here", shuffle=shuffle) as found:
                return found.uri

        assert reached(in_any_order=True, shuffled=True) == second.uri
        assert reached(in_any_order=False, shuffled=True) == first.uri
        assert reached(in_any_order=True, shuffled=False) == first.uri


def test_where_metastores_register_it_is_asked_again_when_none_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Endpoint, ...]] = []
    with FakeMetastore() as first, FakeMetastore() as second:
        found = [parse_endpoints([first.uri])]

        def known(servers: tuple[Endpoint, ...], *_: object) -> tuple[Endpoint, ...]:
            asked.append(servers)
            return found[-1]

        monkeypatch.setattr(hms, "registered", known)
        uri = "zookeeper://zk1:1/a/b,zookeeper://[::1]:2/a/b"
        options = ConnectionOptions(attempts=3, connect_timeout_seconds=60)
        with hms.connect_hms([uri], options, user="joe", host="here", sleep=lambda _seconds: None) as client:
            assert (client.uri, asked) == (first.uri, [ONE])
            # another thread may have looked meanwhile; this one keeps its endpoint
            client._endpoints = parse_endpoints([second.uri])
            assert client.uri == first.uri
            client._endpoints = found[0]
            second.answers["get_all_databases"] = lambda: ["a"]
            found.append(parse_endpoints([second.uri]))
            # as long as a known metastore answers, the ZooKeeper is not read
            first.answers["get_all_databases"] = [raises(Hangup()), lambda: ["b"]]
            assert (client.database_names(), asked) == (("b",), [ONE])
            for name in ("get_database_req", "getVersion", "get_all_databases"):
                first.answers[name] = raises(Hangup())
            assert (client.database_names(), asked) == (("a",), [ONE, ONE])
            assert client.uri == second.uri
