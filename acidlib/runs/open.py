"""Opening the surroundings of a run: our own queue, or a metastore, whose generation is found out."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from acidlib.acid.names import OWN_QUEUE, Calls, Generation
from acidlib.arguments import QUEUE_URL
from acidlib.errors import RefusedError
from acidlib.execute.services import Services
from acidlib.metastore.heartbeat import Heartbeater, heartbeat_options
from acidlib.metastore.hms import Hms
from acidlib.metastore.hms import connect_hms as connect_to
from acidlib.metastore.options import ConnectionOptions
from acidlib.model.requests import CompactionRequest
from acidlib.places.place import Interpretation
from acidlib.places.selection import CleanerOptions
from acidlib.ports.backend import Backend
from acidlib.ports.catalog import require_no_cleaner_of_another_catalog
from acidlib.ports.cleaning import Cleaning
from acidlib.ports.directories import DirectoryCleaning, DirectoryUndoing, directories
from acidlib.ports.hive3 import Hive3Tables, Hive3Undoing, hive3
from acidlib.ports.hive3_cleaning import Hive3Cleaning
from acidlib.ports.hive4 import MIN_HISTORY, POOL, Hive4Requests, hive4
from acidlib.ports.hive4_cleaning import Hive4Cleaning
from acidlib.ports.undoing import Undoing
from acidlib.queue.database import with_password
from acidlib.queue.metastore_database import MetastoreDatabase
from acidlib.queue.sql import Service, SqlQueue
from acidlib.runs.environment import QUEUE_IN_A_FILE, Environment
from acidlib.wording import parse_duration

NO_UNDO_IN_HIVE4 = (
    "Cannot undo a compaction with a metastore of Hive 4: a transaction that has committed shows the result, "
    "and no call takes a commit back: readers, and every cleaner, go by it"
)


@contextmanager
def open_backend(where: Environment, services: Services, interpretation: Interpretation) -> Iterator[Backend]:
    """Open the surroundings of the initiator and of compactions."""
    if not where.metastore:
        with open_queue(where) as queue:
            yield directories(services, queue, interpretation)
        return
    with open_metastore(where) as hms, heartbeater(where, hms) as beats, metastore_database(where) as database:
        require_no_cleaner_of_another_catalog(hms)
        if hms.calls is Generation.HIVE4:
            hms.require_compactor_calls()
            yield hive4(
                services,
                hms,
                beats,
                pool=where.pool or services.settings.text(POOL) or None,
                into_pool=where.pool,
                min_history=hms.config_value(MIN_HISTORY, "false").strip().lower() == "true",
                database=database,
            )
        else:
            with open_queue(where) as queue:
                name = where.metastore_name
                yield hive3(Hive3Tables(services, queue, hms, beats, name=name, database=database))


@contextmanager
def open_cleaning(where: Environment, services: Services, options: CleanerOptions) -> Iterator[Cleaning]:
    """Open the surroundings of the cleaner."""
    if not where.metastore:
        with open_queue(where) as queue:
            yield DirectoryCleaning(services, queue, options)
        return
    with open_metastore(where) as hms, heartbeater(where, hms) as beats:
        require_no_cleaner_of_another_catalog(hms)
        if hms.calls is Generation.HIVE4:
            hms.require_compactor_calls()
            with metastore_database(where) as database:
                yield Hive4Cleaning(Hive4Requests(services, hms), options, database)
        else:
            # Hive's own cleaner waits meanwhile, where it works on the same queue
            with open_queue(where) as queue, queue.alone(Service.CLEANER):
                yield Hive3Cleaning(Hive3Tables(services, queue, hms, beats, name=where.metastore_name), options)


@contextmanager
def open_undoing(where: Environment, services: Services, *, dry_run: bool) -> Iterator[Undoing]:
    """Open the surroundings of an undo; RefusedError with a metastore of Hive 4."""
    if not where.metastore:
        with open_queue(where) as queue:
            yield DirectoryUndoing(services, queue)
        return
    with open_metastore(where) as hms, heartbeater(where, hms) as beats:
        if hms.calls is Generation.HIVE4:
            raise RefusedError(NO_UNDO_IN_HIVE4)
        with open_queue(where) as queue, ExitStack() as stack:
            if not dry_run:
                # Hive's own cleaner waits meanwhile, where it works on the same queue
                stack.enter_context(queue.alone(Service.CLEANER))
            yield Hive3Undoing(Hive3Tables(services, queue, hms, beats, name=where.metastore_name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """All requests, newest first, whose queue it is by its words, and the metastore if there is one.

    unreadable  a line about each row that is not understood
    elsewhere   requests in our own queue for another metastore; they are not among `requests`
    own_queue   whether the queue is our own
    """

    requests: tuple[CompactionRequest, ...]
    calls: Calls
    hms: Hms | None = None
    unreadable: tuple[str, ...] = ()
    elsewhere: tuple[CompactionRequest, ...] = ()
    own_queue: bool = False


@contextmanager
def open_queued(where: Environment) -> Iterator[Queued]:
    """Open the queue with its history."""
    if not where.metastore:
        with open_queue(where) as queue:
            yield Queued(requests=queue.show(), calls=OWN_QUEUE, own_queue=True)
        return
    with open_metastore(where) as hms:
        shown, others = hms.show_all_compactions()
        strange = tuple(f"request {row.id} for {row.ref} is {row.state}, of the "
                        f"type {row.kind}" for row in others)  # fmt: skip
        if hms.calls is Generation.HIVE4:
            yield Queued(requests=shown, calls=Calls(hms.calls), hms=hms, unreadable=strange)
            return
        with open_queue(where) as queue:
            # our queue, or the database of the metastore, has facts that the metastore does not return
            rows = queue.show()
            if queue.schema_version is not None:
                strange = tuple(f"row {row.id} of {row.table}: {row.reason}" for row in queue.unreadable())
                yield Queued(requests=rows, calls=hms.calls, hms=hms, unreadable=strange)
                return
        ours = tuple(row for row in rows if row.facts.metastore == where.metastore_name)
        elsewhere = tuple(row for row in rows if row.facts.metastore not in (None, where.metastore_name))
        yield Queued(
            requests=(*ours, *shown),
            calls=hms.calls,
            hms=hms,
            unreadable=strange,
            elsewhere=elsewhere,
            own_queue=True,
        )


def open_queue(where: Environment) -> SqlQueue:
    """Open the queue in a SQL database.

    Raises `RefusedError` for the default file if Spark chose the machine of the driver: the next run would be on
    another machine and not find the requests of this one; and as `JavaSecrets.password` does.
    """
    if where.is_placed and not where.is_queue_named:
        raise RefusedError(QUEUE_IN_A_FILE)
    return SqlQueue(_queue_url(where), of_metastore=where.has_metastore_db)


@contextmanager
def metastore_database(where: Environment) -> Iterator[MetastoreDatabase | None]:
    """Open the database that is, or may be, the metastore's; None where none is named."""
    if not where.is_queue_named:
        yield None
        return
    with closing(MetastoreDatabase(_queue_url(where))) as database:
        yield database


