"""Snapshots that cannot be read: one line of the right class that says what and why."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conformance.hive_tables import FIXTURES
from judges import merge, mutants, tables
from judges import orc_tail as o

import acidlib
from acidlib.memory import DRIVER_MEMORY
from integration.harness import tree

COLUMNS = "struct<id:int,v:string>"
Change = Callable[[Path], Any]


@pytest.fixture(autouse=True)
def without_a_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No hive-site.xml of this machine counts."""
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    monkeypatch.delenv("ACIDLIB_QUEUE_URL", raising=False)


@pytest.fixture
def crud(tmp_path: Path) -> Path:
    return merge.overlay(tmp_path / "lake" / "db.db" / "crud", FIXTURES / "hive3" / "a_crud" / "before")


def refusal(kind: type[acidlib.AcidError], read: Callable[[], Any]) -> str:
    """The one line of an error of exactly this class."""
    with pytest.raises(acidlib.AcidError) as caught:
        read()
    line = str(caught.value)
    # its class is public, or a private one below it that nothing else is below
    assert next(one for one in type(caught.value).__mro__ if one.__name__ in acidlib.__all__) is kind, line
    assert line.startswith(("Cannot ", "what is committed cannot be known"))
    assert "\n" not in line
    return line


def read(location: Path, **how: Any) -> Any:
    return acidlib.directory(location, all_committed=True).to_arrow(**how)


ASKED: list[tuple[dict[str, Any], str]] = [
    ({"columns": ["id", "nothing"]}, "nothing"),
    ({"columns": "id"}, "give a list of names"),
    ({"columns": ["id", "ID"]}, "id of db.crud twice"),
    ({"columns": ["row__id"]}, "row__id"),
    ({"where": "nothing = 1"}, "nothing"),
    ({"where": "id ="}, "id ="),
    ({"where": "id = 1 and (value = 'a'"}, "id = 1 and (value = 'a'"),
    ({"where": "select 1"}, "select 1"),
    ({"where": "-- nothing"}, "-- nothing"),
    ({"where": "id = 'one'"}, "one"),
    ({"where": "length(value) > 1"}, "length"),
    ({"where": "value > 1"}, "value > 1"),
    ({"where": "id in (select id from other)"}, "select"),
    ({"partitions": "ds"}, "is not of the form"),
]


@pytest.mark.parametrize(("how", "part"), ASKED, ids=[str(how) for how, _ in ASKED])
def test_what_is_asked_for_is_no_column_or_condition(crud: Path, how: dict[str, Any], part: str) -> None:
    before = tree(crud)
    assert part in refusal(acidlib.UsageError, lambda: read(crud, **how))
    assert tree(crud) == before


def test_write_ids_that_are_not_stated(crud: Path) -> None:
    line = refusal(acidlib.UsageError, lambda: acidlib.directory(crud).to_arrow())
    assert "committed" in line


def test_write_ids_of_another_table(crud: Path) -> None:
    table = acidlib.directory(crud, write_ids="db.other:4:9223372036854775807::")
    assert "other" in refusal(acidlib.UsageError, table.to_arrow)


def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    assert str(tmp_path / "gone") in refusal(acidlib.MissingError, lambda: read(tmp_path / "gone"))


def test_a_store_that_is_not_known() -> None:
    table = acidlib.directory("abfs://container/db.db/t", all_committed=True)
    assert "abfs" in refusal(acidlib.UsageError, table.to_arrow)


def test_no_partition_matches(tmp_path: Path) -> None:
    parts = merge.overlay(tmp_path / "db.db" / "b_part", FIXTURES / "hive3" / "b_part" / "before")
    assert "dt=1999" in refusal(acidlib.MissingError, lambda: read(parts, partitions="dt=1999"))


def test_a_metastore_that_does_not_answer() -> None:
    table = acidlib.connect("thrift://127.0.0.1:1").table("db.t")
    assert "thrift://127.0.0.1:1" in refusal(acidlib.RetryError, table.to_arrow)


