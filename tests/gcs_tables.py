"""Tables copied to a bucket of Google Cloud Storage and back, by a client that is not the engine's."""

from __future__ import annotations

import shutil
from pathlib import Path

from servers.gcs import GcsServer

from acidlib.location import Location, parse_location


def uploaded(server: GcsServer, source: Path, name: str = "t") -> Location:
    """A copy of a directory in a new bucket; empty directories are objects, as Hadoop's connector makes them."""
    bucket = server.new_bucket()
    for path in sorted(source.rglob("*")):
        key = f"w/{name}/{path.relative_to(source).as_posix()}"
        if path.is_file():
            server.put(bucket, key, path.read_bytes())
        elif not any(path.iterdir()):
            server.put(bucket, f"{key}/", b"")
    return parse_location(f"gs://{bucket}/w/{name}")


def downloaded(server: GcsServer, source: Location, target: Path) -> Path:
    """A copy on this machine's disks of what lies at a location; what was there before goes."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    prefix = f"{source.path[1:]}/"
    for key in server.objects(source.authority, prefix):
        path = target / key.removeprefix(prefix)
        if key.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(server.get(source.authority, key))
    return target


def names(server: GcsServer, place: Location) -> list[str]:
    """The entries of what is called a directory."""
    prefix = f"{place.path[1:]}/"
    return sorted({key.removeprefix(prefix).partition("/")[0] for key in server.objects(place.authority, prefix)})
