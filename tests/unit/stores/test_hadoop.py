"""Delegation tokens: when the driver obtains them, which it hands on, and how tasks take them up; without Java."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from acidlib.errors import RetryError
from acidlib.stores.hadoop import FILE_VARIABLE, DelegationTokens, HandedTokens


class Credentials:
    def __init__(self) -> None:
        self.tokens: dict[str, Token] = {}

    def addToken(self, name: str, token: Token) -> None:
        self.tokens[name] = token

    def getToken(self, name: str) -> Token | None:
        return self.tokens.get(name)

    def writeTokenStorageToStream(self, stream: Stream) -> None:
        stream.data = repr(sorted((name, token.text, token.service) for name, token in self.tokens.items())).encode()


class Token:
    def __init__(self, text: str) -> None:
        self.text, self.service = text, ""

    def copyToken(self) -> Token:
        return Token(self.text)

    def setService(self, service: str) -> None:
        self.service = service


class Settings(dict[str, str]):
    def set(self, key: str, value: str) -> None:
        self[key] = value


class Stream:
    data = b""

    def flush(self) -> None: ...

    def toByteArray(self) -> bytes:
        return self.data


class Files:
    """A file system that somebody has opened."""

    def __init__(self, world: World, *, by_ticket: bool) -> None:
        self._world, self._by_ticket = world, by_ticket

    def getCanonicalServiceName(self) -> str:
        return "10.0.0.1:8020"

    def addDelegationTokens(self, renewer: str, fresh: Credentials) -> None:
        assert renewer == "etl"
        if not (self._by_ticket and self._world.has_ticket):
            raise Py4JError("Delegation Token can be issued only with kerberos")
        self._world.obtained += 1
        fresh.addToken(self.getCanonicalServiceName(), Token(f"own {self._world.obtained}"))

    def getClient(self) -> Any:
        return SimpleNamespace(getNamenode=lambda: self)

    def renewDelegationToken(self, token: Token) -> float:
        assert self._by_ticket
        return (self._world.now + self._world.life) * 1000

    def close(self) -> None:
        self._world.closed += 1


class World:
    """Hadoop, a clock, and whether there is a ticket.

    What was given stays with the user of the process, who connects with it and nothing else.
    """

    def __init__(self, *, cache: str | None = "FILE:/tickets") -> None:
        self.now, self.life, self.has_ticket, self.by_ticket = 0.0, 1000.0, True, True
        self.obtained = self.opened = self.closed = 0
        self.given, self.cache = Credentials(), cache
        self.proxied: str | None = None

    def open(self, root: str, settings: dict[str, str], user: str | None = None) -> Files:
        assert root == "hdfs://nn:8020/"
        self.opened += 1
        if user is not None:
            own = f"/tmp/krb5cc_{os.getuid()}"
            assert (user, settings) == ("etl@REALM", {"hadoop.security.kerberos.ticket.cache.path": self.cache or own})
        return Files(self, by_ticket=user is not None or not self.given.tokens)

    def start(self) -> tuple[Any, Any]:
        user = SimpleNamespace(
            getCredentials=lambda: self.given,
            getShortUserName=lambda: "etl",
            getUserName=lambda: "etl@REALM",
            getRealUser=lambda: self.proxied,
        )
        users = SimpleNamespace(getCurrentUser=lambda: user, isLoginTicketBased=lambda: self.by_ticket)
        hadoop = SimpleNamespace(
            security=SimpleNamespace(UserGroupInformation=users, Credentials=Credentials),
            fs=SimpleNamespace(
                FileSystem=SimpleNamespace(
                    get=lambda root, configuration: Files(self, by_ticket=False), newInstance=self.open
                ),
                Path=lambda uri: SimpleNamespace(toUri=lambda: uri),
            ),
            conf=SimpleNamespace(Configuration=Settings),
            io=SimpleNamespace(Text=str),
        )
        lang = SimpleNamespace(System=SimpleNamespace(getenv={"KRB5CCNAME": self.cache}.get))
        streams = SimpleNamespace(ByteArrayOutputStream=Stream, DataOutputStream=lambda stream: stream)
        java = SimpleNamespace(io=streams, lang=lang)
        return SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop)), java=java), Settings({})


@pytest.fixture
def world() -> World:
    return World()


def test_a_new_one_is_obtained_when_half_of_its_life_is_over(world: World) -> None:
    tokens = DelegationTokens(world.start, lambda: world.now)
    # by the name that hdfs-native connects to, where Hadoop has an address
    first = b"[('nn:8020', 'own 1', 'nn:8020')]"
    for now in (0, 10, 100, 499):
        world.now = now
        assert tokens(("nn:8020",)) == first
    world.now = 531
    assert tokens(("nn:8020",)) == b"[('nn:8020', 'own 2', 'nn:8020')]"


@pytest.mark.parametrize("cache", ["FILE:/tickets", None])
def test_whom_spark_has_given_a_token_obtains_his_own_by_his_ticket(cache: str | None) -> None:
    """Whoever has a token connects with it, and gets no other by it."""
    world = World(cache=cache)
    world.given.addToken("10.0.0.1:8020", Token("given"))
    tokens = DelegationTokens(world.start, lambda: world.now)
    for now, own in ((0, b"own 1"), (600, b"own 2")):
        world.now = now
        assert own in tokens(("nn:8020",))
    assert world.opened == world.closed == 2


def test_without_a_ticket_what_was_given_last_is_handed_on(world: World) -> None:
    world.has_ticket = world.by_ticket = False
    tokens = DelegationTokens(world.start, lambda: world.now)
    for number in range(3):  # with a keytab Spark obtains new ones
        world.now = 31.0 * number
        world.given.addToken("10.0.0.1:8020", Token(f"given {number}"))
        assert tokens(("nn:8020",)) == f"[('nn:8020', 'given {number}', 'nn:8020')]".encode()
    world.has_ticket = world.by_ticket = True
    world.now = 100
    assert b"own 1" in tokens(("nn:8020",))
    assert world.opened == world.closed == 4


def test_after_the_end_of_the_ticket_the_last_own_one_is_handed_on_while_it_lasts(world: World) -> None:
    tokens = DelegationTokens(world.start, lambda: world.now)
    tokens(("nn:8020",))
    world.has_ticket, world.now = False, 999
    assert b"own 1" in tokens(("nn:8020",))
    world.now = 1030
    with pytest.raises(RetryError, match="only with kerberos"):
        tokens(("nn:8020",))


def test_in_the_name_of_another_user_nothing_is_opened_by_the_ticket(world: World) -> None:
    """It is that of the user who stands behind, and not of whose name is used."""
    world.proxied = "gateway"
    world.given.addToken("10.0.0.1:8020", Token("given"))
    assert b"given" in DelegationTokens(world.start, lambda: world.now)(("nn:8020",))


def test_with_neither_it_says_why(world: World) -> None:
    world.has_ticket = False
    with pytest.raises(RetryError) as caught:
        DelegationTokens(world.start, lambda: world.now)(("nn:8020",))
    assert str(caught.value) == (
        "Cannot get tokens for hdfs://nn:8020: Hadoop said : Delegation Token can be issued only with kerberos"
    )


class Obtained:
    """Gives other tokens each time."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, authorities: tuple[str, ...]) -> bytes:
        self.asked.append(authorities)
        return f"tokens {len(self.asked)}".encode()


