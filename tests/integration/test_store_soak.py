"""A table that a writer, two compaction drivers, a cleaner and two readers share for minutes, in each remote store.

What a write id did follows from its number alone, so that every reader knows which rows its list must show. Some
answers to the engine are lost: the server has done what it was asked, and the connection ends. A run may end in a way
that is documented, or fail with a sentence that names a lost answer, and in no other way. Nothing keeps the cleaner
from what a reader has listed, so that a read may fail; it may not be wrong. ACIDLIB_SOAK_SECONDS says for how long (a
minute by default).
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
from acidlib.stores.buckets import stage
from acidlib.stores.renaming.ozone_client import HTTPFS
from integration.harness import AROUND, IN_PROCESS, Jobs, probed

pytestmark = [in_a_long_run, pytest.mark.live]

SECONDS = float(os.environ.get("ACIDLIB_SOAK_SECONDS", "60"))
LOST = 0.02
LOST_ANSWER, LOST_ANSWERS = "the answer was lost by the test", "lost answers"
AHEAD = 12
"""How many write ids the writer is ahead of the last compaction at most."""
COLUMNS = "struct<a:int,s:string>"
RETRIED = ("--set", "metastore.compactor.cleaner.retry.retention.time=1s")
ROWS = 5
UNEXPECTED = "UNEXPECTED "
REMOVED = r"Cannot (read|open|list) PLACE/.*there is no such"
"""What a reader says of a file that a cleaner has removed after it was listed."""
BUCKETS = tuple(tables.bucket_property(number, 0) for number in (0, 1))
Values = list[tuple[int, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """A place, and how clients that are not the engine's write a file to it and copy it."""

    place: Location
    put: Callable[[str, bytes], None]
    copy: Callable[[Path], Path]
    settings: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    """What is said of an answer that the server here gives, and the real one does not."""


def is_aborted(write_id: int) -> bool:
    return write_id % 7 == 0


def values(write_id: int) -> Values:
    return [(write_id * 10 + number, f"of {write_id}") for number in range(ROWS)]


def deleted(write_id: int) -> list[tuple[int, int]]:
    """The rows that a write id deletes, as write ids and the numbers of their rows; none is deleted by two.

    Every second dozen deletes nothing: minor compactions of inserts alone are not done as majors.
    """
    if write_id // AHEAD % 2 == 0:
        return []
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
    """What a reader that is not the engine's finds in a new copy."""
    return rows_of(table.copy(folder), high)


def rows_of(copy: Path, high: int) -> Values:
    """What it finds in a copy."""
    found = merge.read(copy, write_ids(high), strict=True)
    return sorted((a, s.removeprefix("s:")) for *_, (a, s) in found)


def lose_answers(seed: int, counts: Counter[str]) -> None:
    """Let this process lose some answers, whichever client asks."""
    chance, answer = random.Random(seed), HTTPConnection.getresponse

    def lossy(self: HTTPConnection) -> Any:
        got = answer(self)
        if chance.random() >= LOST:
            return got
        counts[LOST_ANSWERS] += 1
        got.read()
        self.close()
        raise ConnectionResetError(LOST_ANSWER)

    HTTPConnection.getresponse = lossy


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """How the runs of an actor may end: by a state, or the class of an error, the beginnings of its reasons."""

    expected: Mapping[str, str]

    def name(self, state: str, reason: str, *, lost: int, fault: str) -> str:
        """What is counted; `lost` answers of this run explain what says so, and nothing else but a server's fault."""
        is_explained = (lost > 0 and LOST_ANSWER in reason) or bool(fault and fault in reason)
        is_expected = is_explained or re.match(self.expected.get(state, "(?!)"), reason) is not None
        if not is_expected:
            return f"{UNEXPECTED}{state}: {reason[:300]}"
        return f"{state}, explained" if is_explained else f"{state}, waits" if state == "conflict" else state


