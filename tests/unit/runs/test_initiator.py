"""What makes no run of the initiator fail, for no other run could do better."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from located import at

from acidlib.errors import AcidError, ConflictError, CorruptError, MissingError, RefusedError, RetryError, UsageError
from acidlib.execute.services import Services
from acidlib.location import parse_location
from acidlib.model.tables import Database, MetastoreTable, Storage, TableRef
from acidlib.places.place import Place, TableFacts
from acidlib.runs.initiate import is_lasting

GONE = CorruptError("Cannot list it: it is not there")


@pytest.fixture
def partition(tmp_path: Path) -> Place:
    """A partition of a table in the directory of a database."""
    table = tmp_path / "db.db" / "t"
    (table / "p=1").mkdir(parents=True)
    storage = Storage(location=f"file://{table}", columns=())
    about = MetastoreTable(
        ref=TableRef("db", "t"), kind="MANAGED_TABLE", owner=None, created=1, storage=storage, properties={}
    )
    facts = TableFacts(table=about, database=Database(name="db"))
    return Place(ref=TableRef("db", "t", "p=1"), location=at(table / "p=1"), facts=facts)


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (GONE, True),
        (RefusedError("its only base lies above the mark"), True),
        (UsageError("nothing says what is committed"), False),
        (MissingError("there is no such bucket"), False),
        (RetryError("the server does not answer"), False),
        (ConflictError("another works there"), False),
    ],
)
def test_what_another_run_may_do_better(services: Services, partition: Place, error: AcidError, lasting: bool) -> None:
    assert is_lasting(services, partition, error) is lasting


@pytest.mark.parametrize(("gone", "lasting"), [("t/p=1", True), ("t", True), (".", False)])
def test_a_directory_that_is_gone_with_the_one_above_its_table_may_be_a_mount(
    services: Services, partition: Place, tmp_path: Path, gone: str, lasting: bool
) -> None:
    shutil.rmtree(tmp_path / "db.db" / gone)
    assert is_lasting(services, partition, GONE) is lasting
    assert is_lasting(services, replace(partition, location=parse_location("s3a://b/db.db/t/p=1")), GONE)
