"""What runs on executors when a result is verified; see `tasks`."""

from __future__ import annotations

import time
from dataclasses import dataclass

from acidlib.model.location import Location
from acidlib.model.units import DataFile
from acidlib.stores.stores import Stores
from acidlib.verify.bucket import BucketView, Tally, buckets_of_deletes, tally_of
from acidlib.verify.orc_files import require_reader
from acidlib.verify.plain_files import PlainView, tally_of_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewTask:
    """A bucket to be read as one side sees it."""

    view: BucketView | PlainView
    stores: Stores


def view_task(task: ViewTask, attempt: str) -> Tally:
    """Counts and sums of a bucket."""
    del attempt
    files = task.stores.data(task.view.location)
    if isinstance(task.view, PlainView):
        return tally_of_plain(task.view, files, time.perf_counter)
    return tally_of(task.view, files, time.perf_counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteLook:
    """A delete file, of which it is to be known which buckets it is about."""

    stores: Stores
    location: Location
    file: DataFile


def delete_look_task(look: DeleteLook, attempt: str) -> frozenset[int]:
    """The buckets of the rows that it deletes."""
    del attempt
    return buckets_of_deletes(look.stores.data(look.location), look.location, look.file)


def reader_task(item: None, attempt: str) -> None:
    """RefusedError where executors could not verify: to be known before anything is compacted."""
    del item, attempt
    require_reader()
