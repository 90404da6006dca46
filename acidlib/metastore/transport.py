"""The bytes of a connection: sockets with TLS, SASL and framing, and messages over HTTP.

Over a socket messages are sent as they are, in frames, or in packets after a SASL login. The messages of a login are a
status byte, a length and a text, until the server sends COMPLETE (source: Thrift `TSaslTransport`).

Over HTTP (Hive 4) each message is one POST, and the response has its answer. Source: Hive 4
`HiveMetaStoreClient.createHttpClient`, `HmsThriftHttpServlet`, `ServletSecurity`; Thrift `THttpClient`; RFC 4559 for
proxies in front of a metastore that demand Kerberos.
"""

from __future__ import annotations

import socket
import ssl
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse, IncompleteRead, RemoteDisconnected
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import TypeAlias

from acidlib.errors import RefusedError
from acidlib.metastore.kerberos import GssapiClient, KerberosFailure, negotiate_header
from acidlib.metastore.options import (
    ConnectionOptions,
    Endpoint,
    HttpOptions,
    SaslOptions,
    TlsOptions,
)

_CHUNK = 1 << 16
_MAX_PACKET = 1 << 29
# the status bytes of the SASL login
_START, _OK, _BAD, _ERROR, _COMPLETE = 1, 2, 3, 4, 5
_MAX_CHALLENGE = 1 << 20
_MAX_TEXT_CHARACTERS = 200


class PlainClient:
    """A login with a name and a password, which leaves the messages after it as they are; see `GssapiClient`.

    Source: RFC 4616, which has the message in one line and forbids NUL in either text.
    """

    complete = True

    def __init__(self, username: str, password: str) -> None:
        """Take the two texts; RefusedError for one with a NUL."""
        if "\0" in username + password:
            raise RefusedError("Cannot log in to the metastore: the name or the password has a NUL")
        self._message = f"\0{username}\0{password}".encode()

    def process(self, challenge: bytes | None = None) -> bytes:
        """Return the only message of the login."""
        del challenge
        return self._message

    def wrap(self, data: bytes) -> bytes:
        """Return a message to send."""
        return data

    def unwrap(self, data: bytes) -> bytes:
        """Return a received message."""
        return data


Login: TypeAlias = PlainClient | GssapiClient


class ConnectionLost(Exception):  # noqa: N818 - an event that callers handle, not an error for users
    """The connection could not be opened, broke, or delivered invalid data; the text is the reason."""


class UnreadableAnswer(ConnectionLost):
    """The received data is no answer of a metastore."""