WAITS = r"Cannot (claim|look at the claim) PLACE|Cannot compact default.t: Compaction is already scheduled"
COMPACTIONS = Ends(expected={"ready for cleaning": "", "already compact": "", "conflict": WAITS, "error": WAITS})
CLEANINGS = Ends(
    expected={
        "succeeded": "",
        "conflict": WAITS,
        "error": WAITS,
        "ready for cleaning": rf"the last try failed \(({WAITS}|.*{LOST_ANSWER})",
    }
)
BEHIND = r"Cannot read PLACE: the write-id list .* may use none of its bases"
"""What is said where a cleaner has removed all that a list needs since the list was taken."""
OPENING = r"Cannot read PLACE/.*: the base is still being published"
READS = Ends(expected={"CorruptError": f"{REMOVED}|{OPENING}", "RefusedError": BEHIND})
COPIES = re.compile(r"not enough history: |.*has the data format publishing")
"""What a reader that is not the engine's says of the same."""


class Soak:
    """The processes of a run: each does its work again and again until the time is over, and writes its counts."""

    def __init__(self, table: Soaked, folder: Path) -> None:
        context = multiprocessing.get_context("fork")
        self._table = table
        self._folder = folder
        self._high = context.Value("q", 0)
        self._compacted = context.Value("q", 0)
        self._end = time.time() + SECONDS
        self._set = [word for name, text in table.settings.items() for word in ("--set", f"{name}={text}")]
        self._jobs = Jobs(queue_url=f"sqlite:///{folder}/queue.db")

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

    def end(self) -> None:
        """Compact and clean once more, with no answer lost and nobody beside."""
        self._jobs.good("major_compact", *self._write_ids(self._high.value))
        self._jobs.good("cleaner", *self._cleaned())

    def _act(self, name: str, work: Callable[[Counter[str]], None]) -> None:
        counts: Counter[str] = Counter()
        if name not in ("writer", "second reader"):
            lose_answers(len(name), counts)
        while time.time() < self._end:
            if name == "writer" or self._high.value > 0:
                work(counts)
            else:
                time.sleep(0.1)
        (self._folder / f"{name}.json").write_text(json.dumps(counts))

    def _writes(self, counts: Counter[str]) -> None:
        number = self._high.value + 1
        if number > self._compacted.value + AHEAD:  # else lists grow faster than anybody compacts
            time.sleep(0.1)
            return
        write(self._table, self._folder / "written", number)
        self._high.value = number
        counts["aborted" if is_aborted(number) else "writes"] += 1
        time.sleep(0.2)

    def _compacts(self, counts: Counter[str], driver: int) -> None:
        high, lost = self._high.value, counts[LOST_ANSWERS]
        counts["runs"] += 1
        kind = ("minor", "major")[(counts["runs"] + driver) % 2]
        ran = self._jobs(f"{kind}_compact", *self._write_ids(high))
        [state] = ran.states if ran.begun else ["error"]
        self._count(counts, COMPACTIONS, state, ran.told, lost)
        if state in ("ready for cleaning", "already compact"):
            self._compacted.value = max(self._compacted.value, high)
        if state == "ready for cleaning":
            made = ran.compactions[0]["output_directories"]
            counts["majors" if made[0].startswith("base_") else "minors"] += 1
            time.sleep(1)  # a cleaner and the other driver have their turn
        else:
            time.sleep(0.2)  # who waits for another one leaves the machine to it

    def _cleans(self, counts: Counter[str]) -> None:
        lost = counts[LOST_ANSWERS]
        ran = self._jobs("cleaner", *self._cleaned())
        ends = [(one["state"], one.get("reason") or "") for one in ran.document["cleanings"]] if ran.begun else []
        for state, reason in ends if ran.begun else [("error", ran.error["message"])]:
            self._count(counts, CLEANINGS, state, reason, lost)
        time.sleep(0.5)

    def _reads(self, counts: Counter[str]) -> None:
        high, lost = self._high.value, counts[LOST_ANSWERS]
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
            self._count(counts, READS, type(error).__name__, str(error), lost)

    def _reads_copies(self, counts: Counter[str]) -> None:
        high, folder = self._high.value, self._folder / "copy"
        try:
            copy = self._table.copy(folder)
        except Exception as error:  # what a client says of a file that goes while it copies
            counts[f"copies failed, {type(error).__name__}"] += 1
        else:
            try:
                self._judge(counts, high, rows_of(copy, high))
            except (ReaderError, AssertionError) as error:
                is_expected = isinstance(error, ReaderError) and COPIES.match(str(error)) is not None
                text = type(error).__name__ if is_expected else f"{UNEXPECTED}{type(error).__name__}: {error}"
                counts[self._alike(text)] += 1
        time.sleep(2)

    def _count(self, counts: Counter[str], ends: Ends, state: str, reason: str, lost: int) -> None:
        """How a run ended that began after so many lost answers."""
        alike, fault = self._alike(reason), self._table.fault
        counts[ends.name(state, alike, lost=counts[LOST_ANSWERS] - lost, fault=fault)] += 1

    def _judge(self, counts: Counter[str], high: int, rows: list[Any]) -> None:
        counts["reads"] += 1
        if rows != expected(high):
            counts[f"{UNEXPECTED}rows at {high}: {sorted(set(rows) ^ set(expected(high)))[:10]}, {len(rows)} rows"] += 1

    def _write_ids(self, high: int) -> tuple[str, ...]:
        return ("--location", str(self._table.place), "--write-ids", write_ids(high), *self._set)

    def _cleaned(self) -> tuple[str, ...]:
        return ("--location", str(self._table.place), "--retention", "0s", *RETRIED, *self._set)

    def _alike(self, text: str) -> str:
        """The text without what differs between places, numbers and runs."""
        named = text.replace(str(self._table.place), "PLACE").replace(self._table.place.path[1:], "PATH")
        return re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "N", named)


