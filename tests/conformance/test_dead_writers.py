"""A writer that died leaves a file without an end, in a directory whose write id is aborted."""

from pathlib import Path

import pytest
from compaction import MAJOR, MINOR, compact_directory
from judges import merge, tables
from judges.fixtures import fixtures

from acidlib.acid.names import Generation
from acidlib.errors import CorruptError

F_ABORT = next(fixture for fixture in fixtures() if fixture.name.endswith("f_abort"))


@pytest.mark.parametrize("kind", [MAJOR, MINOR])
def test_a_truncated_file_of_an_aborted_write_id_is_in_nobodys_way(tmp_path: Path, kind: object) -> None:
    location = F_ABORT.lay(tmp_path / "t")
    before = merge.read(location, F_ABORT.write_ids, generation=3)
    for name in ("delta_0000002_0000002_0000", "delete_delta_0000003_0000003_0000"):
        broken = location / name / "bucket_00000"
        broken.write_bytes(broken.read_bytes()[:100])
    done = compact_directory(location, kind, F_ABORT.write_ids, Generation.HIVE3)
    assert merge.read(location, F_ABORT.write_ids, generation=3, strict=True) == before
    assert any(path.endswith("bucket_00000") for result in done.results for path in result.empty_files)


@pytest.mark.parametrize("kind", [MAJOR, MINOR])
def test_columns_that_only_an_aborted_write_id_knew_are_in_nobodys_way(tmp_path: Path, kind: object) -> None:
    """ALTER TABLE ADD COLUMNS, an insert that is aborted, and nothing since."""
    for write_id in (1, 2):
        tables.write_dir(
            tmp_path, tables.delta_name(write_id, write_id), "struct<a:int>", tables.inserts(write_id, [(write_id,)])
        )
    wider = tables.inserts(3, [(3, "three")])
    tables.write_dir(tmp_path, tables.delta_name(3, 3), "struct<a:int,s:string>", wider)
    write_ids = "default.t:3:9223372036854775807::3"
    before = merge.read(tmp_path, write_ids, generation=3)
    done = compact_directory(tmp_path, kind, write_ids, Generation.HIVE3)
    assert merge.read(tmp_path, write_ids, generation=3, strict=True) == before
    assert [directory.rpartition("_")[2] for directory in done.directories] == ["0000003"]
    assert [Path(path).parent.name for result in done.results for path in result.empty_files] == [
        "delta_0000003_0000003_0000"
    ]


def test_a_truncated_file_of_a_committed_write_id_stops_everything(tmp_path: Path) -> None:
    location = F_ABORT.lay(tmp_path / "t")
    broken = location / "delta_0000004_0000004_0000" / "bucket_00000"
    broken.write_bytes(broken.read_bytes()[:100])
    with pytest.raises(CorruptError, match="delta_0000004_0000004_0000/bucket_00000"):
        compact_directory(location, MAJOR, F_ABORT.write_ids, Generation.HIVE3)
