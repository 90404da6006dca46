"""A server of S3 with something wrong with it."""

from __future__ import annotations

import re

from servers.door import Answer, Door, Request
from servers.s3 import S3Server


class S3Door(Door):
    """A door in front of a server of S3."""

    def __init__(self, server: S3Server) -> None:
        """Listens from now on."""
        super().__init__(server.port)
        self._server = server

    def without_conditions(self, request: Request) -> Answer | None:
        """A fault: the conditions of requests are ignored."""
        if not {"if-match", "if-none-match"} & {name.lower() for name in request.headers}:
            return None
        client = self._server.client()
        bucket, _, key = request.path[1:].partition("/")
        if request.method == "PUT":
            found = client.put_object(Bucket=bucket, Key=key, Body=request.body)
            return Answer(status=200, headers=(("ETag", found["ETag"]),))
        if request.method == "POST" and "uploadId=" in request.query:
            upload = re.sub(r".*uploadId=([^&]*).*", r"\1", request.query)
            said = (re.findall(rf"<{name}>(.*?)</{name}>", request.body.decode()) for name in ("PartNumber", "ETag"))
            parts = [{"PartNumber": int(number), "ETag": tag} for number, tag in zip(*said, strict=True)]
            client.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})
            return Answer(
                status=200, body=b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
            )
        return None


def refusal(status: int, code: str, message: str = "") -> Answer:
    """An error as S3 puts it."""
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Answer(status=status, body=body.encode(), headers=(("Content-Type", "application/xml"),))
