"""Metastores that mix the calls of Hive 3.1 and 4: what could harm others' requests is refused, and nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_metastore import TYPES, FakeMetastore, connected
from located import at
from thriftpy2.thrift import TApplicationException

from acidlib.acid.listing import Listing
from acidlib.acid.names import Generation, Reader
from acidlib.api.arguments import DirectoryOptions, interpretation_of
from acidlib.config.settings import Layer, default_settings
from acidlib.errors import AcidError, ConflictError, RefusedError, UsageError
from acidlib.execute.services import Services
from acidlib.metastore.options import READER, ConnectionOptions
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.requests import State as RequestState
from acidlib.model.tables import TableRef
from acidlib.places.place import Interpretation, Place, request_of, requested_place, stated_reader
from acidlib.places.selection import CleanerOptions, Selection
from acidlib.ports.hive4 import Hive4Requests
from acidlib.runs.environment import Environment
from acidlib.runs.open import open_backend, open_cleaning
from acidlib.status.doctor import State, metastore_check

FORK = "3.1.3000.7.1.9.0-387"
OLD_FORK = "3.1.3000.7.1.4.0-203"
# What a fork may lack, by when it came into Hive: find_next_compact2 in July 2021 (HIVE-25359), mark_refused in about
# March 2022 (HIVE-26026), abort_Compactions in December 2022 (HIVE-26804). Cloudera 7.1.4 is of October 2020
OF_DATES = (
    (OLD_FORK, ("find_next_compact2", "mark_refused", "abort_Compactions")),
    ("3.1.3000.2021", ("mark_refused", "abort_Compactions")),
    ("3.1.3000.2022", ("abort_Compactions",)),
)
READ_BY_3 = Reader(Generation.HIVE3)
OF_WORKERS = ("find_next_compact2", "update_compactor_state", "mark_compacted", "mark_failed", "mark_cleaned")
FAILED = TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing")
PLACE = Place(ref=TableRef("d", "t"), location=at("/t"))
READS = ("get_open_txns_req", "get_partitions_by_names_req")


class Fork(FakeMetastore):
    """A metastore with a queue of requests, with pools or without."""

    def __init__(self, *, pools: bool, version: str = FORK) -> None:
        super().__init__(version=version)
        self.pools = pools
        self.queue: list[dict[str, Any]] = []
        self.ended: list[tuple[str, int, str | None]] = []
        self.answers |= {
            "show_compact": self._show,
            "compact2": self._compact,
            "get_config_value": lambda name, default: default,
            "get_catalogs": lambda: TYPES.GetCatalogsResponse(names=["hive"]),
            "find_next_compact2": self._next,
            "mark_refused": lambda info: self._end("refused", info),
            "abort_Compactions": self._abort,
        }
        self.answers |= dict.fromkeys((*OF_WORKERS[1:], *READS), self._without_arguments)

    def lack(self, *calls: str) -> None:
        for call in calls:
            del self.answers[call]

    def _without_arguments(self, *arguments: Any) -> None:
        assert arguments[0] is None, "no test goes so far"
        raise FAILED

    def _show(self, request: Any) -> Any:
        rows = [row for row in self.queue if request.id in (None, row["id"])]
        kept = ("id", "state", "workerid", "poolName", "initiatorId")
        elements = [
            TYPES.ShowCompactResponseElement(
                dbname=row["dbname"], tablename=row["tablename"], type=2, **{key: row.get(key) for key in kept}
            )
            for row in rows
        ]
        return TYPES.ShowCompactResponse(compacts=elements)

    def _compact(self, request: Any) -> Any:
        number = len(self.queue) + len(self.ended) + 1
        pool = request.poolName if self.pools else None
        self.queue.append(
            {
                "id": number, "dbname": request.dbname, "tablename": request.tablename, "state": "initiated",
                "poolName": pool, "initiatorId": request.initiatorId, "properties": request.properties,
            }
        )  # fmt: skip
        return TYPES.CompactionResponse(id=number, state="initiated", accepted=True)

    def _next(self, request: Any) -> Any:
        if request is None:
            raise TYPES.MetaException(message="FindNextCompactRequest is null")
        for row in self.queue:
            if row["state"] == "initiated" and (not self.pools or row["poolName"] == request.poolName):
                row |= {"state": "working", "workerid": request.workerId}
                info = TYPES.CompactionInfoStruct(
                    id=row["id"], dbname=row["dbname"], tablename=row["tablename"], type=2, poolname=row["poolName"]
                )
                return TYPES.OptionalCompactionInfoStruct(ci=info)
        return TYPES.OptionalCompactionInfoStruct()

    def _end(self, state: str, info: Any) -> None:
        if info is None:
            raise FAILED
        self.queue = [row for row in self.queue if row["id"] != info.id]
        self.ended.append((state, info.id, info.errorMessage))

    def _abort(self, request: Any) -> Any:
        if request is None:
            raise FAILED
        for number in request.compactionIds:
            self.queue = [row for row in self.queue if row["id"] != number]
            self.ended.append(("aborted", number, None))
        elements = {
            number: TYPES.AbortCompactionResponseElement(compactionId=number, status="Success")
            for number in request.compactionIds
        }
        return TYPES.AbortCompactResponse(abortedcompacts=elements)

    def others_request(self) -> None:
        """A request of somebody for another table, which waits."""
        self._compact(TYPES.CompactionRequest(dbname="d", tablename="other", type=2, initiatorId="n-manual"))


@contextmanager
def backend(services: Services, server: Fork, pool: str | None = None) -> Iterator[Hive4Requests]:
    """With the reader stated, as the tables of a fork are read."""
    with connected(server, reader=READ_BY_3) as hms:
        hms.require_compactor_calls()
        yield Hive4Requests(services, hms, pool=pool, into_pool=pool)


def place(root: Path) -> Any:
    return SimpleNamespace(place=Place(ref=TableRef("d", "t"), location=at(root)))


def environment(services: Services, server: Fork, reader: Reader | None = None) -> Any:
    """What a run knows of the surroundings of its jobs."""
    options = ConnectionOptions(timeout_seconds=60, connect_timeout_seconds=60, attempts=1, reader=reader)
    return SimpleNamespace(
        metastore=(server.uri,),
        user="joe",
        host="here",
        pool=None,
        connection_options=lambda: options,
        settings=services.settings,
        is_queue_named=False,
    )


@pytest.mark.parametrize(("version", "lacking"), [*OF_DATES, (FORK, ("get_open_txns_req",)), (FORK, OF_WORKERS)])
def test_without_calls_of_a_compactor_nothing_begins(
    services: Services, version: str, lacking: tuple[str, ...]
) -> None:
    with Fork(pools=False, version=version) as server:
        server.lack(*lacking)
        where = environment(services, server, READ_BY_3)
        told = rf"^Cannot compact or clean: the metastore {server.uri}, of version {version}, mixes the calls .* it "
        told += rf"lacks {', '.join(lacking)}; --metastore-uri none may work"
        with pytest.raises(RefusedError, match=told), open_backend(where, services, Interpretation()):
            pass
        every = CleanerOptions(selection=Selection())
        with pytest.raises(RefusedError, match=told), open_cleaning(where, services, every):
            pass
        assert server.queue == []


@pytest.mark.parametrize("version", [FORK, "4.0.1.7.4.0-1", ""])
def test_nothing_begins_until_the_reader_of_a_fork_is_stated(services: Services, version: str) -> None:
    told = r"^Cannot read or write tables of the metastore .*, which is a fork's: no call tells what reads them\. The "
    told += r"setting acidlib\.reader\.hive\.version states it: 3 as in Hive 3\.1 \(ORC 1\.5, columns by name\), 4 as"
    with Fork(pools=True, version=version) as server:
        where, every = environment(services, server), CleanerOptions(selection=Selection())
        with pytest.raises(RefusedError, match=told), open_backend(where, services, Interpretation()):
            pass
        with pytest.raises(RefusedError, match=told), open_cleaning(where, services, every):
            pass
        with connected(server) as hms:
            with pytest.raises(RefusedError, match=told):
                _ = hms.reader
            check = metastore_check(hms, server.uri)
            assert (check.state, check.advice) == (State.WRONG, "see docs/metastores.md about forks")
        assert (server.queue, server.ended) == ([], [])


@pytest.mark.parametrize("reader", list(Generation), ids=str)
def test_names_and_reader_of_a_fork_are_facts_of_their_own(reader: Generation, tmp_path: Path) -> None:
    """Directories with a transaction, which are read by name or by position."""
    with Fork(pools=True) as server, connected(server, reader=Reader(reader)) as hms:
        assert (hms.calls, hms.names, hms.reader) == (Generation.HIVE4, Generation.HIVE4, reader)
        stated = Interpretation(names=hms.names, reader=hms.reader)
    place = Place(ref=TableRef("d", "t"), location=at(tmp_path), interpretation=stated)
    hive = place.hive(Listing(location=at(tmp_path), files=()))
    assert (hive.names, hive.reader) == (Generation.HIVE4, reader)
    assert place.matching(default_settings(), hive.reader).by_position is (reader is Generation.HIVE4)


@pytest.mark.parametrize(("calls", "version"), [(Generation.HIVE3, "3.0"), (Generation.HIVE4, "4.2.0")])
def test_apaches_own_are_read_as_they_call_unless_it_is_stated(calls: Generation, version: str) -> None:
    with FakeMetastore(calls, version=version) as server:
        with connected(server) as hms:
            assert (hms.calls, hms.names, hms.reader, hms.may_be_fork) == (calls, calls, calls, False)
        for stated in Generation:
            with connected(server, reader=Reader(stated)) as hms:
                assert (hms.names, hms.reader) == (calls, stated)


def test_what_is_stated_of_the_reader_counts_for_directories_too(tmp_path: Path) -> None:
    """`--metastore-uri none` is what is left beside a metastore that is refused."""
    stated, _ = default_settings().with_layer(Layer.COMMAND_LINE, {READER: "3"})
    assert stated_reader(stated) is Generation.HIVE3
    assert stated_reader(default_settings()) is None
    for layer, kind in ((Layer.COMMAND_LINE, UsageError), (Layer.TOML, RefusedError)):
        with pytest.raises(AcidError, match=r"\.reader\.hive\.version=orc from .*: it is neither 3 nor 4$") as raised:
            default_settings().with_layer(layer, {READER: "orc"})
        assert raised.type is kind
    environment = Environment(settings=stated, queue_url="sqlite://")
    assert environment.connection_options().reader is Generation.HIVE3
    said = DirectoryOptions(all_committed=True, hive_version=4)
    found = interpretation_of(environment, Selection(location=at(tmp_path)), said)
    assert (found.names, found.reader) == (Generation.HIVE4, Generation.HIVE3)
    place = replace(PLACE, interpretation=found)
    request = request_of(place.listed(Listing(location=PLACE.location, files=())), CompactionType.MAJOR, initiator="me")
    assert requested_place(request, stated_reader(stated)).interpretation.reader is Generation.HIVE3


def test_without_pools_a_named_request_is_withdrawn_and_no_other_is_taken(services: Services, tmp_path: Path) -> None:
    with Fork(pools=False) as server, backend(services, server) as queue:
        server.others_request()
        with pytest.raises(RefusedError) as refused:
            queue.submit(place(tmp_path), CompactionType.MAJOR)
        told = str(refused.value)
        assert told.startswith(f"Cannot compact d.t: the metastore {server.uri}, of version {FORK}, does not obey the ")
        assert "a run that drains the default pool may work (without --table and --pool)" in told
        assert told.endswith("request 2 is withdrawn")
        assert server.ended == [("aborted", 2, None)]
        assert [row["state"] for row in server.queue] == ["initiated"]
        assert "find_next_compact2" not in server.calls[len(OF_WORKERS) + len(READS) + 2 :]


def test_without_pools_the_default_pool_can_be_drained(services: Services) -> None:
    with Fork(pools=False) as server, backend(services, server) as queue:
        server.others_request()
        (row,) = queue.hms.show_compactions()
        taken = queue.take(row)
        assert taken is not None
        assert (taken.id, taken.ref) == (1, TableRef("d", "other"))


def test_of_a_pool_that_no_request_shows_it_is_said_that_it_may_be_none(services: Services, tmp_path: Path) -> None:
    with Fork(pools=False) as server, backend(services, server, "spark") as queue:
        server.others_request()
        (warning,) = queue.warnings()
        assert f"it is not known whether the metastore {server.uri}, of version {FORK}, has pools" in warning
        # should it hand out another's request all the same, that is given back at once
        (row,) = queue.hms.show_compactions()
        with pytest.raises(RefusedError, match=r"request 1 for d\.other, which .*, is queued again as request 2$"):
            queue.take(row)
        assert server.ended == [("refused", 1, "it was handed out to a run that did not ask for it (given back)")]
        assert [(row["state"], row["initiatorId"]) for row in server.queue] == [("initiated", "n-manual")]
    with Fork(pools=True) as server, backend(services, server, "spark") as queue:
        queue.submit(place(tmp_path), CompactionType.MAJOR)
        assert queue.warnings() == []


def test_an_initiator_puts_nothing_into_a_pool_that_is_none(services: Services, tmp_path: Path) -> None:
    with Fork(pools=False) as server, backend(services, server, "spark") as queue:
        decided: Any = SimpleNamespace(
            listed=SimpleNamespace(place=Place(ref=TableRef("d", "t"), location=at(tmp_path))),
            kind=CompactionType.MAJOR,
            figures=CompactionRequest(id=0, ref=TableRef("d", "t"), type=CompactionType.MAJOR).facts,
        )
        (error,) = queue.enqueue([decided])
        assert isinstance(error, RefusedError)
        assert "does not obey the pool spark" in str(error)
        assert (server.queue, server.ended) == ([], [("aborted", 1, None)])


def test_doctor_tells_a_fork_and_what_it_lacks() -> None:
    with Fork(pools=True) as server, connected(server, reader=READ_BY_3) as hms:
        well = metastore_check(hms, server.uri)
        told = f"Hive 4 at {server.uri}, as version {FORK} of a fork; its tables are read as in Hive 3"
        assert (well.state, well.found) == (State.OK, told)
        server.lack("mark_cleaned")
        check = metastore_check(hms, server.uri)
        assert (check.state, "it lacks mark_cleaned; " in check.found) == (State.WRONG, True)


@pytest.mark.parametrize("version", [FORK, "4.0.1"])
def test_a_metastore_that_has_all_is_used(services: Services, tmp_path: Path, version: str) -> None:
    """Apache's own is asked for none of its calls: each would be an error in its log."""
    with Fork(pools=True, version=version) as server, backend(services, server) as queue:
        assert ("mark_compacted" in server.calls) == (version == FORK)
        server.others_request()
        for number in (2, 3):
            taken = queue.submit(place(tmp_path), CompactionType.MAJOR)
            assert (taken.id, taken.state) == (number, RequestState.WORKING)
        assert server.calls.count("show_compact") == 1, "once a run is enough"
        assert [row["state"] for row in server.queue] == ["initiated", "working", "working"]


def test_what_was_handed_out_for_another_is_given_back(services: Services, tmp_path: Path) -> None:
    with Fork(pools=True) as server, backend(services, server) as queue:
        server.others_request()
        queue._obeys_pools = True
        server.pools = False
        with pytest.raises(ConflictError, match=r"request 1 for d\.other, which .*, is queued again as request 3$"):
            queue.submit(place(tmp_path), CompactionType.MAJOR)
        assert [(row["id"], row["state"]) for row in server.queue] == [(2, "initiated"), (3, "initiated")]
