"""Records of probes: written beside what was tried, and looked for where a store demands one.

A record is the JSON document of `acidlib probe`, in `_acidlib_probe.json`, which readers pass over. Where a store
demands a probe, a record above the table counts: one in it might be forged by anybody who writes there.
"""

from __future__ import annotations

import json

import msgspec

from acidlib.errors import ConflictError, CorruptError, RefusedError
from acidlib.location import Location
from acidlib.model.results import ProbeDocument, PromiseState
from acidlib.model.tables import is_partition_directory
from acidlib.stores.control_files import read_document
from acidlib.stores.store import PROBE, Store
from acidlib.stores.stores import Stores
from acidlib.version import __version__

RECORD = f"{PROBE}.json"
JOB = "probe"


def write_probe_record(store: Store, location: Location, document: ProbeDocument) -> None:
    """Write the record of a probe, in place of the one before it."""
    head = {"job": JOB, "version": __version__}
    data = json.dumps(head | msgspec.to_builtins(document), ensure_ascii=False, indent=1).encode()
    store.overwrite(str(location.child(RECORD)), data)


def last_probe(stores: Stores, location: Location, *, outside: tuple[Location, ...] = ()) -> ProbeDocument | None:
    """Return the record of the last probe of a location's store, the nearest at it or above; None without one.

    outside  tables: at or below them a record counts for nothing

    CorruptError for a damaged record.
    """
    above = location
    while True:
        if not any(table.holds(above) for table in outside):
            record = _read(stores, above)
            if record is not None and (record.kind, record.authority) == (str(location.kind), location.authority):
                return record
        if stores.is_top(above):
            return None
        above = above.parent


class _NoRecordError(ConflictError):
    """There is no record there."""


def _read(stores: Stores, location: Location) -> ProbeDocument | None:
    path = str(location.child(RECORD))
    try:
        document = read_document(stores.fs(location), path, missing=_NoRecordError)
    except _NoRecordError:
        return None
    try:
        return msgspec.convert(document, ProbeDocument)
    except msgspec.ValidationError as error:
        raise CorruptError(f"Cannot read {path}: it is not the record of a probe ({error})") from error


def unproven(store: Store, record: ProbeDocument) -> tuple[str, ...]:
    """Return the names of a store's promises that a probe has not shown, or does not know."""
    shown = {promise.name for promise in record.promises if promise.state is PromiseState.HOLDS}
    return tuple(promise.name for promise in store.promises() if promise.is_shown and promise.name not in shown)


def require_probe(stores: Stores, location: Location, *, table: Location | None = None) -> None:
    """Raise RefusedError unless the promises of a place's store are shown by a probe above its table.

    table  of the place; None: that in which the partition directories at the end of the location lie
    """
    store, own = stores.store(location), location
    while is_partition_directory(own.name):
        own = own.parent
    record = last_probe(stores, location, outside=(own,) if table is None else (own, table))
    if record is None:
        why = f"no probe of {location.authority or 'this store'} is recorded above the table"
    elif lacking := unproven(store, record):
        why = f"the probe of {record.location} has not shown {', '.join(lacking)}"
    else:
        return
    raise RefusedError(f"Cannot work in {location}: {why}; run: acidlib probe {(table or own).parent}")
