"""Notes of uploads, beside the staging marker: no listing shows them everywhere, and while they last they cost money.

Whoever removes what a dead run has staged aborts what is noted there. A note may tell of uploads that were completed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from acidlib.storage.s3.client import Bucket
from acidlib.storage.s3.completing import abort
from acidlib.storage.s3.conditional import read_object


def write_note(bucket: Bucket, path: str, uploads: Sequence[tuple[str, str]]) -> None:
    """Notes uploads by their keys and ids."""
    data = json.dumps([list(upload) for upload in uploads]).encode()
    with bucket.raising("write", path):
        bucket.client.put_object(Bucket=bucket.name, Key=bucket.key(path), Body=data, **bucket.created)


def abort_noted(bucket: Bucket, path: str) -> None:
    """Aborts the uploads of a note, if it can be read."""
    found = read_object(bucket, path)
    if found is None:
        return
    try:
        uploads = [(str(key), str(upload)) for key, upload in json.loads(found.data)]
    except (ValueError, TypeError):
        return  # the store's own rules end what is not known any more
    for key, upload in uploads:
        abort(bucket, key, upload)