def _queue_url(where: Environment) -> str:
    """Return the URL with its password, from wherever that is kept."""
    if not where.queue_url:
        raise RefusedError(
            f"Cannot choose a file for the queue: this user has no home directory; ACIDLIB_HOME or {QUEUE_URL} names "
            "another place"
        )
    return with_password(where.queue_url, where.settings.site, where.secrets.password)


def open_metastore(where: Environment, options: ConnectionOptions | None = None) -> Hms:
    """Connect to the metastore, by other options or as the settings say; RetryError if none of its URIs answers."""
    options = options or where.connection_options()
    return connect_to(where.metastore, options, user=where.user, host=where.host, shuffle=random.shuffle)


def txn_timeout_seconds(hms: Hms) -> float:
    """Return the seconds without a heartbeat after which the server ends a transaction."""
    return parse_duration(hms.config_value("metastore.txn.timeout", "300s")) / 1000


def heartbeater(where: Environment, hms: Hms) -> Heartbeater:
    """Return a heartbeater for the server's own timeout, which our settings may state wrongly."""
    timeout = txn_timeout_seconds(hms)
    options = heartbeat_options(where.connection_options(), timeout)
    return Heartbeater(
        lambda: open_metastore(where, options),
        interval_seconds=timeout / 2,
        timeout_seconds=timeout,
        # counts also while the machine is suspended, as the metastore's clock does
        clock=lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    )
