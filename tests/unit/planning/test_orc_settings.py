"""How files are to be written, by the properties of a table and a request."""

from __future__ import annotations

from typing import Any

import pytest

from acidlib.acid.names import Generation
from acidlib.errors import RefusedError
from acidlib.model.tables import MetastoreTable, Storage, TableRef
from acidlib.model.units import RewriteSettings
from acidlib.planning.orc_settings import rewrite_settings

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
HIVE_CODEC = "hive.exec.orc.default.compress"


def settings(table: dict[str, str], request: dict[str, str] | None = None, **more: Any) -> RewriteSettings:
    found = MetastoreTable(
        ref=TableRef("d", "t"), kind="MANAGED_TABLE", owner=None, created=1,
        storage=Storage(location="/t", columns=()), properties=table,
    )  # fmt: skip
    return rewrite_settings(found, request or {}, **{"reader": HIVE4, **more})


def stated(**values: Any) -> RewriteSettings:
    return RewriteSettings(**values, stated=frozenset(values) - {"stripe_bytes"})


def test_without_properties_nothing_is_stated() -> None:
    found = settings({"transactional": "true", "orc.encoding.strategy": "SPEED", "orc.unheard.of": "x"})
    assert found == RewriteSettings()
    assert (found.stripe_bytes, found.block_bytes, found.stride) == (64 << 20, 256 << 10, 10_000)
    assert (found.compression, found.stated) == ("ZLIB", frozenset())


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"orc.compress": "SNAPPY"}, stated(compression="SNAPPY")),
        ({"orc.compress": "none"}, stated(compression="NONE")),
        ({"orc.compress": "Zlib"}, stated(compression="ZLIB")),
        ({"orc.compress": "ZSTD"}, stated(compression="ZSTD")),
        ({"orc.row.index.stride": "1000"}, stated(stride=1000)),
        ({"orc.row.index.stride": "0"}, RewriteSettings()),
        ({"orc.row.index.stride": "-1"}, RewriteSettings()),
        ({"orc.create.index": "false"}, RewriteSettings()),
        ({"orc.create.index": "nonsense", "orc.row.index.stride": "5000"}, stated(stride=5000)),
        ({"orc.bloom.filter.columns": "id, b.c"}, RewriteSettings(bloom_columns="id, b.c")),
        ({"orc.bloom.filter.fpp": "0.001"}, RewriteSettings(bloom_fpp=0.001)),
        ({"orc.compress.size": "65536"}, stated(block_bytes=65536)),
        ({"orc.compress.size": "10"}, stated(block_bytes=1024)),
        ({"orc.compress.size": "8388608"}, stated(block_bytes=8_388_607)),
        ({"orc.buffer.size.enforce": "True"}, RewriteSettings(block_enforced=True)),
        ({"orc.buffer.size.enforce": "yes"}, RewriteSettings()),
        ({"orc.stripe.size": "1048576"}, stated(stripe_bytes=1 << 20)),
        ({"orc.stripe.size": "99999999999"}, stated(stripe_bytes=1 << 30)),
    ],
)
def test_properties_of_a_table(properties: dict[str, str], expected: RewriteSettings) -> None:
    assert settings(properties) == expected


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("orc.compress", "gzip", "only NONE, ZLIB, SNAPPY, LZ4, ZSTD can be written"),
        ("orc.compress", "LZO", "only NONE"),
        ("orc.compress", "", "only NONE"),
        ("orc.compress", " ZLIB", "only NONE"),
        ("orc.compress.size", "64k", "not a whole number"),
        ("orc.compress.size", "0", "less than 1"),
        ("orc.stripe.size", "64MB", "not a whole number"),
        ("orc.stripe.size", "", "not a whole number"),
        ("orc.stripe.size", "-5", "less than 1"),
        ("orc.stripe.size", "9" * 19, "not a whole number"),
        ("orc.stripe.size", "٣", "not a whole number"),
        ("orc.row.index.stride", "1e4", "not a whole number"),
        ("orc.row.index.stride", "--5", "not a whole number"),
        ("orc.row.index.stride", "1", "not from 1000 to 2147483647"),
        ("orc.row.index.stride", "999", "not from 1000"),
        ("orc.row.index.stride", "2147483648", "not from 1000"),
        ("orc.bloom.filter.fpp", "1", "not between 0 and 1"),
        ("orc.bloom.filter.fpp", "0", "not between 0 and 1"),
        ("orc.bloom.filter.fpp", "nan", "not between 0 and 1"),
        ("orc.bloom.filter.fpp", "5%", "not a number"),
    ],
)
def test_a_value_without_sense_is_refused(name: str, value: str, reason: str) -> None:
    for prefix, layer in (("", "table"), ("compactor.", "table"), ("tblprops.", "request"), ("compactor.", "request")):
        key = prefix + name
        given = ({key: value}, {}) if layer == "table" else ({}, {key: value})
        with pytest.raises(RefusedError, match=reason) as caught:
            settings(*given)
        assert str(caught.value).startswith(f"Cannot compact d.t: its {layer} property {key}={value} is invalid: ")


def test_hive_3_cannot_read_zstd() -> None:
    with pytest.raises(RefusedError, match=r"orc\.compress=ZSTD is invalid: only NONE, ZLIB, SNAPPY, LZ4 can be"):
        settings({"orc.compress": "ZSTD"}, reader=HIVE3)


def test_the_first_place_that_has_a_value_counts() -> None:
    places = [
        ("request", "tblprops.orc.compress", "NONE"),
        ("table", "orc.compress", "SNAPPY"),
        ("request", "compactor.orc.compress", "LZ4"),
        ("table", "compactor.orc.compress", "ZSTD"),
        ("request", f"compactor.{HIVE_CODEC}", "NONE"),
        ("table", f"compactor.{HIVE_CODEC}", "SNAPPY"),
    ]
    for first in range(len(places)):
        left = places[first:]
        table = {key: value for layer, key, value in left if layer == "table"}
        request = {key: value for layer, key, value in left if layer == "request"}
        assert settings(table, request).compression == places[first][2]


def test_names_that_mean_nothing_there() -> None:
    assert settings({HIVE_CODEC: "NONE", "tblprops.orc.compress": "NONE"}) == RewriteSettings()
    assert settings({}, {"orc.compress": "NONE", HIVE_CODEC: "NONE"}) == RewriteSettings()


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("compactor.hive.exec.orc.default.stripe.size", "4096", stated(stripe_bytes=4096)),
        ("compactor.hive.exec.orc.default.buffer.size", "4096", stated(block_bytes=4096)),
        ("compactor.hive.exec.orc.buffer.size.enforce", "true", RewriteSettings(block_enforced=True)),
        ("compactor.hive.exec.orc.default.row.index.stride", "4096", stated(stride=4096)),
        ("compactor.orc.bloom.filter.columns", "id", RewriteSettings(bloom_columns="id")),
        ("compactor.orc.default.bloom.fpp", "0.5", RewriteSettings(bloom_fpp=0.5)),
    ],
)
def test_hives_other_names(key: str, value: str, expected: RewriteSettings) -> None:
    assert settings({key: value}) == expected
    assert settings({}, {key: value}) == expected


def test_the_rest_is_as_the_run_says() -> None:
    run = RewriteSettings(copy_bytes=7, stride=77, stripe_bytes=9, compression="LZ4", stated=frozenset({"stride"}))
    found = settings({"orc.stripe.size": "5000", "orc.compress": "ZLIB"}, otherwise=run)
    assert found == RewriteSettings(
        copy_bytes=7, stride=77, stripe_bytes=5000, compression="ZLIB", stated=frozenset({"stride", "compression"})
    )