class Transport(ABC):
    """The messages of one connection; both Thrift libraries write and read their bytes.

    `sent` is True once any byte of a message has been given to the network since `begin`, unless the server has said
    that it did not accept the message.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self.sent = False
        self._timeout_seconds = timeout_seconds
        self._out = bytearray()
        self._in = memoryview(b"")

    def begin(self, timeout_seconds: float) -> None:
        """Start a message: nothing of it is sent yet, and each wait for its answer may take this long."""
        self.sent = False
        self._timeout_seconds = timeout_seconds
        self._out.clear()
        self._in = memoryview(b"")

    @abstractmethod
    def is_usable(self) -> bool:
        """Return whether a message may be sent: not after the server has ended the connection, as at its restart.

        To be called between two messages only, when there is nothing to read.
        """

    def write(self, data: bytes) -> None:
        """Buffer bytes until `flush`."""
        self._out += data

    def flush(self) -> None:
        """Send the buffered bytes as one message."""
        data = bytes(self._out)
        self._out.clear()
        if data:
            self._send_message(data)

    @abstractmethod
    def _send_message(self, data: bytes) -> None: ...

    @abstractmethod
    def read(self, size: int) -> bytes:
        """Return at least one and at most `size` bytes of the answer."""

    def _take(self, size: int) -> bytes:
        data, self._in = self._in[:size], self._in[size:]
        return bytes(data)

    @abstractmethod
    def close(self) -> None:
        """End the connection; never raises."""


class SocketTransport(Transport):
    """The messages over a socket, without a cut, in frames, or in the packets of a SASL login."""

    def __init__(self, endpoint: Endpoint, options: ConnectionOptions) -> None:
        """Connect within the connect timeout, and log in.

        Raises ConnectionLost, and RefusedError for a certificate, a mechanism or a login that is not accepted.
        """
        super().__init__(options.connect_timeout_seconds)
        self._packets = options.framed or options.sasl is not None
        self._socket = open_socket(endpoint, options, options.tls)
        self._sasl: Login | None = None
        if options.sasl is not None:
            try:
                self._sasl = self._log_in(options.sasl, endpoint)
            except BaseException:
                self.close()
                raise

    def is_usable(self) -> bool:
        return is_quiet(self._socket)

    def _send_message(self, data: bytes) -> None:
        if self._packets:
            data = data if self._sasl is None else _protected(self._sasl.wrap, data)
            data = struct.pack(">I", len(data)) + data
        self._socket.settimeout(self._timeout_seconds)
        # from here on the server may have the message, even after an error
        self.sent = True
        self._send(data)

    def read(self, size: int) -> bytes:
        if not self._packets:
            return self._receive(size)
        while not self._in:
            (length,) = struct.unpack(">I", self._receive_exactly(4))
            if length > _MAX_PACKET:
                raise ConnectionLost("the answer does not come in frames")
            packet = self._receive_exactly(length)
            self._in = memoryview(packet if self._sasl is None else _protected(self._sasl.unwrap, packet))
        return self._take(size)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def _receive(self, size: int) -> bytes:
        try:
            data = self._socket.recv(size)
        except TimeoutError:
            raise ConnectionLost(f"there was no answer within {self._socket.gettimeout():g} s") from None
        except OSError as error:
            raise ConnectionLost(f"the connection broke: {os_error_reason(error)}") from None
        if not data:
            raise ConnectionLost("the server closed the connection")
        return data

    def _receive_exactly(self, size: int) -> bytes:
        parts = []
        while size:
            parts.append(self._receive(min(size, _CHUNK)))
            size -= len(parts[-1])
        return b"".join(parts)

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise ConnectionLost(f"nothing could be sent within {self._socket.gettimeout():g} s") from None
        except OSError as error:
            raise ConnectionLost(f"the connection broke: {os_error_reason(error)}") from None

    def _log_in(self, options: SaslOptions, endpoint: Endpoint) -> Login:
        """Log in; return the login, which wraps and unwraps messages as agreed (plain, signed, encrypted)."""

        def refused(reason: str) -> RefusedError:
            return RefusedError(f"Cannot log in to the metastore {endpoint.uri}: {reason}")

        hint = " (does the metastore ask for one, by SASL?)"
        try:
            client = _login(options, endpoint.host)
            self._send_status(_START, options.mechanism)
            self._send_status(_OK, client.process())
            while True:
                head = self._receive_exactly(5)
                hint = ""
                status, length = struct.unpack(">BI", head)
                if not _START <= status <= _COMPLETE or length > _MAX_CHALLENGE:
                    raise refused("the server does not speak SASL")
                challenge = self._receive_exactly(length)
                if status == _COMPLETE:
                    if not client.complete:
                        raise refused("the server ended the login before it was finished")
                    return client
                if status != _OK:
                    raise refused(_refusal(options, short_line(challenge.decode("utf-8", "replace"))))
                if client.complete:  # else a faulty server could keep us here for ever
                    raise refused("the server goes on with a login that is finished")
                self._send_status(_OK, client.process(challenge))
        except KerberosFailure as failure:
            if failure.passes:
                raise ConnectionLost(str(failure)) from None
            raise refused(str(failure)) from None
        except ConnectionLost as reason:
            raise ConnectionLost(f"{reason} in the login{hint}") from None

    def _send_status(self, status: int, text: bytes | str | None) -> None:
        data = text.encode() if isinstance(text, str) else text or b""
        self._send(struct.pack(">BI", status, len(data)) + data)


def _protected(wrap: Callable[[bytes], bytes], data: bytes) -> bytes:
    try:
        return bytes(wrap(data))
    except KerberosFailure as failure:
        raise ConnectionLost(str(failure)) from None


def _login(options: SaslOptions, host: str) -> Login:
    """Return a login before its first message; RefusedError for a password file or mechanism that cannot be used."""
    if options.mechanism == "GSSAPI":
        return GssapiClient(options, host)
    password = options.password or ""
    if options.password is None and options.password_file is not None:
        try:
            password = next(iter(Path(options.password_file).read_text(encoding="utf-8").splitlines()), "")
        except (OSError, UnicodeDecodeError) as error:
            raise RefusedError(
                f"Cannot log in to the metastore: the password file {options.password_file} cannot be read: "
                f"{error.strerror if isinstance(error, OSError) else 'it is not UTF-8'}"
            ) from None
    return PlainClient(options.username or "", password)


def _refusal(options: SaslOptions, text: str) -> str:
    if options.mechanism != "GSSAPI":
        return text or "the server refused it"
    return (
        f"it does not accept the ticket, and says: {text or 'nothing'}; its log has the reason: often its keys are not "
        "those of the realm, or the clocks differ"
    )


def is_quiet(connection: socket.socket) -> bool:
    """Return whether the peer has sent nothing, not even the end of the connection."""
    try:
        connection.settimeout(0)
        connection.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False
    return False


def open_socket(endpoint: Endpoint, options: ConnectionOptions, tls: TlsOptions | None) -> socket.socket:
    """Connect to an endpoint within the connect timeout; return the socket.

    Raises ConnectionLost, and RefusedError for a certificate that is not valid.
    """
    context = tls_context(tls) if tls is not None else None
    try:
        plain = socket.create_connection((endpoint.host, endpoint.port), timeout=options.connect_timeout_seconds)
    except TimeoutError:
        raise ConnectionLost(f"no connection was made within {options.connect_timeout_seconds:g} s") from None
    except OSError as error:
        raise ConnectionLost(os_error_reason(error)) from None
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if context is None:
        return plain
    try:
        return context.wrap_socket(plain, server_hostname=endpoint.host)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        raise RefusedError(
            f"Cannot trust the metastore {endpoint.uri}: its certificate is not valid: {error.verify_message}"
        ) from None
    except OSError as error:
        plain.close()
        raise ConnectionLost(f"TLS could not be started: {os_error_reason(error)}") from None


def tls_context(tls: TlsOptions) -> ssl.SSLContext:
    """Return the context that checks a server's certificate, with our own key; RefusedError for invalid PEM files."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_file, cadata=tls.certificates)
    except OSError as error:
        where = tls.ca_file or "the truststore"
        raise RefusedError(
            f"Cannot use the certificates in {where}: they cannot be read as PEM: {os_error_reason(error)}"
        ) from None
    if tls.certificates is not None:  # like Java, trust every certificate in a truststore, not only roots
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if tls.key_file is not None:
        try:
            # without a password OpenSSL would ask for it on the terminal
            context.load_cert_chain(tls.key_file, password=tls.key_password or "")
        except (OSError, ValueError) as error:
            reason = os_error_reason(error) if isinstance(error, OSError) else str(error)
            raise RefusedError(
                f"Cannot use the key in {tls.key_file}: it cannot be read as PEM with its certificate: {reason}"
            ) from None
    return context


