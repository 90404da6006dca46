"""A door in front of ``gcsemulator`` that mends what Google's own clients miss in its answers.

As the service does: buckets have times; an upload goes on by ``PUT``, and its answer has the checksum of the object
(CRC32C); a range is answered by a range; an object is moved (Google, "Buckets", "Resumable uploads", "Objects: get",
"Objects: move"). It gives tokens, too. All else is the emulator's.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from email.message import Message
from urllib.parse import quote

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from servers.door import Answer, Door, Request
from servers.gcs import GcsServer

_BUCKET = re.compile(r"/storage/v1/b/[^/]+")
_RANGE = re.compile(r"bytes=([0-9]+)-([0-9]*)")
_MOVE = re.compile(r"(/storage/v1/b/[^/]+/o/)([^/]+)/moveTo/o/([^/]+)")
_TIME = "2020-01-01T00:00:00.000Z"


class GcsDoor(Door):
    """A door in front of an emulator."""

    def __init__(self, server: GcsServer) -> None:
        """Listens from now on."""
        super().__init__(server.port)

    def key(self) -> dict[str, str]:
        """A new key of an account, for clients that do not come without one; its tokens come from this door."""
        private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return {
            "type": "service_account",
            "project_id": "tests",
            "client_id": "1",
            "client_email": "tests@tests",
            "private_key_id": "1",
            "private_key": private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
            "token_uri": f"{self.endpoint}/token",
        }

    def passed_on(self, request: Request) -> Answer:
        """What the emulator answers, mended."""
        if request.path == "/token":
            token = {"access_token": "token", "expires_in": 3600, "token_type": "Bearer"}
            headers = (("Content-Type", "application/json"),)
            return Answer(status=200, body=json.dumps(token).encode(), headers=headers)
        if move := _MOVE.fullmatch(request.path):
            return self._moved(request, move[1], move[2], move[3])
        if request.method == "PUT":
            found = super().passed_on(dataclasses.replace(request, method="POST"))
            if found.status != 200:
                return found
            about = json.loads(found.body)
            written = self._ask("GET", f"/storage/v1/b/{about['bucket']}/o/{quote(about['name'], safe='')}")
            return _with_body(found, 200, json.dumps(about | {"crc32c": crc32c(written.body)}).encode())
        found = super().passed_on(request)
        if found.status == 200 and request.method == "GET":
            if _BUCKET.fullmatch(request.path):
                about = {"timeCreated": _TIME, "updated": _TIME} | json.loads(found.body)
                return _with_body(found, 200, json.dumps(about).encode())
            if "alt=media" in request.query and (asked := _RANGE.fullmatch(request.headers.get("Range", ""))):
                return _of_a_range(found, int(asked[1]), int(asked[2]) if asked[2] else len(found.body) - 1)
        return found

    def _ask(self, method: str, path: str, query: str = "alt=media", body: bytes = b"") -> Answer:
        headers = Message()
        headers["Host"] = "127.0.0.1"
        return super().passed_on(Request(method=method, path=path, query=query, headers=headers, body=body))

    def _moved(self, request: Request, objects: str, source: str, target: str) -> Answer:
        found = self._ask("GET", objects + source)
        if found.status != 200:
            return found
        query = f"uploadType=media&name={target}&{request.query}"
        made = self._ask("POST", f"/upload{objects.removesuffix('/')}", query, found.body)
        if made.status == 200:
            self._ask("DELETE", objects + source, "")
        return made


def crc32c(data: bytes) -> str:
    """The checksum of data as the service gives it."""
    left = 0xFFFFFFFF
    for byte in data:
        left = _CRCS[(left ^ byte) & 0xFF] ^ (left >> 8)
    return base64.b64encode((left ^ 0xFFFFFFFF).to_bytes(4, "big")).decode()


def _crc(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CRCS = [_crc(byte) for byte in range(256)]


def _of_a_range(whole: Answer, first: int, last: int) -> Answer:
    length = len(whole.body)
    if first >= length:
        return _with_body(whole, 416, b"", ("Content-Range", f"bytes */{length}"))
    piece = whole.body[first : last + 1]
    return _with_body(whole, 206, piece, ("Content-Range", f"bytes {first}-{first + len(piece) - 1}/{length}"))


def _with_body(answer: Answer, status: int, body: bytes, *more: tuple[str, str]) -> Answer:
    kept = tuple(item for item in answer.headers if item[0].lower() != "content-length")
    return dataclasses.replace(answer, status=status, body=body, headers=(*kept, *more))


def refusal(status: int, reason: str, message: str = "") -> Answer:
    """An error as the service puts it."""
    error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
    body = json.dumps({"error": error}).encode()
    return Answer(status=status, body=body, headers=(("Content-Type", "application/json"),))