def test_no_metastore_is_named() -> None:
    with pytest.raises(acidlib.UsageError, match=r"^[^\n]*metastore[^\n]*$"):
        acidlib.connect().table("db.t").to_arrow()


# --- what lies there --------------------------------------------------------------------------------------------------


def first_file(place: Path) -> Path:
    return min(place.glob("delta_*/bucket_*"))


def cut(place: Path) -> Path:
    path = first_file(place)
    path.write_bytes(path.read_bytes()[:-10])
    return path


def overwritten(place: Path) -> Path:
    """The values of a stripe."""
    path = first_file(place)
    data = path.read_bytes()
    stripe = o.read_orc(data).stripes[0]
    start, end = stripe.offset + stripe.index_length, stripe.offset + stripe.index_length + stripe.data_length
    path.write_bytes(data[:start] + b"\xff" * (end - start) + data[end:])
    return path


def no_orc(place: Path) -> Path:
    path = first_file(place)
    path.write_bytes(b"id,value\n1,a\n" * 40)
    return path


def cut_deletes(place: Path) -> Path:
    path = min(place.glob("delete_delta_*/bucket_*"))
    path.write_bytes(path.read_bytes()[:-10])
    return path


@pytest.mark.parametrize("damage", [cut, overwritten, no_orc, cut_deletes])
def test_a_damaged_file(crud: Path, damage: Callable[[Path], Path]) -> None:
    path = damage(crud)
    line = refusal(acidlib.CorruptError, lambda: read(crud, row_ids=True))
    assert str(path) in line


def test_a_file_that_is_gone_after_the_snapshot_was_opened(crud: Path) -> None:
    with acidlib.directory(crud, all_committed=True).snapshot() as snapshot:
        path = first_file(crud)
        path.unlink()
        assert str(path) in refusal(acidlib.CorruptError, snapshot.to_arrow)


def test_a_snapshot_that_was_closed(crud: Path) -> None:
    with acidlib.directory(crud, all_committed=True).snapshot() as snapshot:
        assert snapshot.to_arrow().num_rows == 4
    assert "closed" in refusal(acidlib.ConflictError, snapshot.to_arrow)


def test_a_side_file_without_a_length(tmp_path: Path) -> None:
    place = merge.overlay(tmp_path / "db.db" / "j_stream", FIXTURES / "hive3" / "j_stream" / "before")
    (path,) = place.glob("*/*_flush_length")
    path.write_bytes(b"short")
    assert path.name.removesuffix("_flush_length") in refusal(acidlib.CorruptError, lambda: read(place))


def plain_table(place: Path) -> None:
    shutil.rmtree(place)
    place.mkdir()
    (place / "000000_0").write_bytes(tables.orc_bytes(COLUMNS, [(1, "a")]))


def first_acid_version(place: Path) -> None:
    shutil.rmtree(place)
    place.mkdir()
    events = [(tables.UPDATE, 1, merge.bucket_property(0, 0), 0, 2, (1, "b"))]
    tables.write_dir(place, tables.delta_name(1, 1), COLUMNS, tables.inserts(1, [(1, "a")]))
    tables.write_dir(place, tables.delta_name(2, 2), COLUMNS, events)


@pytest.mark.parametrize("change", [plain_table, first_acid_version], ids=["plain", "first version"])
def test_what_is_no_table_of_this_kind(crud: Path, change: Change) -> None:
    change(crud)
    assert str(crud) in refusal(acidlib.RefusedError, lambda: read(crud))


def a_directory_in_a_delta(place: Path) -> None:
    below = first_file(place).with_name("below")
    below.mkdir()
    (below / "bucket_00000").write_bytes(b"x")


def a_file_without_a_number(place: Path) -> None:
    (place / "part-00000").write_bytes(b"x")
    for path in place.glob("base_*"):
        shutil.rmtree(path)


