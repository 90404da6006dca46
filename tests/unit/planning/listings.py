"""Listings of a place for planning, by the names of what lies there."""

from __future__ import annotations

from located import at

from acidlib.acid.listing import ListedFile, Listing


def listing(
    *names: str,
    sizes: dict[str, int] | None = None,
    times: dict[str, float] | None = None,
    length: int = 100,
    modified: float = 0.0,
    compacted: tuple[str, ...] = (),
    directories: tuple[str, ...] = (),
) -> Listing:
    """Directories (one bucket file each) and files, by name: what has a prefix of an ACID directory is one."""
    acid = [name for name in names if name.startswith(("base_", "delta_", "delete_delta_")) and "/" not in name]
    files = tuple(
        ListedFile(
            path=f"{name}/bucket_00000" if name in acid else name,
            length=(sizes or {}).get(name, length),
            modified=(times or {}).get(name, modified),
        )
        for name in names
    )
    return Listing(
        location=at("/t"), files=files, directories=(*acid, *directories), compacted_bases=frozenset(compacted)
    )
