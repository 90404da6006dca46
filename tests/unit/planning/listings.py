"""Listings of a place for planning, by the names of what lies there."""

from __future__ import annotations

from located import at

from acidlib.model.listing import ListedFile, Listing


def listing(*names: str, sizes: dict[str, int] | None = None, times: dict[str, float] | None = None) -> Listing:
    """Directories (one bucket file each) and files of 100 bytes, by name."""
    files = []
    for name in names:
        is_directory = name.startswith(("base_", "delta_", "delete_delta_")) and "/" not in name
        path = f"{name}/bucket_00000" if is_directory else name
        files.append(ListedFile(path=path, length=(sizes or {}).get(name, 100), modified=(times or {}).get(name, 0.0)))
    return Listing(location=at("/t"), files=tuple(files))