def test_each_task_brings_what_the_driver_has_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE_VARIABLE, "/given/by/yarn")
    obtained = Obtained()
    driver = HandedTokens(obtained)
    pickle.dumps(driver)
    assert obtained.asked == []  # nobody has asked for a place where tokens are needed
    driver.use("nn:8020")
    driver.use("nn:8020")
    assert os.environ[FILE_VARIABLE] == "/given/by/yarn"
    sent = [pickle.dumps(driver) for _ in range(4)]
    assert obtained.asked == [("nn:8020",)] * 4
    for number, task in enumerate(sent, 1):
        there = pickle.loads(task)
        assert f"tokens {number}" not in repr(there)
        for _ in range(2):
            there.use("nn:8020")
            assert Path(os.environ[FILE_VARIABLE]).read_bytes() == b"tokens %d" % number
    # one that was about to be read a moment ago is still there, older ones are not
    left = [str(path.resolve()) for path in Path("/proc/self/fd").iterdir()]
    assert sum("acidlib-tokens" in path for path in left) == 2


def test_without_tokens_it_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE_VARIABLE, "/given/by/yarn")
    there = pickle.loads(pickle.dumps(HandedTokens()))
    there.use("nn:8020")
    assert os.environ[FILE_VARIABLE] == "/given/by/yarn"
