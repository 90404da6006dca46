"""A table that a writer, two compaction drivers, a cleaner and two readers share for minutes, in each remote store.

What a write id did follows from its number alone, so that every reader knows which rows its list must show. Some
answers to the engine are lost: the server has done what it was asked, and the connection ends. Nothing keeps the
cleaner from what a reader has listed, so that a read may fail; it may not be wrong. ACIDLIB_SOAK_SECONDS says for how
long (a minute by default).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import abfs_tables
import gcs_tables
import ozone_tables
import pytest
from judges import merge, tables
from judges.acid_dirs import ReaderError
from long_runs import in_a_long_run
from servers.abfs import AbfsStub
from servers.gcs import GcsServer
from servers.ozone import Ozone

import acidlib
from acidlib.api.caller import Caller
from acidlib.errors import AcidError
from acidlib.location import Location, parse_location
from acidlib.stores.renaming.ozone_client import HTTPFS
from integration.harness import AROUND, IN_PROCESS, Jobs, probed

pytestmark = [in_a_long_run, pytest.mark.live]

SECONDS = float(os.environ.get("ACIDLIB_SOAK_SECONDS", "60"))
LOST = 0.02
COLUMNS = "struct<a:int,s:string>"
ROWS = 5
BUCKETS = tuple(tables.bucket_property(number, 0) for number in (0, 1))
Values = list[tuple[int, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """A place, and how clients that are not the engine's write a file to it and copy it."""

    place: Location
    put: Callable[[str, bytes], None]
    copy: Callable[[Path], Path]
    settings: Mapping[str, str] = field(default_factory=dict)


def is_aborted(write_id: int) -> bool:
    return write_id % 7 == 0


def values(write_id: int) -> Values:
    return [(write_id * 10 + number, f"of {write_id}") for number in range(ROWS)]


def deleted(write_id: int) -> list[tuple[int, int]]:
    """The rows that a write id deletes, as write ids and the numbers of their rows; none is deleted by two."""
    return [(old, number) for old, number in ((write_id - 3, 1), (write_id - 20, 2)) if old > 0]


def expected(high: int) -> Values:
    """The rows of the list that ends with a write id."""
    valid = [number for number in range(1, high + 1) if not is_aborted(number)]
    gone = {pair for number in valid for pair in deleted(number)}
    return [row for one in valid for at, row in enumerate(values(one)) if (one, at) not in gone]


def write_ids(high: int) -> str:
    """The list of a reader; no write id below its end is open."""
    return f"default.t:{high}:{(1 << 63) - 1}::{','.join(map(str, filter(is_aborted, range(1, high + 1))))}"


