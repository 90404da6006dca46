"""How places in Ozone are named, and what is said of answers that no HttpFS should give."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from http.client import HTTPConnection
from threading import Thread
from typing import Any

import pytest

from acidlib.datafiles import SourceFile
from acidlib.errors import AcidError, CorruptError, RefusedError, RetryError, UnknownOutcomeError
from acidlib.location import parse_location
from acidlib.stores import filesystem, repeating
from acidlib.stores.renaming import ozone
from acidlib.stores.renaming.ozone import OzoneDataFiles, OzoneFileSystem
from acidlib.stores.renaming.ozone_client import (
    HTTPFS,
    HttpFs,
    HttpFsError,
    HttpFsLostAnswerError,
    httpfs_of,
    whole_location,
)
from acidlib.stores.stores import Stores

OFS = {"fs.defaultFS": "ofs://om:9000/"}
FOUND = {"type": "FILE", "length": 4, "modificationTime": 1, "owner": "o", "pathSuffix": "f"}


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("o3fs://b.v.om/w/t", "ofs://om:9862/v/b/w/t"),
        ("O3FS://b.v.om:9000/w//t/", "ofs://om:9000/v/b/w/t"),
        ("o3fs://b.v.om.example.org/t", "ofs://om.example.org:9862/v/b/t"),
        ("o3fs://b.v.10.0.0.1:9000/t", "ofs://10.0.0.1:9000/v/b/t"),
        ("o3fs://b.v.om/", "ofs://om:9862/v/b"),
        ("ofs://om/v/b/t", "ofs://om:9862/v/b/t"),
        ("ofs://om:9000/v/b/p=%3A", "ofs://om:9000/v/b/p=%3A"),
    ],
)
def test_a_place_has_one_name_by_either_scheme(uri: str, name: str) -> None:
    for given in (uri, name):
        assert str(whole_location(parse_location(given), {})) == name


@pytest.mark.parametrize("uri", ["o3fs://b.v/t", "ofs:///v/b/t", "o3fs://b.v.om:9000/t"])
def test_a_service_that_is_not_named_is_the_default(uri: str) -> None:
    properties = {"fs.defaultFS": "OFS://om:9000/x"}
    assert str(whole_location(parse_location(uri), properties)) == "ofs://om:9000/v/b/t"
    assert str(whole_location(parse_location(uri), {"ozone.om.address": " om:9000 "})) == "ofs://om:9000/v/b/t"


def test_a_service_has_no_port() -> None:
    services = {"ozone.om.service.ids": "one, two"}
    assert str(whole_location(parse_location("o3fs://b.v.two/t"), services)) == "ofs://two/v/b/t"
    assert str(whole_location(parse_location("ofs://om/v/b/t"), services)) == "ofs://om:9862/v/b/t"
    one = {"ozone.om.service.ids": "one", "ozone.om.address": "om", "fs.defaultFS": "hdfs://nn"}
    assert str(whole_location(parse_location("o3fs://b.v/t"), one)) == "ofs://one/v/b/t"


@pytest.mark.parametrize("authority", ["b", "b.", ".v", ".v.om", "b..om", "", "."])
def test_an_authority_without_a_bucket_or_a_volume(authority: str) -> None:
    with pytest.raises(RefusedError, match=r"Cannot open o3fs://.*/t: its authority is not BUCKET\.VOLUME"):
        whole_location(parse_location(f"o3fs://{authority}/t"), OFS)


@pytest.mark.parametrize(
    "properties",
    [{}, {"fs.defaultFS": "hdfs://nn"}, {"fs.defaultFS": "ofs:///"}, {"ozone.om.service.ids": "a,b"}],
)
def test_a_service_that_nothing_names(properties: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match=r"Cannot open o3fs://b\.v/t: neither fs\.defaultFS nor"):
        whole_location(parse_location("o3fs://b.v/t"), properties)


@pytest.mark.parametrize("uri", ["o3fs://user@b.v.om/t", "ofs://user:key@om/v/b/t"])
def test_who_asks_is_not_named_in_a_location(uri: str) -> None:
    with pytest.raises(RefusedError) as refused:
        Stores(configuration={}).locate(uri)
    assert "key@" not in str(refused.value)


def test_which_gateway_serves() -> None:
    place = parse_location("ofs://om:9862/v/b/t")

    def urls(text: str) -> tuple[str, ...]:
        return httpfs_of(place, {HTTPFS: text}).urls

    assert urls("http://a, https://b:1/ om=http://c:14000") == ("http://c:14000",)
    assert urls("http://a https://b/") == ("http://a:80", "https://b:443")
    for wrong in ("a:14000", "ftp://a", "http://", "http://a/webhdfs", "om=", "om:9862=a"):
        with pytest.raises(RefusedError, match=r"it is not of the form http://HOST:PORT"):
            urls(wrong)
    for without, says in (
        (" ,", "is not set; it is of the form http://HOST"),
        ("other=http://a", "names no HttpFS"),
    ):
        with pytest.raises(RefusedError, match=says):
            urls(without)
    with pytest.raises(RefusedError, match="Kerberos is not supported"):
        httpfs_of(place, {HTTPFS: "http://a", "ozone.security.enabled": " True"})
    with pytest.raises(RefusedError, match="it names no directory in a bucket"):
        httpfs_of(parse_location("ofs://om:9862/v/b"), {HTTPFS: "http://a"})


@pytest.mark.parametrize("uri", ["o3fs://b.v.elsewhere.example:14000/t", "ofs://elsewhere.example:14000/v/b/t"])
def test_a_location_names_no_gateway(uri: str) -> None:
    """Who may write to a table may name any host."""
    properties = {HTTPFS: "http://all:14000, om=http://own:14000"}
    assert httpfs_of(whole_location(parse_location(uri), properties), properties).urls == ("http://all:14000",)


def test_nothing_above_a_directory_in_a_bucket_is_looked_at() -> None:
    """As for the record of a probe."""
    stores = Stores(configuration={HTTPFS: "http://a"})
    place = stores.locate("ofs://om:9000/v/b/wh/t")
    assert [stores.is_top(above) for above in (place, place.parent)] == [False, True]


class Gateway:
    """Gives one answer to each request of an operation, and ends the connection behind it; `asked` are first lines."""

    def __init__(self) -> None:
        self.answer = b""
        self.by_operation: dict[str, bytes] = {}
        self.asked: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        Thread(target=self._serve, daemon=True).start()

    def end(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                with connection, connection.makefile("rb") as stream, suppress(OSError):
                    self.asked.append(line := stream.readline().decode())
                    while stream.readline().strip():
                        pass
                    operation = line.partition("op=")[2].partition("&")[0]
                    connection.sendall(self.by_operation.get(operation, self.answer))


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway()
    yield made
    made.end()


@pytest.fixture
def fs(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> OzoneFileSystem:
    monkeypatch.setattr(repeating, "_FIRST_PAUSE_SECONDS", 0.0)
    return OzoneFileSystem(HttpFs("om:9862", (gateway.url,), "etl"))


PLACE = "ofs://om:9862/v/b/t"


def said(status: int, body: bytes | object, *headers: str, length: int | None = None) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    said_length = f"Content-Length: {len(data) if length is None else length}"
    whole = (f"HTTP/1.1 {status} X", said_length, "Connection: close", *headers, "", "")
    return "\r\n".join(whole).encode() + data


def remote(exception: str, message: str) -> dict[str, object]:
    return {"RemoteException": {"exception": exception, "javaClassName": f"x.{exception}", "message": message}}


HTML = b"<html>log in</html>"
QUESTIONS = {
    "look": lambda fs: fs.entry(PLACE),
    "list": lambda fs: fs.list_directory(PLACE),
    "exists": lambda fs: fs.exists(PLACE),
}
"""Each needs more than bytes; none may be answered by nothing found."""


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "body",
    [
        HTML,
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"7",
        {},
        {"FileStatus": None, "FileStatuses": None},
        {"FileStatus": {}, "FileStatuses": {}},
        {"FileStatus": [], "FileStatuses": []},
        {"FileStatus": FOUND | {"length": "4"}, "FileStatuses": {"FileStatus": [FOUND | {"length": "4"}]}},
        {"FileStatus": FOUND | {"owner": None}, "FileStatuses": {"FileStatus": [FOUND | {"owner": None}]}},
        {"FileStatus": FOUND | {"type": "X"}, "FileStatuses": {"FileStatus": [FOUND, FOUND | {"type": "X"}]}},
        {"FileStatus": FOUND | {"length": -1}, "FileStatuses": {"FileStatus": None}},
        {"FileStatus": "f", "FileStatuses": {"FileStatus": ["f"]}},
    ],
    ids=repr,
)
def test_a_good_answer_that_says_nothing_is_an_error(
    gateway: Gateway, fs: OzoneFileSystem, body: object, question: str
) -> None:
    gateway.answer = said(200, body)
    with pytest.raises(RetryError, match=r"Cannot (look at|list) ofs://\S+: the answer of HttpFS has no FileStatus"):
        QUESTIONS[question](fs)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("missing", [1, 30])
def test_an_answer_that_breaks_off_is_an_error(
    gateway: Gateway, fs: OzoneFileSystem, missing: int, question: str
) -> None:
    body = json.dumps({"FileStatus": FOUND, "FileStatuses": {"FileStatus": [FOUND]}}).encode()
    gateway.answer = said(200, body)
    QUESTIONS[question](fs)
    gateway.answer = said(200, body[:-missing], length=len(body))
    with pytest.raises(RetryError, match=r"Cannot (look at|list)"):
        QUESTIONS[question](fs)


@pytest.mark.parametrize(
    "answer",
    [
        said(200, b"reco", length=6),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nreco\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nreco",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nreco",
        b"HTTP/1.0 200 OK\r\n\r\nreco",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"",
        b"reco",
    ],
)
def test_a_file_of_which_not_all_came_is_no_file(gateway: Gateway, fs: OzoneFileSystem, answer: bytes) -> None:
    gateway.answer = answer
    with pytest.raises(RetryError, match=r"Cannot read ofs://om:9862/v/b/t: HttpFS of Ozone .* gave no answer"):
        fs.read(PLACE)
    assert len(gateway.asked) == 4, "a question whose answer is lost is asked again"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(gateway: Gateway, fs: OzoneFileSystem, status: int) -> None:
    """HttpFS gives none; who follows one tells another host the name of the user, or sends it the rows."""
    elsewhere = Gateway()
    try:
        gateway.answer = said(status, b"", f"Location: {elsewhere.url}/webhdfs/v1/v/b/t?op=OPEN&user.name=etl")
        data = OzoneDataFiles(HttpFs("om:9862", (gateway.url,), "etl"))
        changes = (
            fs.make_directory,
            fs.remove_file,
            lambda path: data.create(path),
            lambda path: fs.create(path, b"x"),
        )
        for asked in (*QUESTIONS.values(), lambda fs: fs.read(PLACE)):
            with pytest.raises(RetryError, match=f"the answer of HttpFS has the status {status}"):
                asked(fs)
        for change in changes:
            with pytest.raises(RetryError, match=f"the answer of HttpFS has the status {status}"):
                change(PLACE)
        assert elsewhere.asked == []
        assert all("user.name=etl" in line for line in gateway.asked)
    finally:
        elsewhere.end()


@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (
            403,
            remote("AccessControlException", "no: etl\nat x"),
            RetryError,
            "the permission is missing: no: etl",
        ),
        (403, remote("AuthorizationException", "no"), RetryError, "the permission is missing: no"),
        (403, HTML, RetryError, "the permission is missing: the answer of HttpFS has the status 403"),
        (401, HTML, RefusedError, "HttpFS asks for a log-in"),
        (500, remote("IOException", "PERMISSION_DENIED: no"), RetryError, "the permission is missing"),
        (500, remote("OMException", "the bucket has QUOTA_EXCEEDED"), RetryError, "the quota is used up"),
        (500, remote("RuntimeException", "broken\n\tat x.y"), RetryError, "HttpFS said RuntimeException: broken"),
        (500, HTML, RetryError, "the answer of HttpFS has the status 500"),
        (500, {"RemoteException": None}, RetryError, "the answer of HttpFS has the status 500"),
        (500, {"RemoteException": {"message": "x"}}, RetryError, "the answer of HttpFS has the status 500"),
        (503, b"", RetryError, "the answer of HttpFS has the status 503"),
        (404, HTML, RetryError, "the answer of HttpFS has the status 404"),
        (404, remote("FileNotFoundException", "x"), CorruptError, "there is no such file or directory"),
        (400, remote("IllegalArgumentException", "bad name"), RefusedError, "Ozone does not take that name (bad name)"),
    ],
)
def test_what_an_answer_that_is_an_error_is_told_as(
    gateway: Gateway, fs: OzoneFileSystem, status: int, body: object, kind: type[AcidError], says: str
) -> None:
    gateway.answer = said(status, body)
    for question in (fs.list_directory, fs.entry, fs.read):
        with pytest.raises(kind) as raised:
            question(PLACE)
        assert type(raised.value) is kind
        assert says in str(raised.value)
        assert "\n" not in str(raised.value)


def test_what_is_not_there_is_told_by_its_exception_alone(gateway: Gateway, fs: OzoneFileSystem) -> None:
    """A gateway that knows no such address has not looked for the file."""
    gateway.answer = said(404, remote("FileNotFoundException", "x"))
    assert not fs.exists(PLACE)
    gateway.answer = said(404, HTML)
    with pytest.raises(RetryError):
        fs.exists(PLACE)


@pytest.mark.parametrize(
    "answer",
    [
        *(
            said(200, body)
            for body in (HTML, b"", {"boolean": None}, {"boolean": "false"}, {"boolean": 1}, {}, b"true")
        ),
        *(said(status, HTML) for status in (500, 502, 504)),
        said(200, {"boolean": True}, length=20),
    ],
)
def test_a_change_that_is_answered_by_neither_yes_nor_no_may_have_been_made(
    gateway: Gateway, fs: OzoneFileSystem, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    """As where a proxy answers instead of HttpFS."""
    monkeypatch.setattr(ozone, "_TRIES", 2)
    gateway.answer = answer
    with pytest.raises(RetryError, match=r"Cannot remove .* gave no answer"):
        fs.remove_file(PLACE)
    assert [line.split()[0] for line in gateway.asked] == ["DELETE", "DELETE"]
    gateway.by_operation["GETFILESTATUS"] = said(200, {"FileStatus": FOUND})
    with pytest.raises(UnknownOutcomeError, match="Cannot tell the outcome"):
        fs.rename_noreplace(f"{PLACE}/_tmp_x/a", f"{PLACE}/a")


@pytest.mark.parametrize(("length", "error"), [(4, None), (3, RetryError)])
def test_a_file_whose_last_answer_is_lost_is_whole_if_it_has_all_bytes(
    length: int, error: type[AcidError] | None
) -> None:
    looked = []
    here, there = socket.socketpair()

    class Server(HttpFs):
        __slots__ = ()

        def status(self, uri: str) -> dict[str, Any]:
            looked.append(uri)
            if uri != PLACE:
                return FOUND | {"type": "DIRECTORY"}
            if len(looked) < 4:  # once before it is made, once before it is finished
                raise HttpFsError("FileNotFoundException", "x", 404)
            return FOUND | {"length": length}

        def upload(self, uri: str) -> HTTPConnection:
            connection = HTTPConnection("om")
            connection.sock = here
            return connection

        def answer_of(self, connection: HTTPConnection) -> None:
            raise HttpFsLostAnswerError("it is lost")

    sink = OzoneDataFiles(Server("om:9862", ("http://om",), "etl")).create(PLACE)
    sink.write(b"rows")
    with here, there, nullcontext() if error is None else pytest.raises(error, match="it is lost"):
        sink.close()
        assert there.recv(100) == b"4\r\nrows\r\n0\r\n\r\n"
    assert looked == [PLACE, PLACE.rpartition("/")[0], PLACE, PLACE]


def test_bytes_that_are_not_those_asked_for(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    class Server(HttpFs):
        __slots__ = ()

        def status(self, uri: str) -> dict[str, Any]:
            return FOUND

    data = OzoneDataFiles(Server("om:9862", (gateway.url,), "etl"))
    for wrong, error in ((b"row", CorruptError), (b"rows of others", RetryError)):  # of a small file, fetched whole
        gateway.answer = said(200, wrong)
        with pytest.raises(error, match=f"{len(wrong)} (of 4 bytes|bytes and was listed with 4)"):
            data.open(PLACE, 4)
    monkeypatch.setattr(ozone, "FIRST_AHEAD", 0)
    source: SourceFile = data.open(PLACE, 4)
    for wrong in (b"", b"row", b"rows of others"):
        gateway.answer = said(200, wrong)
        with pytest.raises(RetryError, match=rf"{len(wrong)} of 4 bytes at 0 came"):
            source.read(0, 4)
    gateway.answer = said(200, b"rows")
    assert source.read(0, 4) == b"rows"


def test_the_entries_of_a_listing_are_counted_before_they_are_parsed(
    gateway: Gateway, fs: OzoneFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem, "MAX_ENTRIES", 2)
    entry = rb'{"pathSuffix":"\"pathSuffix\"","type":"FILE"}'
    for count, error in ((2, RetryError), (3, RefusedError)):  # that the text is cut off shows when it is parsed
        gateway.answer = said(200, b'{"FileStatuses":{"FileStatus":[' + b",".join([entry] * count))
        with pytest.raises(error):
            fs.list_directory(PLACE)
