"""Opening what a run works on: our own queue, or a metastore of the generation it turns out to be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from acidlib.config.settings import Settings, parse_duration
from acidlib.errors import RefusedError
from acidlib.metastore.heartbeat import Heartbeater, heartbeat_options
from acidlib.metastore.hms import Hms
from acidlib.model.names import Generation
from acidlib.model.requests import CompactionRequest
from acidlib.queue.tables import Service
from acidlib.service.backend import Backend, CleanerOptions, Cleaning
from acidlib.service.environment import Environment
from acidlib.service.places import Interpretation
from acidlib.service.services import Services
from acidlib.service.surroundings.alone import StandaloneBackend, StandaloneUndoing, standalone_cleaning
from acidlib.service.surroundings.catalog import Catalog, require_no_cleaner_of_another_catalog
from acidlib.service.surroundings.hive3 import Hive3Backend, Hive3Metastore
from acidlib.service.surroundings.hive3_cleaning import Hive3Undoing, hive3_cleaning
from acidlib.service.surroundings.hive4 import POOL, Hive4Backend, Hive4Metastore
from acidlib.service.surroundings.hive4_cleaning import MIN_HISTORY, hive4_cleaning
from acidlib.service.surroundings.metastore_cleaning import about_named
from acidlib.service.undo import Undoing

NO_UNDO_IN_HIVE4 = (
    "Cannot undo a compaction with a metastore of Hive 4: because a transaction that has committed shows the result, "
    "and no call takes a commit back: readers, and every cleaner, go by it"
)


@contextmanager
def open_backend(where: Environment, services: Services, interpretation: Interpretation) -> Iterator[Backend]:
    """What the initiator and the compaction jobs work on."""
    if not where.metastore:
        with where.queue() as queue:
            yield StandaloneBackend(services, queue, interpretation)
        return
    with where.connect() as hms, _heartbeater(where, hms) as beats, where.metastore_database() as database:
        require_no_cleaner_of_another_catalog(hms)
        if hms.generation is Generation.HIVE4:
            metastore = hive4_metastore(where, services.settings, hms, beats)
            yield Hive4Backend(services, replace(metastore, database=database))
        else:
            with hive3_metastore(where, hms, beats) as of_hive3:
                yield Hive3Backend(services, replace(of_hive3, database=database))


@contextmanager
def open_cleaning(where: Environment, services: Services, options: CleanerOptions) -> Iterator[Cleaning]:
    """What the cleaner works on."""
    if not where.metastore:
        with where.queue() as queue:
            yield standalone_cleaning(services, queue, options)
        return
    with where.connect() as hms, _heartbeater(where, hms) as beats:
        require_no_cleaner_of_another_catalog(hms)
        if hms.generation is Generation.HIVE4:
            with where.metastore_database() as database:
                named = about_named(Catalog(services, hms), options, hms.show_compactions)
                yield replace(hive4_cleaning(services, hms, options, database), notes=named)
        else:
            # Hive's own cleaner waits meanwhile, where it works on the same queue
            with hive3_metastore(where, hms, beats) as metastore, metastore.queue.alone(Service.CLEANER):
                named = about_named(Catalog(services, hms), options, metastore.queue.show)
                yield replace(hive3_cleaning(services, metastore, options), notes=named)


@contextmanager
def open_undoing(where: Environment, services: Services, *, dry_run: bool, nobody_reads: bool) -> Iterator[Undoing]:
    """What undoes a compaction. RefusedError with a metastore of Hive 4.

    nobody_reads  as the caller states, where nothing else can know it
    """
    if not where.metastore:
        with where.queue() as queue:
            yield StandaloneUndoing(services, queue, nobody_reads=nobody_reads)
        return
    with where.connect() as hms, _heartbeater(where, hms) as beats:
        if hms.generation is Generation.HIVE4:
            raise RefusedError(NO_UNDO_IN_HIVE4)
        with hive3_metastore(where, hms, beats) as metastore, ExitStack() as stack:
            if not dry_run:
                # Hive's own cleaner waits meanwhile, where it works on the same queue
                stack.enter_context(metastore.queue.alone(Service.CLEANER))
            yield Hive3Undoing(services, metastore)


@contextmanager
def open_requests(where: Environment) -> Iterator[tuple[tuple[CompactionRequest, ...], Generation, Hms | None]]:
    """All requests, newest first, whose names of states they have, and the metastore where there is one."""
    with open_queued(where) as queued:
        yield queued.requests, queued.generation, queued.hms


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """All requests, newest first, whose names of states they have, and the metastore where there is one.

    unreadable  about each row that is not understood
    elsewhere   of another metastore, in a queue of our own: they are not among the requests
    own_queue   whether it is ours
    """

    requests: tuple[CompactionRequest, ...]
    generation: Generation
    hms: Hms | None = None
    unreadable: tuple[str, ...] = ()
    elsewhere: tuple[CompactionRequest, ...] = ()
    own_queue: bool = False


@contextmanager
def open_queued(where: Environment) -> Iterator[Queued]:
    """What the queue and its history have."""
    if not where.metastore:
        with where.queue() as queue:
            yield Queued(requests=queue.show(), generation=Generation.HIVE4, own_queue=True)
        return
    with where.connect() as hms:
        shown = hms.show_all_compactions()
        strange = tuple(f"request {row.id} for {'.'.join(part for part in row.ref if part)} is {row.state}, of the "
                        f"type {row.kind}" for row in shown.others)  # fmt: skip
        if hms.generation is Generation.HIVE4:
            yield Queued(requests=shown.requests, generation=hms.generation, hms=hms, unreadable=strange)
            return
        with where.queue() as queue:
            # what our queue, or what only the database of the metastore, knows of each request
            rows = queue.show()
            if queue.schema_version is not None:
                strange = tuple(f"row {row.id} of {row.table}: {row.reason}" for row in queue.unreadable())
                yield Queued(requests=rows, generation=hms.generation, hms=hms, unreadable=strange)
                return
        ours = tuple(row for row in rows if row.facts.metastore == where.metastore_name)
        others = tuple(row for row in rows if row.facts.metastore not in (None, where.metastore_name))
        yield Queued(
            requests=(*ours, *shown.requests),
            generation=hms.generation,
            hms=hms,
            unreadable=strange,
            elsewhere=others,
            own_queue=True,
        )


def hive4_metastore(where: Environment, settings: Settings, hms: Hms, beats: Heartbeater) -> Hive4Metastore:
    """A Hive 4 metastore; its pool is that of the command line, else the setting."""
    return Hive4Metastore(
        hms=hms,
        beats=beats,
        pool=where.pool or settings.text(POOL) or None,
        into_pool=where.pool,
        min_history=hms.config_value(MIN_HISTORY, "false").strip().lower() == "true",
    )


@contextmanager
def hive3_metastore(where: Environment, hms: Hms, beats: Heartbeater) -> Iterator[Hive3Metastore]:
    """A Hive 3.1 metastore, with the queue in its own database where its URL is given, else with ours."""
    with where.queue() as queue:
        yield Hive3Metastore(
            hms=hms,
            beats=beats,
            queue=queue,
            own_queue=queue.schema_version is None,
            name=where.metastore_name,
        )


def txn_timeout_seconds(hms: Hms) -> float:
    """Return after how long without a heartbeat the server ends a transaction."""
    return parse_duration(hms.config_value("metastore.txn.timeout", "300s")) / 1000


def _heartbeater(where: Environment, hms: Hms) -> Heartbeater:
    """Beats well within the server's own timeout, whatever our settings believe it to be."""
    timeout = txn_timeout_seconds(hms)
    options = heartbeat_options(where.connection_options(), timeout)
    return Heartbeater(
        lambda: where.connect_with(options),
        interval_seconds=timeout / 2,
        timeout_seconds=timeout,
        clock=_since_boot,
    )


def _since_boot() -> float:
    """Seconds that go on while the machine is suspended, as they do for the metastore that counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