def no_acid_columns(place: Path) -> None:
    for path in place.glob("*delta_*/bucket_*"):
        path.write_bytes(tables.orc_bytes(COLUMNS, [(1, "a")]))


@pytest.mark.parametrize("change", [a_directory_in_a_delta, a_file_without_a_number, no_acid_columns, plain_table])
def test_reads_and_compactions_say_the_same_of_what_lies_there(crud: Path, change: Change) -> None:
    change(crud)
    table = acidlib.directory(crud, all_committed=True)
    with pytest.raises(acidlib.AcidError, match=r"^Cannot read ") as read_error:
        table.to_arrow()
    try:
        reason = table.plan("major").entries[0]["reason"]
    except acidlib.AcidError as error:
        reason = str(error)
    assert reason.partition(";")[0] == str(read_error.value).partition(";")[0]


@pytest.mark.parametrize("name", ["bucket_00000", "000000_0"])
def test_a_kind_that_no_file_proves_is_asked_of_the_caller(tmp_path: Path, name: str) -> None:
    location = tmp_path / "w" / "db.db" / "t"
    file = location / "delta_0000001_0000001_0000" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(tables.orc_bytes(COLUMNS, [(1, "a")]))

    kind: Any
    for kind, rows in (("insert-only", 1), (None, None)):
        for maker, table in (
            ("directory", acidlib.directory(location, all_committed=True, table_kind=kind)),
            ("warehouse", acidlib.warehouse(tmp_path / "w", all_committed=True, table_kind=kind).table("db.t")),
        ):
            if rows is not None:
                assert table.to_arrow().num_rows == rows
            else:
                assert (
                    f" of acidlib.{maker}()" in refusal(acidlib.UsageError, table.to_arrow).partition("table_kind")[2]
                )


def test_a_column_of_a_type_that_cannot_be_read(tmp_path: Path) -> None:
    """The others can."""
    place = tmp_path / "db.db" / "t"
    columns = "struct<id:int,u:uniontype<int,string>>"
    tables.write_dir(place, tables.delta_name(1, 1), columns, tables.inserts(1, [(1, 7), (2, "x")]))
    assert "u" in refusal(acidlib.RefusedError, lambda: read(place))
    assert read(place, columns=["id"]).to_pydict() == {"id": [1, 2]}


def test_a_file_whose_column_cannot_become_the_tables(crud: Path) -> None:
    """File, column and both types are named, and the other column can be read."""
    table = acidlib.directory(crud, all_committed=True, columns="id date, value string", hive_version=3)
    line = refusal(acidlib.RefusedError, table.to_arrow)
    assert all(part in line for part in (str(crud), "id", "int", "date"))
    assert table.to_arrow(columns=["value"]).num_rows == 4


def test_a_large_tail_that_states_the_columns_is_read_in_a_process_of_tasks(tmp_path: Path) -> None:
    """The program takes none of its memory, and a tail beyond that of a task is refused."""
    location = tmp_path / "t"
    tables.write_dir(location, tables.delta_name(1, 1), COLUMNS, tables.inserts(1, [(1, "one")]))
    (path,) = location.glob("delta_*/bucket_00000")
    filler = {"filler": bytes(DRIVER_MEMORY.limit // 8)}
    path.write_bytes(mutants.with_user_metadata(o.read_orc(path.read_bytes()), filler))
    for kind in (None, "full"):
        tracemalloc.start()
        try:
            with acidlib.directory(location, all_committed=True, table_kind=kind).snapshot() as snapshot:
                assert snapshot.scan.schema.names == ["id", "v"]
            assert tracemalloc.get_traced_memory()[1] < len(filler["filler"]) // 2
        finally:
            tracemalloc.stop()
    small = {"acidlib.task.memory": "1m"}
    table = acidlib.directory(location, all_committed=True, settings=small)
    line = refusal(acidlib.RefusedError, table.snapshot)
    assert f"Cannot read the tail of {path}" in line
    assert "acidlib.task.memory is 1,048,576" in line