def in_gcs(server: GcsServer) -> Soaked:
    place = parse_location(f"gs://{server.new_bucket()}/w/t")
    return Soaked(
        place=place,
        put=lambda name, data: server.put(place.authority, f"{place.path[1:]}/{name}", data),
        copy=lambda target: gcs_tables.downloaded(server, place, target),
        fault="an object lacks 'NoneType'",  # of an object that is removed while it is listed
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


def soak(table: Soaked, folder: Path) -> None:
    soaked = Soak(table, folder)
    found = soaked.run()
    print(f"\n{table.place.kind}, {SECONDS:.0f} seconds")
    for name, counts in found.items():
        print(f"  {name}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    high = found["writer"]["writes"] + found["writer"]["aborted"]
    assert copied_rows(table, folder / "last", high) == expected(high)
    soaked.end()
    assert copied_rows(table, folder / "last", high) == expected(high)
    total = sum(found.values(), Counter())
    assert [what for what in total if what.startswith(UNEXPECTED)] == []
    for what in ("majors", "succeeded"):  # what hardly happened would show nothing
        assert total[what] >= max(2, SECONDS // 60), (what, total[what])
    for reader in ("reader", "second reader"):
        assert found[reader]["reads"] > 0, reader


def test_in_google_cloud_storage(gcs_server: GcsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AROUND, "hadoop", gcs_server.properties())
    monkeypatch.setattr(stage, "READERS_SECONDS", 5.0)  # here are readers
    soak(in_gcs(gcs_server), tmp_path)


def test_in_azure(abfs: AbfsStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AROUND, "hadoop", abfs.properties())
    soak(in_azure(abfs), tmp_path)


def test_in_ozone(ozone: Ozone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(ozone.conf_dir))
    monkeypatch.setattr(AROUND, "hadoop", ozone.configuration)
    soak(in_ozone(ozone), tmp_path)
