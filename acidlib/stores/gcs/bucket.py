"""A bucket of Google Cloud Storage: its objects, and files to publish as pieces that one request composes.

An upload is a few objects, its pieces, below the staging directory of its run. Completing it composes them to an object
of the final name, if there is none (`ifGenerationMatch=0`) and each piece is the one that was sent; the pieces go with
the staging directory. Aborting it removes the pieces, after which no request of a paused run can compose them. That one
under way cannot either we have read on no page of Google's: a probe tries it ("aborts are final"). The pieces are named
by their generations as a condition only: by its generation alone a bucket with versions would still find a piece that
was removed.

One request composes at most 32 objects (Google, "Composite objects"): so whenever 32 pieces of one rank are there, they
become one of the next. A composed object is a piece like another, so files have any length, and memory holds no more
than the pieces that are on their way. Objects are composed whole: a range of another object goes through this process,
but for a whole file.

A generation is of one object alone, and never comes again: a condition on it cannot be met by equal contents. Names of
objects that change within one second are slowed down by the service (one write a second): then requests are repeated.

Buckets with a hierarchical namespace are refused: how uploads and removals behave there was not tried.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace
from tenacity import retry, retry_if_exception_type

from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.location import GCS
from acidlib.model.uploads import Part, StagedUpload
from acidlib.stores.buckets.bucket import (
    CONFLICT_PAUSES,
    CONFLICT_TRIES,
    ORIGIN,
    AbsentError,
    Bucket,
    ChangedError,
    InBucket,
    ListedPage,
    ObjectRange,
    SmallObject,
    StoredObject,
    UndecidedError,
    Upload,
    UploadState,
    kept_error,
)
from acidlib.stores.filesystem import MAX_CONTROL_FILE_BYTES, Pace, UnreachableServers, require_small
from acidlib.stores.gcs.client import GcsAnswer, GcsClient, RefusedRequestError
from acidlib.stores.gcs.options import GcsOptions
from acidlib.stores.http import LostAnswerError
from acidlib.stores.promises import FEW_ROUNDS, Promise, race, require, require_conflict
from acidlib.stores.store import STAGING_PREFIX

_LISTED_FIELDS = "name,size,updated,generation"
_FIELDS = f"{_LISTED_FIELDS},metadata"
_BYTES = "application/octet-stream"
_ENCODINGS = ("x-goog-stored-content-encoding", "content-encoding")
_AT_ONCE = 16
"""Objects that are removed at the same time: each takes a request."""
_MAX_LISTED = 1000


class GcsBucket(Bucket):
    """A bucket; versions are generations."""

    __slots__ = ("client",)

    kind = GCS
    absent, unchanged = "ifGenerationMatch=0", "ifGenerationMatch"
    is_listed = True

    def __init__(self, options: GcsOptions, unreachable: UnreachableServers | None = None) -> None:
        self.client = GcsClient(options, unreachable)

    @property
    def options(self) -> GcsOptions:
        return self.client.options

    def look(self, path: str) -> StoredObject | None:
        try:
            with self.client.raising("look at", path, missing=AbsentError):
                return _stored(self._about(path).document)
        except AbsentError:
            return None

    def _about(self, path: str) -> GcsAnswer:
        return self.client.ask("GET", self.client.of_object(self.key(path)), {"fields": _FIELDS})

    def pages(self, path: str, prefix: str, *, delimiter: str = "", at_most: int = 0) -> Iterator[ListedPage]:
        query = {
            "prefix": prefix,
            "maxResults": str(at_most or _MAX_LISTED),
            "fields": f"kind,items({_LISTED_FIELDS}),prefixes,nextPageToken",
        }
        if delimiter:
            query["delimiter"] = delimiter
        while True:
            with self.client.raising("list", path):
                page = self.client.ask("GET", f"{self.client.of_bucket}/o", query).document
                if page.get("kind") != "storage#objects":
                    raise LostAnswerError("it answered as no Google Cloud Storage does: with no listing")
                listed = ListedPage(
                    tuple(_stored(item) for item in page.get("items", ())), tuple(page.get("prefixes", ()))
                )
            yield listed
            if at_most or not page.get("nextPageToken"):
                return
            query["pageToken"] = page["nextPageToken"]

    def read(self, path: str, *, missing: type[AcidError] = CorruptError) -> bytes:
        with self.client.raising("read", path, missing=missing):
            whole = self._range(path, 0, MAX_CONTROL_FILE_BYTES + 1, None)
        if whole is None:
            return b""
        require_small(path, whole.total)
        return whole.data

    def read_small(self, path: str, *, missing: type[AcidError] = CorruptError) -> SmallObject:
        while True:
            try:
                with self.client.raising("read", path, missing=missing):
                    answer = self._about(path)
                    about = _stored(answer.document)
                    require_small(path, about.length)
                    data = self._bytes(path, about.version).body
                    if len(data) != about.length:
                        raise LostAnswerError(f"it did not send the {about.length} bytes of the object")
                    return SmallObject(
                        data=data,
                        version=about.version,
                        modified=about.modified,
                        now=answer.time,
                        origin=about.origin or "",
                    )
            except ChangedError:
                continue  # it was replaced between the two requests

    def read_range(self, path: str, offset: int, size: int, version: str | None) -> ObjectRange | None:
        with self.client.raising("read", path):
            return self._range(path, offset, size, version)

    def _range(self, path: str, offset: int, size: int, version: str | None) -> ObjectRange | None:
        end = offset + size
        try:
            answer = self._bytes(path, version, end, {"Range": f"bytes={offset}-{end - 1}"})
        except RefusedRequestError as error:
            if error.answer.status == 416:
                return None
            raise
        if answer.status == 206:
            total = answer.headers.get("content-range", "").rpartition("/")[2]
            if not total.isdecimal():
                raise LostAnswerError("it answered as no Google Cloud Storage does: without the length of a range")
            if len(answer.body) != (expected := min(size, int(total) - offset)):
                raise LostAnswerError(f"it sent {len(answer.body)} of {expected} bytes")
            return ObjectRange(answer.body, answer.generation, int(total))
        # a server, or a proxy before it, may send the whole instead (RFC 9110, "Range")
        length = answer.headers.get("content-length", "")
        if not length.isdecimal():
            raise LostAnswerError("it sent an object instead of a range, without its length")
        if offset >= int(length):
            return None
        return ObjectRange(answer.body[offset:end], answer.generation, int(length))

    def _bytes(
        self, path: str, version: str | None, end: int = 0, headers: Mapping[str, str] | None = None
    ) -> GcsAnswer:
        """Return the bytes of an object as they are stored, up to `end` or what a small object may hold.

        ChangedError unless they are those of a generation, if one is given. RefusedError for an object that is stored
        compressed: who does not take it as it is gets it whole instead of a range, and with another length than it is
        listed with (Google, "Transcoding of gzip-compressed files").
        """
        query = {"alt": "media"} | ({} if version is None else {"ifGenerationMatch": version})
        try:
            answer = self.client.ask(
                "GET",
                self.client.of_object(self.key(path)),
                query,
                headers={"Accept-Encoding": "gzip", **(headers or {})},
                at_most=max(end, MAX_CONTROL_FILE_BYTES + 1),
            )
        except RefusedRequestError as error:
            if error.answer.status == 404:
                self._about(path)  # what is said of bytes that are not there is no JSON, as a proxy may say it
            raise
        encodings = {answer.headers.get(name) or "identity" for name in _ENCODINGS} - {"identity"}
        if encodings:
            raise RefusedError(
                f"Cannot read {path}: it is stored with the content encoding {' and '.join(sorted(encodings))}, which "
                "is not supported"
            )
        if version is not None and answer.generation != version:
            raise ChangedError(f"Cannot read {path}: another program has changed it")
        return answer

    def write(self, path: str, data: bytes, *, version: str | None, origin: str = "") -> str:
        with self.client.raising("write", path, missing=ChangedError):
            return self._insert(self.key(path), data, version or "0", origin).version

    def put(self, path: str, data: bytes) -> None:
        with self.client.raising("write", path):
            self._insert(self.key(path), data, None, "")

    def _insert(self, key: str, data: bytes, generation: str | None, origin: str) -> StoredObject:
        """Write an object by one request, whose checksum the service compares."""
        about: dict[str, Any] = {
            "name": key,
            "contentType": _BYTES,
            "md5Hash": base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode(),
        }
        if origin:
            about["metadata"] = {ORIGIN: origin}
        boundary = uuid.uuid4().hex
        head = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(about)}\r\n"
            f"--{boundary}\r\nContent-Type: {_BYTES}\r\n\r\n"
        )
        answer = self.client.ask(
            "POST",
            self.client.of_uploads,
            {"uploadType": "multipart", "fields": _FIELDS}
            | ({} if generation is None else {"ifGenerationMatch": generation}),
            headers={"Content-Type": f"multipart/related; boundary={boundary}"},
            body=b"".join((head.encode(), data, f"\r\n--{boundary}--\r\n".encode())),
        )
        stored = _stored(answer.document)
        if stored.length != len(data):
            raise LostAnswerError(f"it stored {stored.length} of {len(data)} bytes")
        return stored

    def insert_piece(self, key: str, data: bytes) -> Part:
        """Write a piece, whose name no other has."""
        with self.client.raising("write", self.path(key)):
            try:
                stored = self._insert(key, data, "0", "")
            except RefusedRequestError as error:
                stored = self._made_before(key, error)
        return _piece(stored)

    def compose_piece(self, key: str, sources: Sequence[StoredObject]) -> Part:
        """Make a piece of whole objects; ChangedError where one has changed or is gone."""
        with self.client.raising("copy from", self.path(sources[0].key), missing=ChangedError):
            try:
                stored = self._compose(key, [(source.key, source.version) for source in sources], "0", "")
            except RefusedRequestError as error:
                stored = self._made_before(key, error)
        if stored.length != (length := sum(source.length for source in sources)):
            raise CorruptError(f"Cannot write {self.path(key)}: {stored.length} of {length} bytes were composed")
        return _piece(stored)

    def _made_before(self, key: str, error: RefusedRequestError) -> StoredObject:
        """Return the object of a unique name after a failed condition: an earlier try whose answer was lost made it."""
        if error.answer.status != 412:
            raise error
        try:
            return _stored(self._about(self.path(key)).document)
        except RefusedRequestError:
            raise error from None

    def _compose(
        self, key: str, sources: Sequence[tuple[str, str]], generation: str | None, origin: str
    ) -> StoredObject:
        destination: dict[str, Any] = {"contentType": _BYTES}
        if origin:
            destination["metadata"] = {ORIGIN: origin}
        request = {
            "sourceObjects": [
                {"name": name, "objectPreconditions": {"ifGenerationMatch": version}} for name, version in sources
            ],
            "destination": destination,
        }
        answer = self.client.ask(
            "POST",
            f"{self.client.of_object(key)}/compose",
            {"fields": _FIELDS} | ({} if generation is None else {"ifGenerationMatch": generation}),
            headers={"Content-Type": "application/json"},
            body=json.dumps(request).encode(),
        )
        return _stored(answer.document)

    def remove(self, path: str, objects: Mapping[str, str], *, pace: Pace | None = None) -> None:
        waiting = list(objects.items())
        failed: list[str] = []
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="acidlib-remove") as threads:
            for start in range(0, len(waiting), _MAX_LISTED):
                some = waiting[start : start + _MAX_LISTED]
                if pace is not None:
                    pace(len(some))
                removals = [threads.submit(self._remove, key, version) for key, version in some]
                for (key, _), removal in zip(some, removals, strict=True):
                    with self.client.raising("remove", path):
                        try:
                            removal.result()
                        except RefusedRequestError as error:
                            if error.answer.status in (400, 401):
                                raise
                            failed.append(f"{key} ({error.answer.status}: {error.answer.message})")
        if failed:
            raise kept_error(path, len(waiting), failed)

    def _remove(self, key: str, version: str) -> None:
        """Remove an object, of a generation if one is given; one that is gone is no error."""
        query = {"ifGenerationMatch": version} if version else {}
        try:
            self.client.ask("DELETE", self.client.of_object(key), query)
        except RefusedRequestError as error:
            if error.answer.is_absent:
                return
            if error.answer.status == 412 and self.look(self.path(key)) is None:
                return  # an earlier try whose answer was lost removed it
            raise

    def promises(self) -> tuple[Promise, ...]:
        return (
            Promise(
                name="no hierarchical namespace",
                sentence="The bucket has no hierarchical namespace.",
                trial=self._try_namespace,
                is_quick=True,
            ),
            Promise(
                name="no changed piece is composed",
                sentence="Objects are composed whole, and not if one of them has changed.",
                trial=self._try_composing,
                is_quick=True,
            ),
            Promise(
                name="no removed piece is composed",
                sentence="No object of many others appears once one of these was removed.",
                trial=self._try_removing,
            ),
        )

    def _try_namespace(self, place: str) -> str:
        with self.client.raising("open", place):
            try:
                about = self.client.ask("GET", f"{self.client.of_bucket}/storageLayout").document
            except RefusedRequestError as error:
                if not error.answer.is_absent:
                    raise
                about = self.client.ask("GET", self.client.of_bucket).document
        if (about.get("hierarchicalNamespace") or {}).get("enabled"):
            raise RefusedError(
                f"Cannot use the bucket {self.options.shown}: it has a hierarchical namespace, with which this was not "
                "tried; a bucket without one is"
            )
        return "it says so"

    def _try_composing(self, place: str) -> str:
        key = self.key(place)
        pieces = [self.insert_piece(f"{key}/a.{number}", data) for number, data in enumerate((b"ab", b"", b"cd"))]
        sources = [StoredObject(f"{key}/a.{piece.number}", piece.size, 0.0, piece.version) for piece in pieces]
        self.compose_piece(f"{key}/b.0", sources)
        require(self.read(f"{place}/b.0") == b"abcd", "objects were composed, and the bytes are others")
        self.put(f"{place}/a.2", b"CD")
        require_conflict(
            partial(self.compose_piece, f"{key}/b.1", sources),
            f"it composes an object that has changed, against {self.unchanged} of a source",
        )
        return "3 objects composed; a changed one refused"

    def _try_removing(self, place: str) -> str:
        key = self.key(place)
        whole = 0
        for number in range(FEW_ROUNDS):
            target = f"{place}/b.{number}"
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                names = [f"{key}/a{number}.{piece}" for piece in range(MAX_COMPOSED)]
                pieces = list(threads.map(self.insert_piece, names, [b"x"] * MAX_COMPOSED))
            sources = [StoredObject(name, 1, 0.0, piece.version) for name, piece in zip(names, pieces, strict=True)]

            def removed_and_seen(first: StoredObject = sources[0], target: str = target) -> bool:
                self.remove(place, {first.key: first.version})
                return self.look(target) is not None

            calls: tuple[Callable[[], object], ...] = (
                partial(self.compose_piece, self.key(target), sources),
                removed_and_seen,
            )
            _, was_seen = race(calls)
            is_there = self.look(target) is not None
            require(is_there == was_seen, "an object was composed of others after one of them was removed")
            whole += is_there
        return f"{FEW_ROUNDS} races: {whole} composed, {FEW_ROUNDS - whole} refused"

    def begin(self, planned: StagedUpload, hidden: str) -> GcsUpload:
        return GcsUpload(self, replace(planned, upload_id=f"{self.key(hidden)}.{uuid.uuid4().hex[:12]}"))

    @retry(retry=retry_if_exception_type(UndecidedError), stop=CONFLICT_TRIES, wait=CONFLICT_PAUSES, reraise=True)
    def complete(self, upload: StagedUpload) -> bool:
        path = self.path(upload.key)
        try:
            with self.client.raising("publish", path, missing=ChangedError):
                self._compose(upload.key, self._pieces(upload), "0", upload.origin)
        except (ChangedError, RetryError) as error:
            state = self.state(upload)
            if state is not UploadState.OPEN:
                return state is UploadState.VISIBLE
            if not isinstance(error, ChangedError):
                raise
            if self.look(path) is not None:
                raise ConflictError(f"Cannot publish {path}: it already exists") from error
            raise UndecidedError(
                f"Cannot publish {path}: the store calls it a conflict, even after several attempts"
            ) from error
        return True

    def complete_hidden(self, upload: StagedUpload) -> None:
        path = self.path(upload.key)
        with self.client.raising("write", path):
            self._compose(upload.key, self._pieces(upload), None, "")
        with suppress(AcidError):  # else they go with the staging directory
            self.abort(upload)

    def _pieces(self, upload: StagedUpload) -> list[tuple[str, str]]:
        """Return keys and generations of the pieces of an upload; CorruptError where no run has made it.

        Any user who may write to a table can write a record that names objects elsewhere, or any number of them.
        """
        above, is_staged, _ = f"/{upload.upload_id}".rpartition(f"/{STAGING_PREFIX}")
        directory = f"/{upload.key}".rpartition("/")[0]
        own = f"/{upload.key}".startswith(f"{above}/{STAGING_PREFIX}")  # what a task makes for itself
        if not is_staged or not (own or above in (directory, directory.rpartition("/")[0])):
            raise CorruptError(
                f"Cannot publish {self.path(upload.key)}: its pieces lie in {self.path(upload.upload_id)}, which is in "
                "no staging directory beside it"
            )
        if len(upload.parts) > MAX_COMPOSED:
            raise CorruptError(
                f"Cannot publish {self.path(upload.key)}: it is to be composed of {len(upload.parts)} pieces, and one "
                f"request composes {MAX_COMPOSED}"
            )
        return [(_piece_key(upload, part.number), part.version) for part in upload.parts]

    def abort(self, upload: StagedUpload) -> None:
        pieces = self._pieces(upload)
        prefix = f"{upload.upload_id}."
        path = self.path(upload.key)
        if not pieces:  # it was not finished
            listed = self.pages(path, prefix)
            pieces = [(item.key, item.version) for page in listed for item in page.objects]
        with self.client.raising("abort the upload of", path):
            for key, version in pieces:
                try:
                    self._remove(key, version)
                except RefusedRequestError as error:
                    if error.answer.status != 412:
                        raise

    def is_open(self, upload: StagedUpload) -> bool:
        path = self.path(upload.key)
        with self.client.raising("look at the upload of", path):
            sent = {_piece_key(upload, part.number): (part.version, part.size) for part in upload.parts}
            self._pieces(upload)
            if len(sent) == 1:
                (key,) = sent
                only = self.look(self.path(key))
                there = {} if only is None else {key: (only.version, only.length)}
            else:
                listed = self.pages(path, f"{upload.upload_id}.")
                there = {item.key: (item.version, item.length) for page in listed for item in page.objects}
        if not sent.keys() <= there.keys():
            return False
        if any(there[key] != piece for key, piece in sent.items()):
            raise CorruptError(f"Cannot publish {path}: the pieces of its upload are not those that were sent")
        return True

    def state(self, upload: StagedUpload) -> UploadState:
        # pieces outlast the completion; and they may go, after it, between the first two questions
        if self.is_visible(upload):
            return UploadState.VISIBLE
        if self.is_open(upload):
            return UploadState.OPEN
        return UploadState.VISIBLE if self.is_visible(upload) else UploadState.GONE


def _stored(document: Mapping[str, Any]) -> StoredObject:
    """Return an object as the service describes it; LostAnswerError for a description that lacks something."""
    try:
        return StoredObject(
            str(document["name"]),
            int(document.get("size", 0)),
            float(int(datetime.fromisoformat(document["updated"]).timestamp())),
            str(document["generation"]),
            str((document.get("metadata") or {}).get(ORIGIN, "")),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise LostAnswerError(f"it answered as no Google Cloud Storage does: an object lacks {error}") from error


def _piece_key(upload: StagedUpload, number: int) -> str:
    return f"{upload.upload_id}.{number}"


def _piece(stored: StoredObject) -> Part:
    return Part(number=int(stored.key.rpartition(".")[2]), version=stored.version, size=stored.length)


PIECE_BYTES = 8 << 20
MAX_COMPOSED = 32
"""Objects that one request composes (Google, "Composite objects")."""
MIN_COPIED_BYTES = 1 << 20
"""Bytes of a whole object that the service copies: a smaller one is read and sent with its neighbours."""

_TRAVEL_AT_ONCE = 4
_READ_AT_ONCE = 8 << 20


class GcsUpload(Upload):
    """An upload, whose pieces threads of its own send."""

    def __init__(self, bucket: GcsBucket, begun: StagedUpload) -> None:
        self.begun = begun
        self._bucket = bucket
        self._waiting = bytearray()
        self._numbers = 0
        self._pieces: list[tuple[int, Future[Part]]] = []
        """Pieces in order, each with its rank: how often pieces were composed to make it."""
        self._threads = ThreadPoolExecutor(_TRAVEL_AT_ONCE, thread_name_prefix="acidlib-upload")

    def send(self, data: Any) -> None:
        self._waiting += data
        while len(self._waiting) >= PIECE_BYTES:
            self._send_piece(bytes(self._waiting[:PIECE_BYTES]))
            del self._waiting[:PIECE_BYTES]

    def copy(self, source: InBucket, offset: int, size: int) -> None:
        """Append a range: a whole object is copied by the service, any other range goes through this process."""
        if offset == 0 and size >= MIN_COPIED_BYTES and size == source.total:
            self._send_rest()
            version = source.version
            whole = StoredObject(self._bucket.key(source.name), size, 0.0, version)
            self._add(self._copy_piece, source.name, whole)
            return
        end = offset + size
        while offset < end:
            count = min(_READ_AT_ONCE, end - offset)
            self.send(source.read(offset, count))
            offset += count

    def finish(self) -> StagedUpload:
        if self._waiting or not self._pieces:
            self._send_piece(bytes(self._waiting))
            self._waiting.clear()
        try:
            while len(self._pieces) > MAX_COMPOSED:
                self._compose_last(min(MAX_COMPOSED, len(self._pieces) - MAX_COMPOSED + 1))
            parts = tuple(piece.result() for _, piece in self._pieces)
        finally:
            self._threads.shutdown()
        return replace(self.begun, length=sum(part.size for part in parts), parts=parts)

    def stop(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def _send_rest(self) -> None:
        if self._waiting:
            self._send_piece(bytes(self._waiting))
            self._waiting.clear()

    def _send_piece(self, data: bytes) -> None:
        self._add(self._bucket.insert_piece, data)

    def _copy_piece(self, key: str, name: str, whole: StoredObject) -> Part:
        try:
            return self._bucket.compose_piece(key, [whole])
        except ChangedError as error:
            raise CorruptError(f"Cannot copy from {name}: another object took its place while it was read") from error

    def _add(self, make: Any, *arguments: Any) -> None:
        self._pieces.append((0, self._threads.submit(make, self._next_key(), *arguments)))
        if len(self._pieces) > _TRAVEL_AT_ONCE:  # memory holds no more pieces than are on their way
            self._pieces[-_TRAVEL_AT_ONCE - 1][1].result()  # raises its error, if it failed
        while len(self._pieces) >= 2 * MAX_COMPOSED and self._last_of_a_rank() >= MAX_COMPOSED:
            self._compose_last(MAX_COMPOSED)

    def _last_of_a_rank(self) -> int:
        rank = self._pieces[-1][0]
        return next(
            (count for count, (other, _) in enumerate(reversed(self._pieces)) if other != rank), len(self._pieces)
        )

    def _compose_last(self, count: int) -> None:
        """Make one piece of the last ones, and remove these."""
        last = self._pieces[-count:]
        parts = [piece.result() for _, piece in last]
        sources = [StoredObject(_piece_key(self.begun, part.number), part.size, 0.0, part.version) for part in parts]
        del self._pieces[-count:]
        composed: Future[Part] = Future()
        composed.set_result(self._bucket.compose_piece(self._next_key(), sources))
        self._pieces.append((max(rank for rank, _ in last) + 1, composed))
        with suppress(AcidError):  # else they go with the staging directory
            self._bucket.remove(self.begun.key, {source.key: source.version for source in sources})

    def _next_key(self) -> str:
        self._numbers += 1
        return _piece_key(self.begun, self._numbers)
