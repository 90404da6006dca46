"""Requests to Google Cloud Storage, by its JSON interface, their repetition, and what errors say.

Each request here may be made twice: what changes something has a condition, or a name that no other request has, and
its caller looks what became of it. So a request is repeated when its answer is lost or the service is busy, as Google's
page "Retry strategy" says, and never without being told here: google-cloud-storage repeats by rules of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import google.auth.transport.urllib3
from google.auth.exceptions import GoogleAuthError

from acidlib.errors import AcidError, CorruptError, MissingError, RefusedError, RetryError
from acidlib.stores.buckets.bucket import ChangedError, UnderWayError
from acidlib.stores.filesystem import UnreachableServers, permission_missing
from acidlib.stores.gcs.options import GcsOptions, google_credentials
from acidlib.stores.http import (
    BUSY,
    UNCLEAR,
    AwayError,
    BusyServiceError,
    ForkSafeLock,
    HttpAnswer,
    LostAnswerError,
    SlowError,
    connections,
    failure_of_sending,
    send,
)
from acidlib.stores.repeating import repeated
from acidlib.waiting import asking
from acidlib.wording import first_line_of

if TYPE_CHECKING:
    from google.auth.credentials import Credentials as GoogleCredentials

_CLIENTS = 16
_SHORT = ("list", "look at")
"""Actions that take a server no time."""


class GcsAnswer(HttpAnswer):
    """An answer of the service."""

    __slots__ = ()

    @property
    def document(self) -> Mapping[str, Any]:
        """The body as a JSON object; LostAnswerError for another one, which the service does not give."""
        try:
            document = json.loads(self.body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise LostAnswerError("it answered as no Google Cloud Storage does, or a proxy before one did")
        return document

    @property
    def generation(self) -> str:
        """The generation of the object whose bytes these are."""
        try:
            return self.headers["x-goog-generation"]
        except KeyError:
            raise LostAnswerError("it answered as no Google Cloud Storage does: without a generation") from None

    @property
    def time(self) -> float:
        """The time of the answer by the clock of the service, in seconds since the epoch."""
        try:
            return parsedate_to_datetime(self.headers["date"]).timestamp()
        except (KeyError, ValueError):
            raise LostAnswerError("its answers have no Date") from None

    @property
    def is_absent(self) -> bool:
        """Whether the service says that there is none, and not a proxy before it, or a server of another kind."""
        return self.status == 404 and self.error.get("code") == 404

    @property
    def reasons(self) -> frozenset[str]:
        """The reasons that an error gives."""
        errors = self.error.get("errors")
        items = errors if isinstance(errors, list) else ()
        return frozenset(str(item.get("reason", "")) for item in items if isinstance(item, dict))


class RefusedRequestError(Exception):
    """The service answered a request with an error that is no accident."""

    def __init__(self, answer: GcsAnswer) -> None:
        super().__init__(answer)
        self.answer = answer


_logging_in = ForkSafeLock()
"""Held while a token is fetched: threads that begin together do it once."""


class GcsClient:
    """Sends requests about one bucket. It may be pickled and forked: each process makes connections of its own."""

    __slots__ = ("_unreachable", "options")

    def __init__(self, options: GcsOptions, unreachable: UnreachableServers | None = None) -> None:
        self.options = options
        self._unreachable = unreachable

    @property
    def of_bucket(self) -> str:
        """The URL of the bucket."""
        return f"{self.options.root}{self.options.path}b/{quote(self.options.bucket, safe='')}"

    @property
    def of_uploads(self) -> str:
        """The URL to which objects are uploaded."""
        return f"{self.options.root}upload/{self.options.path}b/{quote(self.options.bucket, safe='')}/o"

    def of_object(self, key: str) -> str:
        """Return the URL of an object."""
        return f"{self.of_bucket}/o/{quote(key, safe='')}"

    def ask(
        self,
        method: str,
        url: str,
        query: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        at_most: int | None = None,
    ) -> GcsAnswer:
        """Return the answer to a request, which is repeated while answers are lost or the service is busy.

        at_most  bytes of its body that are read; by default all

        RefusedRequestError for an error, LostAnswerError where there is no answer in the end.
        """
        parameters = urlencode(query or {}, quote_via=quote)
        whole = f"{url}?{parameters}" if parameters else url
        return repeated(
            lambda: self._sent(method, whole, dict(headers or {}), body, at_most),
            failure=failure_of_sending,
            tries=self.options.attempts,
        )

    @contextmanager
    def raising(self, action: str, path: str, *, missing: type[AcidError] = CorruptError) -> Iterator[None]:
        """Guard a block; an error of the service in it becomes our own for a failed `action` on `path`.

        Fail at once for a server that this run has waited for in vain a moment ago.
        """
        options = self.options
        reason = None if self._unreachable is None else self._unreachable.reason(options.root)
        if reason is not None:
            raise _unreachable_error(f"Cannot {action} {path}:", options, reason)
        try:
            with asking(action, path):
                yield
        except RefusedRequestError as error:
            raise gcs_acid_error(error.answer, action, path, options, missing) from error
        except BusyServiceError as error:
            raise RetryError(
                f"Cannot {action} {path}: {options.shown} is busy ({error}), even after several attempts"
            ) from error
        except LostAnswerError as error:
            is_away = isinstance(error, AwayError) or (action in _SHORT and isinstance(error, SlowError))
            if self._unreachable is not None and is_away:
                self._unreachable.note(options.root, str(error))
            raise _unreachable_error(f"Cannot {action} {path}:", options, str(error)) from error
        except GoogleAuthError as error:
            raise RetryError(
                f"Cannot {action} {path}: {options.user} cannot log in to {options.server} ({first_line_of(error)})"
            ) from error

    def _sent(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None, at_most: int | None
    ) -> GcsAnswer:
        """Send one request, once."""
        options = self.options
        with _logging_in:
            credentials = _credentials(options, os.getpid())
            if credentials is not None:
                credentials.before_request(_ask_for_token, method, url, headers)  # where the one it has runs out
        answer = send(
            GcsAnswer,
            method,
            url,
            headers,
            body,
            connect_seconds=options.connect_seconds,
            answer_seconds=options.answer_seconds,
            at_most=at_most,
        )
        if 200 <= answer.status < 300:
            return answer
        shown = f"{answer.status} {answer.message}".strip()
        if answer.status in BUSY or answer.reasons & {"rateLimitExceeded", "userRateLimitExceeded"}:
            raise BusyServiceError(shown)
        if answer.status in UNCLEAR:
            raise LostAnswerError(f"it answered {shown}")
        raise RefusedRequestError(answer)


def _ask_for_token(url: str, *arguments: Any, **named: Any) -> Any:
    """Send a request of Google's library by the connections to its own URL: each server has a proxy of its own."""
    return google.auth.transport.urllib3.Request(connections(url))(url, *arguments, **named)


