"""One request over HTTP, sent once, and what is known of it where no answer came.

Whether it may be sent again is told by its sender. Redirections are not followed: keys and tokens go to no other server
than the one that is named.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    IncompleteRead,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from acidlib.masking import masked
from acidlib.stores.repeating import Failure
from acidlib.wording import first_line_of

_CONNECTIONS, _SERVERS = 32, 16
BUSY = frozenset({429, 503})
"""Statuses by which a service turns a request away."""
UNCLEAR = frozenset({408, 500, 502, 504})
"""Statuses after which nobody knows whether the request was carried out, or will be."""


class LostAnswerError(Exception):
    """A request has no answer, or none that tells whether it was carried out."""


class NotSentError(LostAnswerError):
    """Nothing was carried out."""


class AwayError(NotSentError):
    """There was no connection."""


class BusyServiceError(NotSentError):
    """The service turned the request away, and asks for patience."""


class SlowError(LostAnswerError):
    """There was no answer in time."""


def failure_of_sending(error: Exception) -> Failure | None:
    """Return what is known of a request after an error of `send`, or a status that turned it away."""
    for kind, known in ((BusyServiceError, Failure.BUSY), (AwayError, Failure.AWAY), (LostAnswerError, Failure.LOST)):
        if isinstance(error, kind):
            return known
    return None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer of a service; names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error(self) -> Mapping[str, object]:
        """The JSON object that describes an error; empty without one."""
        try:
            document = json.loads(self.body or b"{}")
        except ValueError:
            return {}
        error = document.get("error") if isinstance(document, dict) else None
        return error if isinstance(error, dict) else {}

    @property
    def message(self) -> str:
        """What an error says, in one line."""
        return next(iter(str(self.error.get("message", "")).splitlines()), "")


def _mask(record: logging.LogRecord) -> bool:
    """Mask the secrets in what urllib3 notes of each request: a token may be among the parameters of the address."""
    if isinstance(record.args, tuple):
        record.args = tuple(masked(value) if isinstance(value, str) else value for value in record.args)
    return True


logging.getLogger("urllib3.connectionpool").addFilter(_mask)

AnyAnswer = TypeVar("AnyAnswer", bound=HttpAnswer)


class ForkSafeLock:
    """A lock that is free in a forked process, whichever thread of the parent held it."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_making = ForkSafeLock()
"""Held while connections are made, so that threads that begin together share them."""


def connections(url: str) -> urllib3.PoolManager:
    """Return the connections of this process to the server of a URL, through its proxy if there is one."""
    parts = urlsplit(url)
    with _making:
        return _made(parts.scheme, parts.netloc, os.getpid())


@lru_cache(maxsize=_SERVERS)
def _made(scheme: str, server: str, process: int) -> urllib3.PoolManager:
    del process  # a fork must not use the connections of its parent
    proxy = getproxies().get(scheme)
    if not proxy or proxy_bypass(server):
        return urllib3.PoolManager(maxsize=_CONNECTIONS)
    return urllib3.ProxyManager(proxy, maxsize=_CONNECTIONS)


def send(
    answer: type[AnyAnswer],
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    *,
    connect_seconds: float,
    answer_seconds: float,
    at_most: int | None = None,
) -> AnyAnswer:
    """Send one request, once, and return its answer, whatever the status; LostAnswerError without one.

    at_most  bytes of the body that are read: whatever follows is left where it is
    """
    try:
        response = connections(url).request(
            method,
            url,
            headers=headers,
            body=body,
            retries=False,
            redirect=False,
            decode_content=False,
            preload_content=at_most is None,
            timeout=urllib3.Timeout(connect=connect_seconds, read=answer_seconds),
        )
        content = response.data if at_most is None else _beginning(response, at_most)
    except (NewConnectionError, NameResolutionError, ConnectTimeoutError, LocationParseError, ProxyError) as error:
        raise AwayError(_brief(error)) from error
    except SSLError as error:
        # others may come after the request
        kind = AwayError if "CERTIFICATE_VERIFY_FAILED" in str(error) else LostAnswerError
        raise kind(f"TLS: {_brief(error)}") from error
    except ReadTimeoutError as error:
        raise SlowError("no answer in time") from error
    except (HTTPError, OSError) as error:
        raise LostAnswerError(_brief(error)) from error
    return answer(response.status, {name.lower(): text for name, text in response.headers.items()}, content)


def _beginning(response: urllib3.BaseHTTPResponse, at_most: int) -> bytes:
    """Return the first bytes of a body; a connection on which more would follow is closed."""
    pieces: list[bytes] = []
    missing = at_most
    try:
        while missing and (piece := response.read(missing)):
            pieces.append(piece)
            missing -= len(piece)
    finally:
        response.close()
        response.release_conn()
    return b"".join(pieces)


def _brief(error: BaseException) -> str:
    """Return what a client says of a failure, without its connection, and an address whose parameters may be secret."""
    cause = next((item for item in error.args if isinstance(item, BaseException)), error)
    if isinstance(cause, IncompleteRead):
        return "its answer has ended too early"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    text = first_line_of(cause)
    return re.sub(r"\?\S*", "", text.rpartition("object at 0x")[2].partition(": ")[2] or text)
