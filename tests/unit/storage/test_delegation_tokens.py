"""When the driver obtains tokens, and which it hands on; without Java."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from acidlib.errors import RetryError
from acidlib.storage.jvm.tokens import DelegationTokens


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
    def __init__(self, text: str, world: World) -> None:
        self.text, self.service, self._world = text, "", world

    def renew(self, configuration: object) -> float:
        return (self._world.now + self._world.life) * 1000

    def copyToken(self) -> Token:
        return Token(self.text, self._world)

    def setService(self, service: str) -> None:
        self.service = service


class Stream:
    data = b""

    def flush(self) -> None: ...

    def toByteArray(self) -> bytes:
        return self.data


class World:
    """Hadoop, a clock, and whether there is a ticket."""

    def __init__(self) -> None:
        self.now, self.life, self.has_ticket, self.obtained = 0.0, 1000.0, True, 0
        self.given = Credentials()

    def addDelegationTokens(self, renewer: str, fresh: Credentials) -> None:
        if not self.has_ticket:
            raise Py4JError("Delegation Token can be issued only with kerberos")
        self.obtained += 1
        fresh.addToken("10.0.0.1:8020", Token(f"own {self.obtained}", self))

    def start(self) -> tuple[Any, Any]:
        user = SimpleNamespace(getCredentials=lambda: self.given, getShortUserName=lambda: "etl")
        files = SimpleNamespace(
            getCanonicalServiceName=lambda: "10.0.0.1:8020",
            addDelegationTokens=self.addDelegationTokens,
            getConf=lambda: None,
        )
        hadoop = SimpleNamespace(
            security=SimpleNamespace(
                UserGroupInformation=SimpleNamespace(getCurrentUser=lambda: user), Credentials=Credentials
            ),
            fs=SimpleNamespace(
                FileSystem=SimpleNamespace(get=lambda uri, configuration: files),
                Path=lambda uri: SimpleNamespace(toUri=lambda: uri),
            ),
            io=SimpleNamespace(Text=str),
        )
        java = SimpleNamespace(io=SimpleNamespace(ByteArrayOutputStream=Stream, DataOutputStream=lambda stream: stream))
        return SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop)), java=java), None


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


def test_without_a_ticket_what_was_given_is_handed_on(world: World) -> None:
    world.has_ticket = False
    world.given.addToken("10.0.0.1:8020", Token("given", world))
    tokens = DelegationTokens(world.start, lambda: world.now)
    assert tokens(("nn:8020",)) == b"[('nn:8020', 'given', 'nn:8020')]"
    world.has_ticket, world.now = True, 3600
    assert b"own 1" in tokens(("nn:8020",))


def test_with_neither_it_says_why(world: World) -> None:
    world.has_ticket = False
    with pytest.raises(RetryError) as caught:
        DelegationTokens(world.start, lambda: world.now)(("nn:8020",))
    assert str(caught.value) == (
        "Cannot get tokens for hdfs://nn:8020: because Hadoop said : Delegation Token can be issued only with kerberos"
    )