@lru_cache(maxsize=_CLIENTS)
def _credentials(options: GcsOptions, process: int) -> GoogleCredentials | None:
    """Return the credentials of one process: a fork must not use those of its parent."""
    del process
    return google_credentials(options)


def _unreachable_error(start: str, options: GcsOptions, reason: str) -> RetryError:
    return RetryError(f"{start} {options.shown} cannot be reached, or went away ({reason})")


_RIGHTS = {
    **dict.fromkeys(("read", "look at", "look at the upload of"), "the right to read (storage.objects.get)"),
    "list": "the right to list (storage.objects.list)",
    "write": "the right to write (storage.objects.create, and storage.objects.delete to replace)",
    "publish": "the rights to read and to write (storage.objects.get, storage.objects.create)",
    "copy from": "the rights to read and to write (storage.objects.get, storage.objects.create)",
    "remove": "the right to delete (storage.objects.delete)",
    "abort the upload of": "the right to delete (storage.objects.delete)",
    "open": "the right to list (storage.objects.list)",
}
"""The right that an action takes."""
_KEPT = {
    "retentionPolicyNotMet": "the bucket has a retention policy, under which no claim can be renewed",
    "objectUnderActiveHold": "the object is on hold",
}


def gcs_acid_error(
    answer: GcsAnswer, action: str, path: str, options: GcsOptions, missing: type[AcidError] = CorruptError
) -> AcidError:
    """Return the error to raise for a failed `action` ("read", "list") on `path`.

    A failed condition is `ChangedError`, a missing object `missing`, a missing bucket MissingError. Credentials, rights
    and busy servers may be put right: RetryError.
    """
    start, status, where = f"Cannot {action} {path}:", answer.status, options.shown
    shown = f"{status} ({answer.message})" if answer.message else str(status)
    if answer.is_absent:
        if action in ("list", "open") or "bucket does not exist" in answer.message:
            return MissingError(f"{start} there is no bucket {where}")
        return missing(f"{start} there is no such object")
    if status == 412:
        return ChangedError(f"{start} another program has changed or made the object")
    if status == 409:
        return UnderWayError(f"{start} another program has changed or made the object")
    for reason in sorted(answer.reasons & _KEPT.keys()):
        return RefusedError(f"{start} {_KEPT[reason]}; {where} answered {shown}")
    if status == 400 and ("userProjectMissing" in answer.reasons or "requester pays" in answer.message):
        return RefusedError(f"{start} who reads the bucket {where} has to pay, which is not supported")
    if status == 400:
        return RefusedError(f"{start} {where} does not take the request ({answer.message or 'without a reason'})")
    if status == 401:
        return RetryError(f"{start} {where} did not take {options.user} ({shown})")
    if status == 403:
        right = _RIGHTS.get(action, action)
        return permission_missing(f"Cannot {action} {path}", f"{options.user} needs {right}; {where} answered {shown}")
    if 300 <= status < 400:
        return RetryError(f"{start} {where} sends every request elsewhere: look at fs.gs.storage.root.url")
    return RetryError(f"{start} {where} answered {shown}")
