"""What the jobs ask a metastore, counted: so much for each run, table and place, as docs/internals.md says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import acidlib
from integration.harness import ROOT, Ran
from integration.hive3_site import NOW, Site
from integration.hive4_jobs import Service
from integration.hive4_model import Lake
from integration.hive4_proxy import Proxy

pytestmark = pytest.mark.live

LOW = ("--set", "hive.compactor.delta.num.threshold=1")
PARTITIONS = (2, 3)
"""Of the two tables. For each call so many more are asked for a run, a table and a place as to tell them apart."""

Numbers = tuple[int, int, int]
"""For each run, table and place."""


def numbers(run: str = "", table: str = "", place: str = "", **more: Numbers) -> dict[str, Numbers]:
    """Calls that are asked once for each run, each table, or each place, and others."""
    once = ((run, (1, 0, 0)), (table, (0, 1, 0)), (place, (0, 0, 1)))
    return {name: each for names, each in once for name in names.split()} | more


TAKEN_4 = numbers(
    run="get_catalogs get_database_req get_table_objects_by_name_req",
    place="open_txns lock get_table_req find_next_compact2 update_compactor_state mark_compacted commit_txn",
    get_config_value=(2, 0, 0),
    get_open_txns_req=(2, 0, 1),
    get_valid_write_ids=(1, 0, 1),
)
HIVE4: dict[str, dict[str, Numbers]] = {
    "initiator": numbers(
        run="get_catalogs get_database_req get_all_tables get_table_objects_by_name_req get_valid_write_ids",
        table="fetch_partition_names_req get_partitions_by_names_req",
        place="compact2",
        get_config_value=(2, 0, 0),
        show_compact=(3, 0, 0),
        get_open_txns_req=(2, 0, 0),
    ),
    "compaction of the queue": TAKEN_4 | {"show_compact": (3, 0, 3), "get_partitions_by_names_req": (0, 1, 1)},
    "compaction by name": TAKEN_4
    | numbers(
        run="get_all_tables",
        table="fetch_partition_names_req",
        place="compact2",
        show_compact=(3, 0, 3),
        get_partitions_by_names_req=(0, 1, 1),
    ),
    "cleaner": numbers(
        run="get_catalogs get_database_req get_table_objects_by_name_req get_valid_write_ids",
        place="get_table_req mark_cleaned",
        get_config_value=(3, 0, 0),
        get_open_txns_req=(2, 0, 0),
        show_compact=(3, 0, 1),
        get_partitions_by_names_req=(0, 1, 1),
    ),
}
HIVE4["status"] = numbers(
    run=(
        "get_catalogs show_compact get_open_txns_info get_open_txns_req get_database_req get_all_tables "
        "get_table_objects_by_name_req get_valid_write_ids"
    ),
    table="fetch_partition_names_req get_partitions_by_names_req",
    get_config_value=(2, 0, 0),
)
HIVE4["snapshot"] = numbers(
    run="get_catalogs lock get_open_txns_req get_valid_write_ids",
    table="get_partitions_by_names_req",
    get_config_value=(2, 0, 0),
    get_table_req=(2, 0, 0),
    fetch_partition_names_req=(0, 2, 0),
    open_txns=(2, 0, 0),
    commit_txn=(2, 0, 0),
)
EVERY_3: dict[str, Numbers] = numbers(
    run=(
        "get_config_value get_catalogs get_database get_table_objects_by_name_req get_open_txns "
        "get_valid_write_ids lock show_locks unlock"
    ),
)
NAMED_3 = {"get_all_tables": (1, 0, 0), "get_partition_names": (0, 1, 0)}
TAKEN_3 = EVERY_3 | numbers(
    lock=(1, 0, 2),
    unlock=(1, 0, 2),
    show_locks=(1, 0, 1),
    get_table_req=(0, 0, 2),
    get_partitions_by_names=(0, 1, 2),
    get_open_txns=(1, 0, 2),
    get_valid_write_ids=(1, 0, 1),
)
HIVE3: dict[str, dict[str, Numbers]] = {
    "initiator": EVERY_3 | NAMED_3 | {"get_partitions_by_names": (0, 1, 0), "show_compact": (1, 0, 0)},
    "compaction of the queue": TAKEN_3,
    "compaction by name": TAKEN_3 | NAMED_3,
    "cleaner": EVERY_3
    | numbers(
        place="get_table_req",
        get_open_txns=(1, 0, 1),
        show_locks=(1, 0, 1),
        get_partitions_by_names=(0, 1, 1),
    ),
}
HIVE3["status"] = numbers(
    run=(
        "get_config_value get_catalogs show_compact get_open_txns_info show_locks get_open_txns "
        "get_database get_all_tables get_table_objects_by_name_req get_valid_write_ids"
    ),
    table="get_partition_names get_partitions_by_names",
)
HIVE3["snapshot"] = numbers(
    run="get_config_value get_catalogs open_txns lock get_open_txns get_valid_write_ids commit_txn",
    table="get_partitions_by_names",
    get_table_req=(2, 0, 0),
    get_partition_names=(0, 2, 0),
)
HIVES_OWN_REQUESTS: dict[str, Numbers] = {
    "compaction of the queue": (0, 0, 2),
    "compaction by name": (0, 0, 2),
    "cleaner": (0, 0, 1),
}
"""How often Hive 3.1 is asked for its own requests where the queue is not its own."""
WITH_STATISTICS: dict[str, Numbers] = {"get_open_txns": (0, 0, 1), "get_valid_write_ids": (0, 0, 1)}
"""What is asked more in a compaction where its database was named, to which statistics are written."""


def asked(proxy: Proxy) -> Counter[str]:
    """What was asked since the last time, but for the calls by which a connection begins."""
    calls, connections = Counter(proxy.calls), proxy.calls["set_ugi"]
    for name in ("set_ugi", "getVersion", "get_database_req"):
        calls[name] -= connections
    if "get_database" in calls or "get_open_txns" in calls:  # Hive 3.1 is told by another call that it has
        calls["get_valid_write_ids"] -= connections
    proxy.calls.clear()
    return +calls


def expected(table: dict[str, Numbers]) -> Counter[str]:
    tables, places = len(PARTITIONS), sum(PARTITIONS)
    return Counter({name: run + tables * each + places * place for name, (run, each, place) in table.items()})


def read(proxy: Proxy, database: str) -> dict[str, Counter[str]]:
    """What a snapshot of each table asks."""
    found = {}
    for name in ("flat", *(f"t{number}" for number in range(len(PARTITIONS)))):
        assert acidlib.connect(proxy.uri).table(f"{database}.{name}").to_arrow().num_rows
        found[name] = asked(proxy)
    return found


def of_snapshots(calls: dict[str, Numbers]) -> dict[str, Counter[str]]:
    """What is expected of `read`: each snapshot is of one table, with partitions or without."""
    flat = +Counter({name: run + place for name, (run, _, place) in calls.items()})
    return {"flat": flat} | {
        f"t{number}": +Counter({name: run + each + places * place for name, (run, each, place) in calls.items()})
        for number, places in enumerate(PARTITIONS)
    }


def require_done(ran: Ran) -> None:
    """Every place was queued, compacted or cleaned: what is counted is the whole of it."""
    document = ran.document
    if "decisions" in document:
        done = [entry["queued"] is not None for entry in document["decisions"]]
    elif "cleanings" in document:
        done = [entry["state"] == "succeeded" for entry in document["cleanings"]]
    elif "findings" in document:
        ready = [entry for entry in document["totals"]["requests"] if entry["state"] == "ready for cleaning"]
        done = [True] * ready[0]["count"]
        assert (document["totals"]["looked_at"], document["findings"]) == (sum(PARTITIONS), []), ran
    else:
        done = [state == "ready for cleaning" for state in ran.states]
    assert done == [True] * sum(PARTITIONS), ran


def values(number: int) -> list[str]:
    return [f"{value:02d}" for value in range(number)]


def test_at_hive_4(lake: Lake, service: Service, proxy: Proxy) -> None:
    def good(job: str, *arguments: str) -> Counter[str]:
        require_done(service.good(job, *arguments, uri=proxy.uri))
        return asked(proxy)

    for number, partitions in enumerate(PARTITIONS):
        lake.table(f"t{number}", partitions=values(partitions))
    every = ("--table", f"{lake.database}.t*")
    assert good("initiator", *every, *LOW) == expected(HIVE4["initiator"])
    assert good("major_compact") == expected(HIVE4["compaction of the queue"])
    assert good("status", *every) == expected(HIVE4["status"])
    assert good("cleaner", *NOW) == expected(HIVE4["cleaner"])
    made = [lake.table(f"n{number}", partitions=values(partitions)) for number, partitions in enumerate(PARTITIONS)]
    asked(proxy)
    assert good("minor_compact", "--table", f"{lake.database}.n*") == expected(HIVE4["compaction by name"])
    for one in made:
        lake.check(one)
    lake.table("flat")
    asked(proxy)
    assert read(proxy, lake.database) == of_snapshots(HIVE4["snapshot"])


def test_at_hive_3(both: Site) -> None:
    def good(job: str, *arguments: str) -> Counter[str]:
        require_done(both.jobs.good(job, "--metastore-uri", proxy.uri, *arguments))
        return asked(proxy)

    def wanted(job: str) -> Counter[str]:
        more = {"show_compact": HIVES_OWN_REQUESTS.get(job, (0, 0, 0))} if not both.hives_queue else {}
        told = WITH_STATISTICS if both.hives_queue and job.startswith("compaction") else {}
        return +(expected(more | HIVE3[job]) + expected(told))

    for number, partitions in enumerate(PARTITIONS):
        both.lay("f_abort", name=f"t{number}", keys=("p",), values=[(value,) for value in values(partitions)])
    every = ("--table", f"{both.database}.t*")
    with Proxy(both.metastore) as proxy:
        assert good("initiator", *every, *LOW) == wanted("initiator")
        assert good("major_compact") == wanted("compaction of the queue")
        assert good("status", *every) == wanted("status")
        assert good("cleaner", *NOW) == wanted("cleaner")
        for number, partitions in enumerate(PARTITIONS):
            both.lay("f_abort", name=f"n{number}", keys=("p",), values=[(value,) for value in values(partitions)])
        assert good("minor_compact", "--table", f"{both.database}.n*") == wanted("compaction by name")
        both.lay("f_abort", name="flat")
        assert read(proxy, both.database) == of_snapshots(HIVE3["snapshot"])


@pytest.mark.parametrize(("version", "found"), [("4", HIVE4), ("3.1", HIVE3)])
def test_what_is_documented(version: str, found: dict[str, dict[str, Numbers]]) -> None:
    text = Path(ROOT, "docs/internals.md").read_text()
    rows = re.findall(rf"^\| Hive {re.escape(version)}, (.*?) \| (\d+) \| (\d+) \| (\d+)[^|]* \|", text, re.MULTILINE)
    told = {job: tuple(map(int, numbers)) for job, *numbers in rows}
    assert told == {job: tuple(map(sum, zip(*calls.values(), strict=True))) for job, calls in found.items()}
