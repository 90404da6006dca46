"""A metastore of Hive 4 that passes for a fork's: by its version, by calls that it lacks, by what reads its tables."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from conformance.checks import statistics_problems
from judges.tables import Transaction, build

import acidlib
from acidlib.errors import RefusedError
from integration.hive4_jobs import Service
from integration.hive4_model import Lake, rows
from integration.hive4_proxy import Proxy

pytestmark = pytest.mark.live
VERSION = "3.1.3000.7.1.9.0-387"
READ_BY_3 = ("--set", "acidlib.reader.hive.version=3")


@pytest.fixture
def fork(proxy: Proxy) -> Proxy:
    """Stands before the metastore."""
    proxy.version = VERSION
    return proxy


def test_nothing_is_done_until_its_reader_is_stated(lake: Lake, service: Service, fork: Proxy) -> None:
    made = lake.table("unstated")
    number = lake.request(made)
    for job in ("initiator", "major_compact", "minor_compact", "cleaner", "status"):
        ran = service(job, uri=fork.uri)
        assert (ran.status, ran.error["kind"]) == (1, "refused"), ran
        told = f"tables of the metastore {fork.uri}, of version {VERSION}, which is a fork's: no call tells what reads "
        assert told in ran.error["message"]
        assert "The setting acidlib.reader.hive.version states it: 3 as in Hive 3.1 (ORC 1.5, " in ran.error["message"]
    assert lake.states(made) == ["initiated"]
    lake.hms.abort_compactions([number])


def test_what_is_made_for_it_has_names_of_hive_4_and_is_read_as_in_hive_3(
    lake: Lake, service: Service, fork: Proxy
) -> None:
    """Columns are found by name in files whose order differs, and statistics are such as ORC 1.5 believes."""
    made = lake.table("stated")
    (place,) = made.places
    later = Transaction(inserts=tuple((text, number) for number, text in rows(500, 3)))
    build(place.location, "struct<v:string,id:int>", (later,), first_id=4)
    made = replace(made, places=(replace(place, expected=(*place.expected, *_rows_of(4, rows(500, 3)))),))
    lake.commit(made, (later,))
    service.good("major_compact", "--table", made.full, *READ_BY_3, uri=fork.uri)
    (base,) = place.location.glob("base_*")
    assert re.fullmatch(r"base_0000004_v[0-9]{7,}", base.name)
    lake.check(made)
    for path in base.glob("bucket_*"):
        assert statistics_problems(path, 3, copied=True) == []
    service.good("cleaner", "--retention", "0s", "--table", made.full, *READ_BY_3, uri=fork.uri)
    assert lake.states(made) == ["succeeded"]
    assert [path.name for path in place.location.iterdir()] == [base.name]
    lake.check(made)


def test_a_snapshot_finds_columns_as_it_is_stated(lake: Lake, fork: Proxy) -> None:
    made = lake.table("read", (Transaction(inserts=rows(1, 2)),))
    (place,) = made.places
    later = Transaction(inserts=tuple((text, number) for number, text in rows(500, 3)))
    build(place.location, "struct<v:string,id:int>", (later,), first_id=2)
    lake.commit(made, (later,))
    with pytest.raises(RefusedError, match="which is a fork's: no call tells what reads them"):
        acidlib.connect(fork.uri).table(made.full).to_arrow()
    found = acidlib.connect(fork.uri, settings={"acidlib.reader.hive.version": "3"}).table(made.full).to_arrow()
    pairs = zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)
    assert sorted(pairs) == sorted((*rows(1, 2), *rows(500, 3)))


@pytest.mark.parametrize("lacking", ["find_next_compact2", "mark_refused", "abort_Compactions"])
def test_a_call_that_it_lacks_is_named(lake: Lake, service: Service, fork: Proxy, lacking: str) -> None:
    made = lake.table(f"lacks_{lacking.lower()}")
    number = lake.request(made)
    fork.unknown.add(lacking)
    for job in ("initiator", "major_compact", "cleaner"):
        ran = service(job, *READ_BY_3, uri=fork.uri)
        assert (ran.status, ran.error["kind"]) == (1, "refused"), ran
        assert f"in a way that is not known: it lacks {lacking}; --metastore-uri none may work" in ran.error["message"]
    assert lake.states(made) == ["initiated"]
    lake.hms.abort_compactions([number])


def _rows_of(write_id: int, inserted: tuple[tuple[int, str], ...]) -> list[tuple[int, int, int, tuple[int, str]]]:
    """With their keys, as one writer numbers them."""
    return [(write_id, 536870912, number, row) for number, row in enumerate(inserted)]
