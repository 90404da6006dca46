"""The options of the format "hive_acid"."""

from __future__ import annotations

import pytest

from acidlib.errors import UsageError
from acidlib.spark.source_options import SourceOptions, source_options


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"path": "sales.orders"}, SourceOptions(table="sales.orders")),
        (
            {
                "PATH": "sales.orders",
                "metastore": "thrift://host:9083",
                "Columns": "id, amount",
                "where": "id > 3",
                "rowids": "TRUE",
                "partitions": "ds=2026-*,ds=2025-*",
                "hive.metastore.client.socket.timeout": "30s",
            },
            SourceOptions(
                table="sales.orders",
                metastore="thrift://host:9083",
                columns=("id", "amount"),
                where="id > 3",
                row_ids=True,
                partitions=("ds=2026-*", "ds=2025-*"),
                settings={"hive.metastore.client.socket.timeout": "30s"},
            ),
        ),
        (
            {"location": "s3a://bucket/t", "allCommitted": "true", "rowIds": "no"},
            SourceOptions(location="s3a://bucket/t", all_committed=True),
        ),
        (
            {
                "path": "/data/t",
                "writeIds": "db.t:5:9223372036854775807::",
                "tableKind": "insert-only",
                "tableColumns": "id int",
                "hiveVersion": "4",
            },
            SourceOptions(
                location="/data/t",
                write_ids="db.t:5:9223372036854775807::",
                table_kind="insert-only",
                table_columns="id int",
                hive_version=4,
            ),
        ),
    ],
)
def test_the_meaning_of_options(options: dict[str, str], meant: SourceOptions) -> None:
    assert source_options(options) == meant


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "db.t", "colums": "id"}, "Cannot read with the option colums: hive_acid knows metastore, columns"),
        ({}, "Cannot load nothing: name a table as DB.NAME, or a location"),
        ({"path": "t"}, "Cannot load t: name a table as DB.NAME, or a location"),
        ({"path": "a.b.c"}, "Cannot load a.b.c: name a table"),
        ({"path": "db."}, "Cannot load db.: name a table"),
        ({"path": "db.t", "location": "/t"}, "Cannot load db.t: the option location names /t"),
        ({"path": "db.t", "allCommitted": "true"}, "option allCommitted: it is not for a table of a metastore"),
        ({"path": "/t", "metastore": "thrift://h:1"}, "option metastore: it is not for a location"),
        ({"path": "/t", "allCommitted": "maybe"}, "Cannot read with allCommitted=maybe: it is true or false"),
        ({"path": "db.t", "rowIds": "perhaps"}, "Cannot read with rowIds=perhaps: it is true or false"),
        ({"path": "/t", "tableKind": "both"}, "Cannot read with tableKind=both: it is full or insert-only"),
        ({"path": "/t", "hiveVersion": "2"}, "Cannot read with hiveVersion=2: it is 3 or 4"),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        source_options(options)
    assert message in str(raised.value)


def test_an_option_that_is_like_a_known_one_is_likely_meant() -> None:
    for name, meant in (("colums", "columns"), ("rowid", "rowIds"), ("all_committed", "allCommitted")):
        with pytest.raises(UsageError, match=rf"as hive.metastore.uris; did you mean {meant}\?$"):
            source_options({"path": "/t", name: "x"})
    with pytest.raises(UsageError, match=r"as hive.metastore.uris$"):
        source_options({"path": "/t", "xyz": "x"})
