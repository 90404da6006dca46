"""The SASL login in front of Thrift messages, by pure-sasl.

Source of the packets: Thrift `TSaslTransport`: a status byte, a length and a text, until the server says COMPLETE.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from puresasl import SASLError
from puresasl.client import SASLClient

from acidlib.errors import RefusedError
from acidlib.metastore.endpoint import SaslOptions

_START, _OK, _BAD, _ERROR, _COMPLETE = 1, 2, 3, 4, 5
_MAX_CHALLENGE = 1 << 20


class SaslFailure(Exception):  # noqa: N818 - told to the user by the caller, in a sentence of its own
    """The server does not let us in, or does not speak SASL; the text says which."""


class Session(Protocol):
    """A finished login: what the agreed protection makes of messages (nothing, a signature, encryption)."""

    def wrap(self, outgoing: bytes) -> bytes:
        """The bytes to send for a message."""
        ...

    def unwrap(self, incoming: bytes) -> bytes:
        """The message in bytes received."""
        ...


def login(options: SaslOptions, host: str, send: Callable[[bytes], None], receive: Callable[[int], bytes]) -> Session:
    """Logs in over an open connection. `receive` gives exactly as many bytes as it is asked for.

    Raises RefusedError for a mechanism that cannot be used here, SaslFailure when the server says no.
    """
    client = _client(options, host)
    try:
        _send(send, _START, options.mechanism.encode())
        _send(send, _OK, client.process())
        while True:
            status, text = _receive(receive)
            if status == _COMPLETE:
                if not client.complete:
                    raise SaslFailure("the server ended the login before it was finished")
                return cast(Session, client)
            if status != _OK:
                raise SaslFailure(text.decode("utf-8", "replace").strip() or "the server refused it")
            _send(send, _OK, client.process(text))
    except SASLError as error:
        raise SaslFailure(str(error)) from None
    except SaslFailure:
        raise
    except Exception as error:
        # the Kerberos module raises classes of its own, which cannot be named here without importing it
        if type(error).__module__.split(".")[0] not in ("kerberos", "winkerberos"):
            raise
        raise SaslFailure(" ".join(str(error).split())) from None


def _client(options: SaslOptions, host: str) -> SASLClient:
    name = options.host or host
    if options.mechanism == "PLAIN":
        if options.username is None:
            raise RefusedError("Cannot log in to the metastore with PLAIN: because no user name is given")
        return SASLClient(
            name, service=options.service, mechanism="PLAIN", username=options.username, password=_password(options)
        )
    if options.mechanism != "GSSAPI":
        raise RefusedError(
            f"Cannot log in to the metastore with {options.mechanism}: because only PLAIN and GSSAPI are"
        )
    try:
        import kerberos  # noqa: F401 - an extra: needed for this mechanism only, and by pure-sasl itself
    except ImportError:
        raise RefusedError(
            "Cannot log in to the metastore with Kerberos: because the module kerberos is not installed; "
            "pip install -e '.[kerberos]' in the project's folder installs it"
        ) from None
    return SASLClient(name, service=options.service, mechanism="GSSAPI")


def _password(options: SaslOptions) -> str:
    if options.password is not None or options.password_file is None:
        return options.password or ""
    try:
        lines = Path(options.password_file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(
            f"Cannot log in to the metastore: because the password file {options.password_file} cannot be read: "
            f"{error.strerror if isinstance(error, OSError) else 'it is not UTF-8'}"
        ) from None
    return lines[0] if lines else ""


def _send(send: Callable[[bytes], None], status: int, text: bytes | str | None) -> None:
    data = text.encode() if isinstance(text, str) else text or b""
    send(struct.pack(">BI", status, len(data)) + data)


def _receive(receive: Callable[[int], bytes]) -> tuple[int, bytes]:
    status, length = struct.unpack(">BI", receive(5))
    if not _START <= status <= _COMPLETE or length > _MAX_CHALLENGE:
        raise SaslFailure("the server does not speak SASL")
    return status, receive(length) if length else b""
