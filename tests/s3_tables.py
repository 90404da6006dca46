"""Tables copied to a bucket and back, by a client that is not the engine's."""

from __future__ import annotations

import shutil
from pathlib import Path

from servers.s3 import S3Server

from acidlib.location import Location, parse_location


def uploaded(server: S3Server, source: Path, name: str = "t") -> Location:
    """A copy of a directory in a new bucket; empty directories are markers, as S3A makes them."""
    client, bucket = server.client(), server.new_bucket()
    for path in sorted(source.rglob("*")):
        key = f"w/{name}/{path.relative_to(source).as_posix()}"
        if path.is_file():
            client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
        elif not any(path.iterdir()):
            client.put_object(Bucket=bucket, Key=f"{key}/", Body=b"")
    return parse_location(f"s3a://{bucket}/w/{name}")


def downloaded(server: S3Server, source: Location, target: Path) -> Path:
    """A copy on this machine's disks of what lies at a location; what was there before goes."""
    client = server.client()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    prefix = f"{source.path[1:]}/"
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=source.authority, Prefix=prefix):
        for item in page.get("Contents", ()):
            path = target / item["Key"].removeprefix(prefix)
            if item["Key"].endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(client.get_object(Bucket=source.authority, Key=item["Key"])["Body"].read())
    return target


def names(server: S3Server, place: Location) -> list[str]:
    """The entries of what is called a directory."""
    prefix = f"{place.path[1:]}/"
    found = set()
    pages = server.client().get_paginator("list_objects_v2")
    for page in pages.paginate(Bucket=place.authority, Prefix=prefix, Delimiter="/"):
        found |= {item["Key"] for item in page.get("Contents", ())}
        found |= {item["Prefix"] for item in page.get("CommonPrefixes", ())}
    return sorted(key.removeprefix(prefix).rstrip("/") for key in found - {prefix})
