"""Messages over HTTP (Hive 4): each is one POST, and its answer that of the message.

Source: Hive 4 `HiveMetaStoreClient.createHttpClient`, `HmsThriftHttpServlet`, `ServletSecurity`; Thrift `THttpClient`;
for servers before a metastore that ask for Kerberos, RFC 4559.
"""

from __future__ import annotations

from contextlib import suppress
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse, IncompleteRead, RemoteDisconnected
from http.cookies import CookieError, SimpleCookie

from acidlib.errors import RefusedError
from acidlib.metastore.kerberos import negotiated
from acidlib.metastore.kerberos_errors import KerberosFailure
from acidlib.metastore.options import ConnectionOptions, Endpoint, HttpOptions
from acidlib.metastore.transport import ConnectionLost, UnreadableAnswer, is_quiet, one_line, open_socket, reason_of

_THRIFT = "application/x-thrift"
_USER_HEADER = "x-actor-username"
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _NO_POST = 200, 401, 403, 404, 405
_REDIRECTS = range(300, 400)
_LONGEST_READ = 800


class TurnedAway(ConnectionLost):
    """The server did not take the message at all, and says why; it would say so again."""


class HttpTransport:
    """The messages of one client, for both Thrift libraries; the connection stays open between them.

    `sent` says whether any byte of a message that the server may have taken was given to the network since `begin`.
    """

    def __init__(self, endpoint: Endpoint, options: ConnectionOptions, http: HttpOptions, *, user: str) -> None:
        """Connects, at most for the connect timeout; `user` is who asks, unless the options say it.

        Raises ConnectionLost, and RefusedError for a certificate that does not pass and a name that cannot be sent.
        """
        self.sent = False
        self._endpoint = endpoint
        self._options = options
        self._tls = options.tls or (http.https if endpoint.scheme == "https" else None)
        self._path = http.path
        self._headers = _headers(http, user)
        self._cookies: SimpleCookie = SimpleCookie()
        self._timeout_seconds = options.connect_timeout_seconds
        self._out = bytearray()
        self._in = memoryview(b"")
        self._ends_by_itself = True  # the answer says how long it is
        self._login = http.login
        self._logs_in = False  # the server has asked for it
        self._http = HTTPConnection(endpoint.host, endpoint.port)
        self._connect()

    def begin(self, timeout_seconds: float) -> None:
        """Starts a message: nothing of it is sent yet, and each wait for its answer may take this long."""
        self.sent = False
        self._out.clear()
        self._in = memoryview(b"")
        self._timeout_seconds = timeout_seconds

    def is_usable(self) -> bool:
        """Whether a message may be sent: not when the server has ended a connection that it had meant to keep."""
        # after an answer that announced the end the next message makes a connection of its own
        return self._http.sock is None or is_quiet(self._http.sock)

    def write(self, data: bytes) -> None:
        """Keeps bytes until `flush`."""
        self._out += data

    def flush(self) -> None:
        """Posts what was written and waits for the whole answer."""
        data = bytes(self._out)
        self._out.clear()
        if not data:
            return
        response, body = self._posted(data)
        if self._asks_for_kerberos(response) and not self._logs_in:
            # it has not taken the message
            self.sent = False
            self._logs_in = True
            response, body = self._posted(data)
        # else it ends with the connection, which may have broken, also in the middle of a header
        self._ends_by_itself = response.chunked or response.length is not None
        self._require_thrift(response, body)
        self._in = memoryview(body)

    def read(self, size: int) -> bytes:
        """At least one and at most `size` bytes of the answer."""
        data, self._in = self._in[:size], self._in[size:]
        if not data:
            raise self._half_an_answer()
        return bytes(data)

    def close(self) -> None:
        """Ends the connection; never raises."""
        with suppress(OSError):
            self._http.close()

    # Thrift's transports ask for these names

    def is_open(self) -> bool:
        """True: it is open from its creation on."""
        return True

    def open(self) -> None:
        """Nothing: it is open from its creation on."""

    def _connect(self) -> None:
        # with a socket of ours, so that both transports make connections, trust and tell alike
        self._http.sock = open_socket(self._endpoint, self._options, self._tls)

    def _posted(self, data: bytes) -> tuple[HTTPResponse, bytes]:
        who = self._kerberos_header()
        if self._http.sock is None:
            self._connect()
        self._http.sock.settimeout(self._timeout_seconds)
        # from here on the server may have the message, even if an error comes back
        self.sent = True
        try:
            headers = self._headers | self._cookie_header() | who
            self._http.request("POST", self._path, body=data, headers=headers)
            response = self._http.getresponse()
            body = response.read()
        except TimeoutError:
            raise ConnectionLost(f"there was no answer within {self._timeout_seconds:g} s") from None
        except RemoteDisconnected:
            raise ConnectionLost("the server closed the connection") from None
        except IncompleteRead:
            raise ConnectionLost("the connection broke in the middle of an answer") from None
        except BadStatusLine as error:
            if not str(error.args[0]).endswith("\n"):  # half a line
                raise ConnectionLost("the connection broke in the middle of an answer") from None
            raise UnreadableAnswer("the server does not speak HTTP") from None
        except HTTPException:
            raise UnreadableAnswer("the server does not speak HTTP") from None
        except OSError as error:
            raise ConnectionLost(f"the connection broke: {reason_of(error)}") from None
        self._keep_cookies(response)
        return response, body

    def _asks_for_kerberos(self, response: HTTPResponse) -> bool:
        asked = [word.split()[0].lower() for word in response.headers.get_all("WWW-Authenticate") or () if word.strip()]
        return self._login is not None and response.status == _UNAUTHORIZED and "negotiate" in asked

    def _kerberos_header(self) -> dict[str, str]:
        if self._login is None or not self._logs_in:
            return {}
        try:
            return {"Authorization": negotiated(self._login, self._endpoint.host)}
        except KerberosFailure as failure:
            if failure.passes:
                raise ConnectionLost(str(failure)) from None
            raise self._turned_away(f"it asks for Kerberos, and {failure}") from None

    def _require_thrift(self, response: HTTPResponse, body: bytes) -> None:
        # of an answer that does not tell it, text/plain: so are those by which Hive turns away
        kind = response.headers.get_content_type()
        answer = f"{response.status} {one_line(response.reason)}".rstrip()
        said = _said(kind, body)
        if response.status in _REDIRECTS:
            # without what may be a secret of the one who is sent there
            where = one_line(response.headers.get("Location", "").partition("?")[0]) or "elsewhere"
            raise self._turned_away(f"it redirects to {where}, which is not followed: name that server itself")
        if response.status in (_UNAUTHORIZED, _FORBIDDEN):
            raise self._turned_away(f"it does not let us in: {answer}{said}")
        if response.status in (_NOT_FOUND, _NO_POST):
            path = f"metastore.client.thrift.http.path is {self._path}"
            raise self._turned_away(f"there is no metastore at this path: {answer} ({path})")
        if response.status != _OK:
            raise ConnectionLost(f"the server answered {answer}{said}")
        if not (body or self._ends_by_itself):
            raise self._half_an_answer()
        if "Content-Type" in response.headers and (kind.startswith("text/") or kind == "application/json"):
            raise UnreadableAnswer(f"it answers with {kind}, not with {_THRIFT}")

    def _half_an_answer(self) -> ConnectionLost:
        kind = UnreadableAnswer if self._ends_by_itself else ConnectionLost
        return kind("the answer ends before it is whole")

    def _turned_away(self, reason: str) -> TurnedAway:
        self.sent = False
        return TurnedAway(reason)

    def _keep_cookies(self, response: HTTPResponse) -> None:
        """Whoever stands before the metastore may want them back, so that it finds its session again."""
        for text in response.headers.get_all("Set-Cookie") or ():
            found: SimpleCookie = SimpleCookie()
            with suppress(CookieError):
                found.load(text)
            for name, cookie in found.items():
                self._cookies.pop(name, None)
                if cookie["max-age"] != "0":
                    self._cookies[name] = cookie.value

    def _cookie_header(self) -> dict[str, str]:
        text = "; ".join(f"{name}={cookie.coded_value}" for name, cookie in self._cookies.items())
        return {"Cookie": text} if text else {}


def _headers(http: HttpOptions, user: str) -> dict[str, str]:
    name = http.username or user
    if http.token is None and not (name.isascii() and name.isprintable()):
        raise RefusedError(f"Cannot tell a metastore behind HTTP who asks: because no header can hold {name!r}")
    who = {_USER_HEADER: name} if http.token is None else {"Authorization": f"Bearer {http.token}"}
    return {"Content-Type": _THRIFT, "Accept": _THRIFT, "User-Agent": "acidlib"} | who | dict(http.headers)


def _said(kind: str, body: bytes) -> str:
    """What the server says in plain text, with a colon in front; pages are for browsers."""
    text = one_line(body[:_LONGEST_READ].decode("utf-8", "replace")) if kind == "text/plain" else ""
    return f": {text}" if text else ""
