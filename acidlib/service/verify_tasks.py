"""What runs on executors when a result is verified: apart from `tasks`, so that other workers do not load it."""

from __future__ import annotations

import time

from acidlib.model.location import Location
from acidlib.model.units import DataFile
from acidlib.stores.stores import Stores
from acidlib.verify.files import require_reader
from acidlib.verify.tally import BucketView, PlainView, Tally, buckets_of_deletes, tally_of, tally_of_plain


def view_task(view: BucketView | PlainView, stores: Stores, attempt: str) -> Tally:
    """Count and sum a bucket as one side sees it."""
    del attempt
    files = stores.data(view.location)
    if isinstance(view, PlainView):
        return tally_of_plain(view, files, time.perf_counter)
    return tally_of(view, files, time.perf_counter)


def delete_look_task(stores: Stores, location: Location, file: DataFile, attempt: str) -> frozenset[int]:
    """Return the buckets of the rows that a delete file deletes."""
    del attempt
    return buckets_of_deletes(stores.data(location), location, file)


def reader_task(attempt: str) -> None:
    """Raise RefusedError where executors could not verify: to be known before anything is compacted."""
    del attempt
    require_reader()