def os_error_reason(error: OSError) -> str:
    """Return the reason of an error of the operating system in one line, without its number."""
    reason = getattr(error, "reason", None) or error.strerror or str(error) or type(error).__name__
    return str(reason).splitlines()[0].lower().replace("_", " ")


def short_line(text: str) -> str:
    """Return a server's text as one line of printable characters, at most 200."""
    line = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    return line if len(line) <= _MAX_TEXT_CHARACTERS else line[: _MAX_TEXT_CHARACTERS - 3] + "..."


_THRIFT = "application/x-thrift"
_USER_HEADER = "x-actor-username"
_HTTP_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _NO_POST = 200, 401, 403, 404, 405
_REDIRECTS = range(300, 400)
_MAX_READ_BYTES = 800


class TurnedAway(ConnectionLost):
    """The server did not accept the message, for a reason that would recur."""


class HttpTransport(Transport):
    """The messages over HTTP; the connection stays open between them."""

    def __init__(self, endpoint: Endpoint, options: ConnectionOptions, http: HttpOptions, *, user: str) -> None:
        """Connect within the connect timeout; `user` is the user's name, unless the options have one.

        Raises ConnectionLost, and RefusedError for a certificate that is not valid and a name that cannot be sent.
        """
        super().__init__(options.connect_timeout_seconds)
        name = http.username or user
        if http.token is None and not (name.isascii() and name.isprintable()):
            raise RefusedError(f"Cannot send the user's name to a metastore behind HTTP: no header can hold {name!r}")
        identity = {_USER_HEADER: name} if http.token is None else {"Authorization": f"Bearer {http.token}"}
        common = {"Content-Type": _THRIFT, "Accept": _THRIFT, "User-Agent": "acidlib"}
        self._headers = common | identity | dict(http.headers)
        self._path = http.path
        self._cookies: dict[str, str] = {}
        self._has_length = True  # the end of an answer is known without the end of the connection
        self._login = http.login
        self._logs_in = False  # the server has demanded it
        # with a socket of ours, so that both transports share timeouts, trust and messages
        tls = options.tls or (http.https if endpoint.scheme == "https" else None)
        self._connect = partial(open_socket, endpoint, options, tls)
        self._http = HTTPConnection(endpoint.host, endpoint.port)
        self._http.sock = self._connect()

    def is_usable(self) -> bool:
        # after an answer that announced the end, the next message opens a new connection
        return self._http.sock is None or is_quiet(self._http.sock)

    def _send_message(self, data: bytes) -> None:
        """Post a message, read the whole response, and accept it if it may be an answer of Thrift."""
        response, body = self._post(data)
        schemes = [text.lower().split()[:1] for text in response.headers.get_all("WWW-Authenticate") or ()]
        demands_login = response.status == _UNAUTHORIZED and ["negotiate"] in schemes
        if demands_login and self._login is not None and not self._logs_in:
            # the server has not accepted the message
            self.sent = False
            self._logs_in = True
            response, body = self._post(data)
        # without a length it ends with the connection, which may have broken, also in the middle of a header
        self._has_length = response.chunked or response.length is not None
        # text/plain if the header is missing, as in Hive's refusals
        kind = response.headers.get_content_type()
        status = f"{response.status} {short_line(response.reason)}".rstrip()
        text = short_line(body[:_MAX_READ_BYTES].decode("utf-8", "replace")) if kind == "text/plain" else ""
        reason = f"{status}: {text}" if text else status
        if response.status in _REDIRECTS:
            # without the query, which may hold a secret
            where = short_line(response.headers.get("Location", "").partition("?")[0]) or "elsewhere"
            raise self._turned_away(f"it redirects to {where}, which is not followed: name that server itself")
        if response.status in (_UNAUTHORIZED, _FORBIDDEN):
            raise self._turned_away(f"it does not let us in: {reason}")
        if response.status in (_NOT_FOUND, _NO_POST):
            path = f"metastore.client.thrift.http.path is {self._path}"
            raise self._turned_away(f"there is no metastore at this path: {status} ({path})")
        if response.status != _HTTP_OK:
            raise ConnectionLost(f"the server answered {reason}")
        if not (body or self._has_length):
            raise self._incomplete()
        if "Content-Type" in response.headers and (kind.startswith("text/") or kind == "application/json"):
            raise UnreadableAnswer(f"it answers with {kind}, not with {_THRIFT}")
        self._in = memoryview(body)

    def read(self, size: int) -> bytes:
        if not self._in:
            raise self._incomplete()
        return self._take(size)

    def close(self) -> None:
        with suppress(OSError):
            self._http.close()

    def _post(self, data: bytes) -> tuple[HTTPResponse, bytes]:
        headers = dict(self._headers)
        if self._cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        if self._login is not None and self._logs_in:
            try:
                headers["Authorization"] = negotiate_header(self._login, self._http.host)
            except KerberosFailure as failure:
                if failure.passes:
                    raise ConnectionLost(str(failure)) from None
                raise self._turned_away(f"it demands Kerberos, and {failure}") from None
        if self._http.sock is None:
            self._http.sock = self._connect()
        self._http.sock.settimeout(self._timeout_seconds)
        # from here on the server may have the message, even after an error
        self.sent = True
        try:
            self._http.request("POST", self._path, body=data, headers=headers)
            response = self._http.getresponse()
            body = response.read()
        except TimeoutError:
            raise ConnectionLost(f"there was no answer within {self._timeout_seconds:g} s") from None
        except RemoteDisconnected:
            raise ConnectionLost("the server closed the connection") from None
        except HTTPException as error:
            is_half_a_line = isinstance(error, BadStatusLine) and not str(error.args[0]).endswith("\n")
            if is_half_a_line or isinstance(error, IncompleteRead):
                raise ConnectionLost("the connection broke in the middle of an answer") from None
            raise UnreadableAnswer("the server does not speak HTTP") from None
        except OSError as error:
            raise ConnectionLost(f"the connection broke: {os_error_reason(error)}") from None
        # a proxy in front of the metastore finds its session by its cookies
        for text in response.headers.get_all("Set-Cookie") or ():
            cookies: SimpleCookie = SimpleCookie()
            with suppress(CookieError):
                cookies.load(text)
            for name, cookie in cookies.items():
                self._cookies.pop(name, None)
                if cookie["max-age"] != "0":
                    self._cookies[name] = cookie.coded_value
        return response, body

    def _incomplete(self) -> ConnectionLost:
        kind = UnreadableAnswer if self._has_length else ConnectionLost
        return kind("the answer is incomplete")

    def _turned_away(self, reason: str) -> TurnedAway:
        self.sent = False
        return TurnedAway(reason)
