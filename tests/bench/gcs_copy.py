"""Copies, or lists, objects below a prefix by Google's own library, for bench.store_copy.

    STORAGE_EMULATOR_HOST=http://127.0.0.1:PORT python gcs_copy.py BUCKET SOURCE [TARGET]

Bytes go through this machine, as those of a compaction do: each object is downloaded, and uploaded from there
(google.cloud.storage.transfer_manager, with its default of eight processes). Needs google-cloud-storage alone. Each
upload is one request, for the emulator takes no second one by PUT.
"""

import sys
import tempfile

from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.storage import blob as uploading
from google.cloud.storage import transfer_manager

uploading._MAX_MULTIPART_SIZE = 1 << 40


def main(name: str, source: str, target: str = "") -> None:
    bucket = storage.Client(project="tests", credentials=AnonymousCredentials()).bucket(name)
    keys = [blob.name.removeprefix(source) for blob in bucket.list_blobs(prefix=source)]
    if not target:
        return
    with tempfile.TemporaryDirectory() as here:
        down = transfer_manager.download_many_to_path(
            bucket, keys, destination_directory=here, blob_name_prefix=source, raise_exception=True
        )
        up = transfer_manager.upload_many_from_filenames(
            bucket, keys, source_directory=here, blob_name_prefix=target, raise_exception=True
        )
    if not len(keys) == len(down) == len(up) > 0:
        raise SystemExit(f"copied {len(up)} of {len(keys)} objects")


if __name__ == "__main__":
    main(*sys.argv[1:])