def write(table: Soaked, folder: Path, write_id: int) -> None:
    """The directories of one transaction, inserts in two buckets and deletes; it commits afterwards."""
    place = folder / str(write_id)
    events: list[Any] = []
    for writer in range(2):
        mine = [row for at, row in enumerate(values(write_id)) if at % 2 == writer]
        events += tables.inserts(write_id, mine, writer=writer)
    tables.write_dir(place, tables.delta_name(write_id, write_id), COLUMNS, events)
    keys = [(old, BUCKETS[at % 2], at // 2) for old, at in deleted(write_id)]
    if keys:
        events = sorted(tables.deletes(write_id, keys), key=tables.event_key)
        tables.write_dir(place, tables.delta_name(write_id, write_id, delete=True), COLUMNS, events)
    for path in sorted(found for found in place.rglob("*") if found.is_file()):
        table.put(path.relative_to(place).as_posix(), path.read_bytes())


def copied_rows(table: Soaked, folder: Path, high: int) -> Values:
    """What a reader that is not the engine's finds in a copy."""
    found = merge.read(table.copy(folder), write_ids(high), strict=True)
    return sorted((a, s.removeprefix("s:")) for *_, (a, s) in found)


def lose_answers(seed: int, counts: Counter[str]) -> None:
    """Let this process lose some answers, whichever client asks."""
    chance, answer = random.Random(seed), HTTPConnection.getresponse

    def lossy(self: HTTPConnection) -> Any:
        got = answer(self)
        if chance.random() >= LOST:
            return got
        counts["lost answers"] += 1
        got.read()
        self.close()
        raise ConnectionResetError("the answer was lost")

    HTTPConnection.getresponse = lossy


def why(error: BaseException, place: Location) -> str:
    """The class of an error and what it says, alike for all places, numbers and runs."""
    return f"{type(error).__name__}: {alike(str(error), place)}"


def alike(text: str, place: Location) -> str:
    named = text.replace(str(place), "PLACE").replace(place.path[1:], "PATH")
    return re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "N", named)[:160]


class Soak:
    """The processes of a run: each does its work again and again until the time is over, and writes its counts."""

    def __init__(self, table: Soaked, folder: Path) -> None:
        self._table = table
        self._folder = folder
        self._high = multiprocessing.get_context("fork").Value("q", 0)
        self._end = time.time() + SECONDS
        self._set = [word for name, text in table.settings.items() for word in ("--set", f"{name}={text}")]

    def run(self) -> dict[str, Counter[str]]:
        context = multiprocessing.get_context("fork")
        works = {
            "writer": self._writes,
            "driver 1": lambda counts: self._compacts(counts, 1),
            "driver 2": lambda counts: self._compacts(counts, 2),
            "cleaner": self._cleans,
            "reader": self._reads,
            "second reader": self._reads_copies,
        }
        actors = [context.Process(target=self._act, args=(name, work)) for name, work in works.items()]
        for actor in actors:
            actor.start()
        try:
            for actor in actors:
                actor.join(SECONDS + 240)
        finally:
            for actor in actors:
                if actor.is_alive():
                    actor.kill()
                    actor.join()
        assert [actor.exitcode for actor in actors] == [0] * len(actors)
        return {name: Counter(json.loads((self._folder / f"{name}.json").read_text())) for name in works}

    def _act(self, name: str, work: Callable[[Counter[str]], None]) -> None:
        counts: Counter[str] = Counter()
        if name not in ("writer", "second reader"):
            lose_answers(len(name), counts)
        told = self._folder / f"{name}.json"
        while time.time() < self._end:
            work(counts)
            told.write_text(json.dumps(counts))

    def _writes(self, counts: Counter[str]) -> None:
        number = self._high.value + 1
        write(self._table, self._folder / "written", number)
        self._high.value = number
        counts["aborted" if is_aborted(number) else "writes"] += 1
        time.sleep(0.5)  # else lists grow faster than anybody compacts

    def _compacts(self, counts: Counter[str], driver: int) -> None:
        place = self._table.place
        if (high := self._high.value) == 0:
            return
        kind = ("minor", "major")[(sum(counts.values()) + driver) % 2]
        jobs = Jobs(queue_url=f"sqlite:///{self._folder}/queue.db")
        ran = jobs(f"{kind}_compact", "--location", str(place), "--write-ids", write_ids(high), *self._set)
        for state in ran.states if ran.begun else ["error"]:
            counts[f"{kind} {state}: {alike(ran.told, place)}"] += 1
        if "ready for cleaning" not in (ran.states if ran.begun else ()):
            time.sleep(0.2)  # who waits for another one leaves the machine to it

    def _cleans(self, counts: Counter[str]) -> None:
        jobs = Jobs(queue_url=f"sqlite:///{self._folder}/queue.db")
        ran = jobs("cleaner", "--location", str(self._table.place), "--retention", "0s", *self._set)
        if ran.begun:
            for one in ran.document["cleanings"]:
                counts[f"cleaning {one['state']}: {alike(one.get('reason') or '', self._table.place)}"] += 1
        else:
            counts[f"error: {alike(ran.error['message'], self._table.place)}"] += 1
        time.sleep(1)

    def _reads(self, counts: Counter[str]) -> None:
        if (high := self._high.value) == 0:
            return
        try:
            table = acidlib.directory(
                str(self._table.place),
                write_ids=write_ids(high),
                columns="a int, s string",
                settings=self._table.settings,
                caller=Caller(IN_PROCESS),
            )
            self._judge(counts, high, sorted((row["a"], row["s"]) for row in table.to_arrow().to_pylist()))
        except AcidError as error:
            counts[f"failed {why(error, self._table.place)}"] += 1

    def _reads_copies(self, counts: Counter[str]) -> None:
        if (high := self._high.value) == 0:
            return
        try:
            rows = copied_rows(self._table, self._folder / "copy", high)
        except (ReaderError, AssertionError, FileNotFoundError) as error:
            counts[f"failed {why(error, self._table.place)}"] += 1
        except Exception as error:  # what a client says of a file that goes while it copies
            counts[f"client failed {why(error, self._table.place)}"] += 1
        else:
            self._judge(counts, high, rows)
        time.sleep(2)

    def _judge(self, counts: Counter[str], high: int, rows: list[Any]) -> None:
        counts["reads"] += 1
        if rows != expected(high):
            counts["wrong"] += 1
            counts[f"wrong at {high}: {sorted(set(rows) ^ set(expected(high)))[:10]}, {len(rows)} rows"] += 1


def in_gcs(server: GcsServer) -> Soaked:
    place = parse_location(f"gs://{server.new_bucket()}/w/t")
    return Soaked(
        place=place,
        put=lambda name, data: server.put(place.authority, f"{place.path[1:]}/{name}", data),
        copy=lambda target: gcs_tables.downloaded(server, place, target),
    )


def in_azure(stub: AbfsStub) -> Soaked:
    container = stub.new_container()
    assert set(probed(container).values()) == {"holds", "not tried"}
    place = parse_location(f"{container}/w/t")
    files = abfs_tables.client(stub, place)
    files.create_directory(place.path[1:])

    def put(name: str, data: bytes) -> None:
        file = files.create_file(place.child(name).path[1:])
        file.append_data(data, 0)
        file.flush_data(len(data))

    return Soaked(place=place, put=put, copy=lambda target: abfs_tables.downloaded(stub, place, target))


def in_ozone(ozone: Ozone) -> Soaked:
    place = parse_location(f"{ozone.new_directory()}/t")
    ozone_tables.ask(ozone, "PUT", place.path, "MKDIRS")
    return Soaked(
        place=place,
        put=lambda name, data: ozone_tables.create(ozone, place.child(name).path, data),
        copy=lambda target: ozone_tables.downloaded(ozone, place, target),
        settings={HTTPFS: ozone.url},
    )


def soak(table: Soaked, folder: Path, jobs: Jobs) -> None:
    found = Soak(table, folder).run()
    print(json.dumps(found, indent=1))
    high = found["writer"]["writes"] + found["writer"]["aborted"]
    assert copied_rows(table, folder / "last", high) == expected(high)
    for reader in ("reader", "second reader"):
        assert found[reader]["reads"] > 0
        assert found[reader]["wrong"] == 0, found[reader]


def test_in_google_cloud_storage(
    gcs_server: GcsServer, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AROUND, "hadoop", gcs_server.properties())
    soak(in_gcs(gcs_server), tmp_path, jobs)


def test_in_azure(abfs: AbfsStub, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AROUND, "hadoop", abfs.properties())
    soak(in_azure(abfs), tmp_path, jobs)


def test_in_ozone(ozone: Ozone, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(ozone.conf_dir))
    monkeypatch.setattr(AROUND, "hadoop", ozone.configuration)
    soak(in_ozone(ozone), tmp_path, jobs)
