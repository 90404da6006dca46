"""Removing at one place what a plan names, and what dead runs left there: each with its reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from acidlib.engine.services import Services
from acidlib.errors import AcidError
from acidlib.model.listing import ListedFile, Listing
from acidlib.planning.clean import Removal
from acidlib.report.decisions import RemovedPath
from acidlib.storage.removing import measure, remove_paths
from acidlib.storage.staging import find_litter


def would_go(
    services: Services, location: str, removals: Sequence[Removal], listing: Listing
) -> tuple[tuple[RemovedPath, ...], tuple[str, ...]]:
    """What `remove_named` would remove now, by the same look at each path; and what stays, with its reason."""
    removed: list[RemovedPath] = []
    stays: list[str] = []
    known = frozenset(listing.files)
    for removal in removals:
        try:
            found = measure(services.fs, location, removal.path, known)
        except AcidError as error:
            stays.append(f"{removal.path}: {error}")
            continue
        if found is not None:
            removed.append(RemovedPath(path=removal.path, bytes=found.bytes, reason=removal.reason))
    return tuple(removed), tuple(stays)


def remove_named(
    services: Services,
    location: str,
    wanted: Mapping[str, str],
    *,
    trash: bool,
    known: Collection[ListedFile] | None = None,
) -> tuple[tuple[RemovedPath, ...], tuple[str, ...]]:
    """Remove paths at a place, each with its reason, no faster than settings allow; what went, and what did not.

    known  the files that a look at the place has shown: what holds another one stays
    """
    bin_name = f"{int(services.clock())}-{services.unique()}" if trash else None
    rate = services.settings.integer("acidlib.cleaner.files.per.second")
    report = remove_paths(
        services.fs,
        location,
        tuple(wanted),
        trash=bin_name,
        known=known,
        after_each=lambda item: services.pause(item.files / rate) if rate else None,
    )
    removed = tuple(RemovedPath(path=item.path, bytes=item.bytes, reason=wanted[item.path]) for item in report.removed)
    return removed, tuple(f"{item.path}: {item.reason}" for item in report.failed)


def remove_litter(services: Services, location: str, *, token: str) -> tuple[tuple[RemovedPath, ...], tuple[str, ...]]:
    """Remove what dead runs left, under the claim of this `token`; what went, and what did not."""
    found = litter_at(services, location, token=token)
    return remove_named(services, location, {litter.path: litter.reason for litter in found}, trash=False)


def litter_at(services: Services, location: str, *, token: str | None = None) -> tuple[RemovedPath, ...]:
    """What dead runs left and may go, as `find_litter` tells it."""
    return tuple(
        RemovedPath(
            path=litter.name,
            bytes=litter.bytes,
            reason=f"left by a dead run {litter.idle_seconds / 3600:.0f} hours ago",
        )
        for litter in find_litter(services.fs, location, now=services.clock(), own_token=token)
    )
