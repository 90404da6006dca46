"""A metastore whose tables and partitions lie on a local disk, on HDFS and in buckets, all in one run of each job.

Rows are judged by an independent reader on copies of what lies in the stores.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hdfs_tables import mount_table
from judges import merge
from judges.tables import delta_name
from long_runs import amount
from runners import ThreadRunner
from servers.hdfs import Hdfs
from servers.metastore import Metastore
from servers.postgres import Postgres
from servers.process import free_port
from servers.s3 import S3Server

from acidlib.location import HDFS, S3, VIEWFS
from acidlib.stores.buckets.stage import BucketStage
from integration.harness import AROUND, Jobs, Ran, use_runner
from integration.hive3_site import METASTORES, OWN, Site
from integration.hive3_tables import EXCLUSIVE, MINOR, Laid
from integration.hive4_jobs import Service
from integration.hive4_model import ABORTED, CRUD, Lake, Made
from integration.hive4_proxy import Proxy
from integration.moved_places import MovedPlaces
from integration.test_hive4_rolled_back import cleaned, forgotten, granted, noted, roll_back, write_to

pytestmark = pytest.mark.live

LOW = ("--set", "hive.compactor.delta.num.threshold=1")
BOTH = ["major", "minor"]
# each kind at one of the generations, the harder one at that which knows no visibility transaction
OF_HIVE3 = pytest.mark.parametrize("kind", amount(["minor"], long=BOTH))
QUEUES = pytest.mark.parametrize("both", amount([METASTORES], long=[METASTORES, OWN]), indirect=True)
OF_HIVE4 = pytest.mark.parametrize("kind", amount(["major"], long=BOTH))


@pytest.fixture(autouse=True)
def configured(hdfs: Hdfs, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    monkeypatch.setattr(AROUND, "hadoop", s3_server.properties() | mount_table(hdfs))


@pytest.fixture
def of_hive3(
    hive3_metastore: Metastore, hdfs: Hdfs, s3_server: S3Server, tmp_path: Path, both: Site
) -> Iterator[MovedPlaces]:
    """After `both`, which drops the database in the end."""
    yield from moved(MovedPlaces(hive3_metastore, hdfs, s3_server, tmp_path / "copies"))


@pytest.fixture
def of_hive4(
    hive4_metastore: Metastore, hdfs: Hdfs, s3_server: S3Server, tmp_path: Path, lake: Lake
) -> Iterator[MovedPlaces]:
    """After `lake`, which drops the database in the end."""
    yield from moved(MovedPlaces(hive4_metastore, hdfs, s3_server, tmp_path / "copies"))


def moved(places: MovedPlaces) -> Iterator[MovedPlaces]:
    try:
        yield places
    finally:
        places.again()


# --- Hive 3.1 ---------------------------------------------------------------------------------------------------------


def rows_of_hive3(places: MovedPlaces, laid: Laid) -> tuple[Counter[str], Counter[tuple[str, ...]]]:
    return replace(laid, location=places.copy(laid.location, laid.places())).read()


@OF_HIVE3
@QUEUES
def test_one_run_for_all_stores_of_hive3(
    both: Site, of_hive3: MovedPlaces, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_runner(monkeypatch, ThreadRunner())  # all of them under way at a time
    parted, on_hdfs = both.lay("b_part"), both.lay("a_crud", name="on_hdfs")
    on_s3, buckets = both.lay("a_crud", name="on_s3"), both.lay("c_bucket")
    tables = (parted, on_hdfs, on_s3, buckets)
    _, second, third = parted.places()
    for place, store in ((second, HDFS), (third, S3), (on_hdfs.location, VIEWFS), (on_s3.location, S3)):
        of_hive3.move(place, store)
    of_hive3.move(buckets.location, S3)
    for laid in tables:
        assert rows_of_hive3(of_hive3, laid) == laid.as_hive_read_it()

    locked: list[tuple[str, int]] = []
    publish = BucketStage.publish
    named = {
        str(of_hive3.where(place)): (laid.name, None if place == laid.location else place.name)
        for laid in tables
        for place in laid.places()
    }

    one_at_a_time = threading.Lock()

    def watched(stage, *arguments, **more):
        with one_at_a_time:  # the client has one connection, and places are published at the same moment
            held = [lock for lock in both.client.locks() if lock.dbname == both.database]
        here = [lock for lock in held if (lock.tablename, lock.partname) == named[str(stage._location)]]
        locked.extend((lock.tablename, lock.type) for lock in here)
        return publish(stage, *arguments, **more)

    monkeypatch.setattr(BucketStage, "publish", watched)
    every = ("--table", f"{both.database}.*")
    if kind == "major":
        decisions = both.good("initiator", *every, *LOW).document["decisions"]
        assert {(entry["location"], entry["type"]) for entry in decisions} == {
            (str(of_hive3.where(place)), "major") for laid in tables for place in laid.places()
        }
        done = both.good("major_compact").compactions
    elif both.hives_queue:
        for laid in tables:
            for partition in sorted(laid.partitions) or [None]:
                both.client.ask(both.database, laid.name, partition, kind=MINOR)
        done = both.good("minor_compact", "--set", "acidlib.minor.as.major.bytes=0", "--verify").compactions
        assert all(entry["verification"] for entry in done)
    else:
        done = both.good("minor_compact", *every, "--set", "acidlib.minor.as.major.bytes=0").compactions
    assert {entry["state"] for entry in done} == {"ready for cleaning"}, done
    assert both.states() == ["ready for cleaning"] * 6
    by_place = {entry["location"]: entry for entry in done}
    for laid in tables:
        assert rows_of_hive3(of_hive3, laid) == laid.as_hive_read_it()
        for place in laid.places():
            entry = by_place[str(of_hive3.where(place))]
            in_bucket = of_hive3.where(place).kind == S3
            assert entry["type"] == ("major" if in_bucket else kind), entry
            assert set(entry["output_directories"]) <= set(of_hive3.names(place))
    assert (buckets.name, EXCLUSIVE) in locked
    assert not [name for name, held in locked if held == EXCLUSIVE and name != buckets.name]

    cleaned = both.clean()
    assert {entry["state"] for entry in cleaned} == {"succeeded"}, cleaned
    assert {entry["location"] for entry in cleaned} == set(by_place)
    assert both.states() == ["succeeded"] * 6
    for laid in tables:
        assert rows_of_hive3(of_hive3, laid) == laid.as_hive_read_it()
        for place in laid.places():
            entry = by_place[str(of_hive3.where(place))]
            assert of_hive3.names(place) == sorted(entry["output_directories"])
            assert set(of_hive3.hidden_names(place)) <= {"_acidlib_claim"}
    assert both.client.locks() == []


# --- Hive 4 -----------------------------------------------------------------------------------------------------------


def copied(places: MovedPlaces, made: Made) -> Made:
    """A table as it would look if all of it lay on a local disk."""
    where = places.copy(made.location, (place.location for place in made.places))
    return replace(
        made,
        location=where,
        places=tuple(replace(one, location=where / one.location.relative_to(made.location)) for one in made.places),
    )


def seen(lake: Lake, places: MovedPlaces, made: Made) -> bool:
    return lake.seen(copied(places, made)) == made.expected


@OF_HIVE4
def test_one_run_for_all_stores_of_hive4(
    lake: Lake, service: Service, proxy: Proxy, of_hive4: MovedPlaces, kind: str
) -> None:
    parted = lake.table("parted", ABORTED, partitions=["1", "2", "3"])
    on_hdfs, on_s3 = lake.table("on_hdfs"), lake.table("on_s3", CRUD)
    tables = (parted, on_hdfs, on_s3)
    for place, store in ((parted.places[1], HDFS), (parted.places[2], S3), (on_hdfs.place, VIEWFS), (on_s3.place, S3)):
        of_hive4.move(place.location, store)
    everywhere = [place.location for made in tables for place in made.places]
    for made in tables:
        assert seen(lake, of_hive4, made)

    hidden: list[str] = []

    def look() -> None:
        for made in tables:
            copy = copied(of_hive4, made)
            hidden.extend(str(of_hive4.where(one.location)) for one, here in zip(made.places, copy.places, strict=True)
                          if lake.hidden(here))  # fmt: skip
            assert lake.seen(copy) == made.expected

    for at in range(1, 6):
        proxy.before("commit_txn", look, at=at)
    every = ("--table", f"{lake.database}.*")
    if kind == "major":
        decisions = service.good("initiator", *every, *LOW).document["decisions"]
        assert {entry["location"] for entry in decisions} == {str(of_hive4.where(place)) for place in everywhere}
        assert {entry["type"] for entry in decisions} == {"major"}
        done = service.good("major_compact", "--verify", uri=proxy.uri).compactions
        assert all(entry["verification"] for entry in done)
    else:
        done = service.good("minor_compact", *every, uri=proxy.uri).compactions
    assert set(hidden) == {str(of_hive4.where(place)) for place in everywhere}
    by_place = {entry["location"]: entry for entry in done}
    for made in tables:
        assert seen(lake, of_hive4, made)
        assert lake.states(made) == ["ready for cleaning"] * len(made.places)
    for place in everywhere:
        entry = by_place[str(of_hive4.where(place))]
        assert (entry["state"], entry["type"]) == ("ready for cleaning", kind), entry
        assert len(entry["output_directories"]) == (1 if kind == "major" else 2)
        assert all("_v" in name for name in entry["output_directories"])

    cleaned = service.clean(*every)
    assert {entry["state"] for entry in cleaned} == {"succeeded"}, cleaned
    for made in tables:
        assert seen(lake, of_hive4, made)
        assert lake.states(made) == ["succeeded"] * len(made.places)
    for place in everywhere:
        assert of_hive4.names(place) == sorted(by_place[str(of_hive4.where(place))]["output_directories"])
        assert set(of_hive4.hidden_names(place)) <= {"_acidlib_claim"}


def test_after_rolled_back_transactions_in_all_stores(
    lake: Lake, service: Service, of_hive4: MovedPlaces, hive4_metastore: Metastore, postgres: Postgres
) -> None:
    """Also of a write to partitions that lie in several, noted for the table alone, and where nothing lies any more."""
    parted, dynamic = (
        lake.table("parted", ABORTED, partitions=NUMBERS[:3]),
        lake.table("dynamic", partitions=NUMBERS[:3]),
    )
    whole, bare = lake.table("whole", ABORTED), lake.table("bare", ())
    roll_back(lake, write_to(lake, dynamic, *(place.location for place in dynamic.places))[0], write_to(lake, bare)[0])
    for made in (parted, dynamic):
        of_hive4.move(made.places[1].location, HDFS)
        of_hive4.move(made.places[2].location, S3)
    of_hive4.move(whole.location, S3)
    of_hive4.move(bare.location, HDFS)
    forgetful = replace(service, jobs=Jobs(queue_url=granted(hive4_metastore, postgres)))
    found = cleaned(forgetful, parted, dynamic, whole, bare)
    assert {one["state"] for one in found.values()} == {"succeeded"}, found
    assert set(found) == {"parted.p=1", "parted.p=2", "parted.p=3", "dynamic", "whole", "bare"}
    assert [len(found[name]["removed"]) for name in ("parted.p=2", "parted.p=3", "dynamic", "whole")] == [2, 2, 3, 2]
    forgotten(lake)
    for made in (parted, dynamic, whole):
        assert noted(lake, made) == []
        assert not any(delta_name(4, 4) in of_hive4.names(place.location) for place in made.places)
        assert seen(lake, of_hive4, made)


# --- a store that is away ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Away:
    """Two locations that nobody answers for, and what is told of each."""

    hdfs: str
    bucket: str

    @property
    def told(self) -> dict[str, str]:
        """A part of the reason by location."""
        return {self.hdfs: "the name node, or a data node, cannot be reached", self.bucket: "there is no bucket"}

    def others(self) -> Away:
        """Two more, in the same stores."""
        return Away(f"{self.hdfs}-2", f"{self.bucket}-2")

    def check(self, ran: Ran, failed: list[dict[str, Any]]) -> None:
        """Each of them failed by itself, and one line says why."""
        assert ran.status == 3, ran
        reasons = {entry["location"]: entry["reason"] for entry in failed}
        assert set(reasons) == set(self.told)
        for location, told in self.told.items():
            assert told in reasons[location]
            assert location in reasons[location]
            assert "\n" not in reasons[location]


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Away:
    monkeypatch.setattr(AROUND, "hadoop", {**AROUND.hadoop, "dfs.client.failover.max.attempts": "1"})
    return Away(f"hdfs://127.0.0.1:{free_port()}/w/t", f"s3a://none{uuid.uuid4().hex}/w/t")


NUMBERS = ("1", "2", "3", "4", "5")


def failed(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["state"] == "failed"]


@QUEUES
def test_stores_that_are_away_stop_nothing_else_with_hive3(
    both: Site, of_hive3: MovedPlaces, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid = both.lay("a_crud", keys=("p",), values=[(number,) for number in NUMBERS])
    rows = laid.rows(laid.places()[0])
    good, lost = laid.places()[:3], laid.places()[3:]
    of_hive3.move(good[1], HDFS)
    of_hive3.move(good[2], S3)
    for place, uri in zip(lost, away.told, strict=True):
        of_hive3.tell(place, uri)
    decided = both("initiator", "--table", laid.full_name, *LOW)
    decisions = decided.document["decisions"]
    away.check(decided, [entry for entry in decisions if entry["queued"] is None])
    assert len(decisions) == 5
    if both.hives_queue:
        for number in (4, 5):
            both.client.ask(both.database, laid.name, f"p={number}")
        ran = both("major_compact")
    else:
        ran = both("major_compact", "--table", laid.full_name)
    away.check(ran, failed(ran.compactions))
    assert Counter(ran.states) == {"ready for cleaning": 3, "failed": 2}
    for place in good:
        assert rows_at(of_hive3, laid, place) == rows

    right = {place: str(of_hive3.where(place)) for place in good}
    away = away.others()
    for place, uri in zip(good[1:], away.told, strict=True):
        of_hive3.tell(place, uri)
    cleaned = both("cleaner", "--retention", "0s", "--table", laid.full_name)
    entries = cleaned.document["cleanings"]
    away.check(cleaned, failed(entries))
    assert [entry["location"] for entry in entries if entry["state"] == "succeeded"] == [str(good[0])]
    for place in good[1:]:
        assert len(of_hive3.names(place)) > 1
        of_hive3.tell(place, right[place])
    # a queue of our own has what failed tried again after a while only
    monkeypatch.setattr(AROUND, "clock", lambda: time.time() + 3700)
    assert [entry["state"] for entry in both.clean("--table", laid.full_name)] == ["succeeded"] * 2
    for place in good:
        assert len(of_hive3.names(place)) == 1
        assert rows_at(of_hive3, laid, place) == rows


def rows_at(places: MovedPlaces, laid: Laid, place: Path) -> list[merge.Row]:
    return laid.rows(places.copy(laid.location, [place]) / place.relative_to(laid.location))


def test_stores_that_are_away_stop_nothing_else_with_hive4(
    lake: Lake, service: Service, of_hive4: MovedPlaces, away: Away
) -> None:
    made = lake.table("scattered", partitions=NUMBERS)
    whole = replace(made, places=made.places[:3])
    good, lost = [place.location for place in whole.places], [place.location for place in made.places[3:]]
    of_hive4.move(good[1], HDFS)
    of_hive4.move(good[2], S3)
    for place, uri in zip(lost, away.told, strict=True):
        of_hive4.tell(place, uri)
    named = ("--table", made.full)
    decided = service("initiator", *named, *LOW)
    decisions = decided.document["decisions"]
    away.check(decided, [entry for entry in decisions if entry["queued"] is None])
    assert len(decisions) == 5
    for number in (4, 5):
        lake.request(made, partition=f"p={number}")
    ran = service("major_compact")
    away.check(ran, failed(ran.compactions))
    assert Counter(ran.states) == {"ready for cleaning": 3, "failed": 2}
    assert Counter(lake.states(made)) == {"ready for cleaning": 3, "failed": 2}
    assert seen(lake, of_hive4, whole)

    right = {place: str(of_hive4.where(place)) for place in good}
    away = away.others()
    for place, uri in zip(good[1:], away.told, strict=True):
        of_hive4.tell(place, uri)
    cleaned = service("cleaner", "--retention", "0s", *named)
    entries = cleaned.document["cleanings"]
    away.check(cleaned, failed(entries))
    assert [entry["location"] for entry in entries if entry["state"] == "succeeded"] == [str(good[0])]
    for place in good[1:]:
        assert len(of_hive4.names(place)) > 1
        of_hive4.tell(place, right[place])
    assert seen(lake, of_hive4, whole)
    cleaned = service("cleaner", "--retention", "0s", *named)
    assert {entry["state"] for entry in cleaned.document["cleanings"]} == {"succeeded"}, cleaned
    assert all(len(of_hive4.names(place)) == 1 for place in good)
    assert seen(lake, of_hive4, whole)
