"""Databases, tables and partitions: the requests to a metastore, and the values of its answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_metastore import TYPES, FakeMetastore, connected, raises, recorded

from acidlib.acid.write_ids import all_committed
from acidlib.errors import AcidError, ConflictError, CorruptError, RefusedError, RetryError
from acidlib.metastore.catalog import CHANGED, NotComparedError, WholeTable
from acidlib.model.tables import Database, MetastoreTable, Partition, Storage, TableRef

STORAGE = TYPES.StorageDescriptor(
    cols=[TYPES.FieldSchema(name="a", type="int")],
    location="file:/t",
    inputFormat="in",
    numBuckets=-1,
    serdeInfo=TYPES.SerDeInfo(serializationLib="serde"),
    bucketCols=[],
    sortCols=[],
)
TABLE = MetastoreTable(
    ref=TableRef("d", "t"), kind="MANAGED_TABLE", owner=None, created=1, storage=Storage(location="", columns=())
)


def table(**changes: object) -> Any:
    return TYPES.Table(
        **{"tableName": "T", "dbName": "D", "createTime": 5, "sd": STORAGE, "partitionKeys": [], "parameters": {}}
        | {"tableType": "MANAGED_TABLE", "id": 9}
        | changes
    )


def changed(answer: Any, **changes: object) -> Any:
    return type(answer)(**(vars(answer) | changes))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tableType": None}, "tableType"),
        ({"sd": None}, "sd"),
        ({"sd": changed(STORAGE, location=None)}, "sd.location"),
        ({"sd": changed(STORAGE, cols=[TYPES.FieldSchema(name="a")])}, "sd.cols.type"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_without_a_field_is_an_error(hive4: FakeMetastore, changes: dict[str, object], field: str) -> None:
    hive4.answers["get_table_req"] = lambda request: TYPES.GetTableResult(table=table(**changes))
    with connected(hive4) as found, pytest.raises(CorruptError) as caught:
        found.table(TableRef("d", "t"))
    assert str(caught.value) == f"Cannot read the answer of get_table_req: field {field} is missing"


def test_tables_are_asked_for_300_at_a_time_and_each_once(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    hive4.answers["get_table_objects_by_name_req"] = recorded(asked, TYPES.GetTablesResult(tables=[]))
    with connected(hive4) as found:
        assert found.tables("D", [f"T{number % 650}" for number in range(1300)]) == ()
    assert [len(request.tblNames) for request in asked] == [300, 300, 50]
    assert asked[0].tblNames[:2] == ["t0", "t1"]


def test_a_database_that_is_listed_but_not_given_is_no_missing_one(hive4: FakeMetastore) -> None:
    with connected(hive4) as found:
        hive4.answers["get_database_req"] = raises(TYPES.NoSuchObjectException(message="database x: null pointer"))
        hive4.answers["get_all_databases"] = lambda: ["default", "x"]
        with pytest.raises(RetryError, match="the metastore lists it but does not return it"):
            found.database("x")
        assert found.database("y") is None


def test_a_database_of_hive_3(hive3: FakeMetastore) -> None:
    asked: list[Any] = []
    hive3.answers["get_database"] = recorded(asked, TYPES.Database(name="D", parameters={"a": "b"}))
    hive3.answers["get_all_databases"] = lambda: ["default"]
    with connected(hive3) as found:
        assert found.database("D") == Database(name="d", properties={"a": "b"})
        assert asked == ["d"]
        hive3.answers["get_database"] = lambda name: TYPES.Database(name=name)
        with pytest.raises(CorruptError, match=r"of get_database: field parameters is missing$"):
            found.database("d")
        hive3.answers["get_database"] = raises(TYPES.NoSuchObjectException(message="no database d"))
        assert found.database("d") is None


def test_partitions_that_cannot_be_listed_are_not_taken_for_none(hive3: FakeMetastore) -> None:
    hive3.answers["get_partition_names"] = raises(TYPES.NoSuchObjectException(message="a null pointer"))
    hive3.answers["get_table_req"] = lambda request: TYPES.GetTableResult(table=table())
    with connected(hive3) as found:
        with pytest.raises(RefusedError, match=r"^Cannot list the partitions of d\.t: a null pointer$"):
            found.partition_names(TableRef("d", "t"))
        hive3.answers["get_table_req"] = raises(TYPES.NoSuchObjectException(message="no table"))
        with pytest.raises(RefusedError, match=r"^Cannot list the partitions of d\.t: there is no such table$"):
            found.partition_names(TableRef("d", "t"))


def test_partition_names_of_a_hive_4_without_the_newer_call(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    hive4.answers["get_partition_names"] = recorded(asked, ["p=1"])
    with connected(hive4) as found:
        assert found.partition_names(TableRef("D", "T")) == ("p=1",)
        assert asked == [("d", "t", -1)]
        hive4.answers["fetch_partition_names_req"] = lambda request: ["p=2"]
        assert found.partition_names(TableRef("D", "T")) == ("p=2",)


def test_partitions_are_matched_by_their_values(hive4: FakeMetastore) -> None:
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request.names)
        values = {"p=A%2f": "A/", "p=A%2F": "A/", "p=b": "b", "p=": "__HIVE_DEFAULT_PARTITION__"}
        found = [
            TYPES.Partition(values=[values[name]], createTime=1, sd=STORAGE, parameters={"name": name})
            for name in request.names
        ]
        return TYPES.GetPartitionsByNamesResult(partitions=found[::-1])

    hive4.answers["get_partitions_by_names_req"] = answer
    with connected(hive4) as found:
        # two names of the same values are requested separately
        read = found.partitions(TABLE, ["p=A%2f", "p=b", "p=A%2F"])
        assert {name: partition.properties["name"] for name, partition in read.items()} == {
            name: name for name in ("p=A%2f", "p=b", "p=A%2F")
        }
        assert isinstance(read["p=b"], Partition)
        assert asked == [["p=A%2f"], ["p=b"], ["p=A%2F"]]
        assert list(found.partitions(TABLE, ["p=b", "p="])) == ["p=", "p=b"]
        with pytest.raises(CorruptError, match="partition name 'nonsense'"):
            found.partitions(TABLE, ["nonsense"])


def test_partitions_are_asked_for_500_at_a_time(hive4: FakeMetastore) -> None:
    asked: list[Any] = []
    hive4.answers["get_partitions_by_names_req"] = recorded(asked, TYPES.GetPartitionsByNamesResult(partitions=[]))
    with connected(hive4) as found:
        assert found.partitions(TABLE, [f"p={number}" for number in range(1100)]) == {}
    assert [len(request.names) for request in asked] == [500, 500, 100]


def test_an_empty_value_is_that_of_the_default_partition(hive4: FakeMetastore) -> None:
    """As a metastore has it when somebody adds a partition of that value, whose name Hive makes."""
    empty = TYPES.Partition(values=[""], createTime=1, sd=STORAGE, parameters={})
    hive4.answers["get_partitions_by_names_req"] = lambda _: TYPES.GetPartitionsByNamesResult(partitions=[empty])
    name = "p=__HIVE_DEFAULT_PARTITION__"
    with connected(hive4) as found:
        assert list(found.partitions(TABLE, [name])) == [name]


def test_a_partition_that_was_not_asked_for_is_an_error(hive4: FakeMetastore) -> None:
    other = TYPES.Partition(values=["other"], createTime=1, sd=STORAGE, parameters={})
    hive4.answers["get_partitions_by_names_req"] = lambda _: TYPES.GetPartitionsByNamesResult(partitions=[other])
    with (
        connected(hive4) as found,
        pytest.raises(CorruptError, match=r"a partition of d\.t that was not requested.*other"),
    ):
        found.partitions(TABLE, ["p=1"])


def test_names_that_another_catalog_has_too(hive4: FakeMetastore) -> None:
    acid = {"transactional": "true"}
    asked: list[Any] = []
    with connected(hive4) as found:
        # a metastore without the call has no catalogs
        assert found.of_other_catalogs("d", ["t"]) == {}
    catalogs: list[Any] = []
    hive4.answers["get_catalogs"] = recorded(catalogs, TYPES.GetCatalogsResponse(names=["hive", "Spark"]))
    tables = [table(tableName="a", parameters=acid), table(tableName="b")]
    hive4.answers["get_table_objects_by_name_req"] = recorded(asked, TYPES.GetTablesResult(tables=tables))
    with connected(hive4) as found:
        assert found.of_other_catalogs("D", ["A", "b", "c"]) == {"a": "spark"}
        found.of_other_catalogs("e", ["a"])
    assert [(one.catName, one.dbName, one.tblNames) for one in asked] == [
        ("spark", "d", ["a", "b", "c"]),
        ("spark", "e", ["a"]),
    ]
    assert len(catalogs) == 1
    hive4.answers["get_table_objects_by_name_req"] = raises(TYPES.UnknownDBException(message="no"))
    with connected(hive4) as found:
        assert found.of_other_catalogs("d", ["a"]) == {}


SAID = "JDODataStoreException: Error executing SQL query "
SAID += '"update "TABLE_PARAMS" set "PARAM_VALUE"=? where "TBL_ID"=? and "PARAM_KEY"=? and "PARAM_VALUE"=?".'


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("The table has been modified. The parameter value for key 'x' is '2'. The expected was '1'", ConflictError),
        ("The table has been modified. The parameter value for key 'x' is different", ConflictError),
        # of 4.0.1 on Derby, with its SQL and without
        (SAID, NotComparedError),
        ("Cannot update parameter with JDO, make sure direct SQL is enabled", NotComparedError),
        ("Unable to select from transaction database", RetryError),
    ],
)
def test_only_a_change_by_others_is_a_conflict(hive4: FakeMetastore, said: str, kind: type[AcidError]) -> None:
    hive4.answers["alter_table_req"] = raises(TYPES.MetaException(message=said))
    whole = WholeTable(table=replace(TABLE, properties={CHANGED: "1"}), write_id=0, row=table())
    with connected(hive4) as found, pytest.raises(kind) as raised:
        found.change_properties(whole, {CHANGED: "2"}, all_committed("d.t", 0))
    assert type(raised.value) is kind
    assert said[:30] in str(raised.value)
