"""A second catalog beside `hive` in real metastores: what the jobs see of each, and names that both have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from judges.tables import Transaction
from servers.metastore import Metastore
from servers.settings import write_site

from acidlib.acid.names import Generation
from integration.harness import Jobs
from integration.hive4_jobs import Service, only_line
from integration.hive4_model import Lake, rows
from integration.metastore_writes import Writes

pytestmark = pytest.mark.live
SECOND = "second"
NOW = ("--retention", "0s")
SOON = ("--set", "hive.compactor.delta.num.threshold=1")


@pytest.fixture(params=list(Generation), ids=str)
def metastore(request: pytest.FixtureRequest) -> Metastore:
    found = request.getfixturevalue(f"hive{request.param.value}_metastore")
    assert isinstance(found, Metastore)
    return found


@contextmanager
def second_catalog(metastore: Metastore, directory: Path) -> Iterator[None]:
    writes = Writes(metastore.uri, metastore.generation.value)
    writes.new_catalog(SECOND, directory.as_uri())
    try:
        yield
    finally:
        writes.drop_catalog(SECOND)
        writes.close()


def test_each_catalog_is_served_alone(
    metastore: Metastore, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_site(tmp_path / "hive-site.xml", {"metastore.catalog.default": SECOND})
    service = Service(jobs=jobs, uri=metastore.uri)

    def of_second() -> None:
        monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))

    def of_hive() -> None:
        monkeypatch.delenv("HIVE_CONF_DIR", raising=False)

    with (
        second_catalog(metastore, tmp_path / "warehouse"),
        Lake(metastore, database="lake", catalog=SECOND) as lake,
        Lake(metastore, database="plain") as plain,
    ):
        made, parted = lake.table("one"), lake.table("parted", partitions=("a", "b"))
        theirs = plain.table("other")
        of_second()
        decisions = service.good("initiator", *SOON).document["decisions"]
        assert {(entry["database"], entry["table"]) for entry in decisions} == {("lake", "one"), ("lake", "parted")}
        assert set(service.good("major_compact").states) == {"ready for cleaning"}
        assert {entry["state"] for entry in service.clean()} == {"succeeded"}
        for table in (made, parted):
            lake.check(table)
            assert {name[:5] for place in table.places for name in place.directories()} == {"base_"}
        plain.check(theirs)
        # a run of the other catalog takes it neither for its own nor for dropped
        of_hive()
        ran = service("major_compact", "--table", "lake.one")
        assert "lake.one" in only_line(ran)
        if metastore.generation is Generation.HIVE4:
            lake.request(lake.add(made, [Transaction(inserts=rows(500, 9))], 4))
            (refused,) = service.good("major_compact").compactions
            assert refused["reason"] == ("Cannot compact lake.one: it is a table of the catalog second, not of hive")
        # a name that both have is refused in both
        with Lake(metastore, database="twice") as first:
            of_first = first.table("t")
            with Lake(metastore, database="twice", catalog=SECOND) as second:
                of_second_too = second.table("t")
                # the reason: three transactions of each, and to the metastore they are six of one table
                assert first.write_ids(of_first) == second.write_ids(of_second_too)
                assert first.write_ids(of_first).startswith("twice.t:6:")
                for choose, other in ((of_hive, SECOND), (of_second, "hive")):
                    choose()
                    (told,) = service.good("major_compact", "--table", "twice.t").compactions
                    assert told["state"] == "skipped"
                    assert told["reason"].startswith(
                        f"Cannot compact twice.t: the catalog {other} has a transactional table of this name"
                    )
