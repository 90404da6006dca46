"""The judges that are Hive's own readers give what the servers of the same release answered about the fixtures."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from judges import merge, tables
from judges.fixtures import Fixture, fixtures
from judges.hive_reader import JudgeError, hive_reader

from acidlib.stores.listing import UNFINISHED_FORMAT

pytestmark = pytest.mark.live
FAULTY = ("hive3/m_multiwriter", "after_minor")
LAYERS = [(fixture, layer) for fixture in fixtures() for layer in ("", *fixture.layers)]
LAYERS = [(fixture, layer) for fixture, layer in LAYERS if (fixture.name, layer) != FAULTY]


@pytest.mark.pairs
@pytest.mark.parametrize("vectorized", [False, True], ids=["rows", "batches"])
@pytest.mark.parametrize(("fixture", "layer"), LAYERS, ids=[f"{f.name}-{layer}" for f, layer in LAYERS])
def test_hives_reader_gives_what_hive_returned(fixture: Fixture, layer: str, vectorized: bool, tmp_path: Path) -> None:
    location = fixture.lay(tmp_path / "table", layer)
    texts, keys = fixture.read_by_hive(location, hive_reader(fixture.generation), vectorized=vectorized)
    assert texts == fixture.hive_rows()
    assert keys == (fixture.hive_keys(layer) or keys)


def test_hive_3_cannot_read_its_own_faulty_minor(tmp_path: Path) -> None:
    fixture = next(fixture for fixture in fixtures() if fixture.name == FAULTY[0])
    location = fixture.lay(tmp_path / "table", FAULTY[1])
    with pytest.raises(JudgeError, match="Two readers"):
        fixture.read_by_hive(location, hive_reader(3), vectorized=False)


@pytest.mark.parametrize("files", [0, 1])
@pytest.mark.parametrize("vectorized", [False, True], ids=["rows", "batches"])
@pytest.mark.parametrize("generation", [3, 4])
def test_hive_fails_at_a_base_that_is_being_published(
    generation: int, vectorized: bool, files: int, tmp_path: Path
) -> None:
    """As a bucket shows it meanwhile: marked, and then with some of its files; never wrong rows."""
    fixture = next(fixture for fixture in fixtures() if fixture.name == "hive3/c_bucket")
    location = fixture.lay(tmp_path / "table", "after_major")
    (base,) = location.glob("base_*")
    assert fixture.read_by_hive(location, hive_reader(generation), vectorized=vectorized)[0] == fixture.hive_rows()
    (base / "_metadata_acid").write_text(f'{{"thisFileVersion": "0", "dataFormat": "{UNFINISHED_FORMAT}", "run": "r"}}')
    for file in sorted(base.glob("bucket_*"))[files:]:
        file.unlink()
    with pytest.raises(JudgeError, match=f"(?i){UNFINISHED_FORMAT}"):
        fixture.read_by_hive(location, hive_reader(generation), vectorized=vectorized)


@pytest.mark.parametrize("vectorized", [False, True], ids=["rows", "batches"])
@pytest.mark.parametrize("generation", [3, 4])
def test_hive_reads_a_base_whose_markers_are_to_come(generation: int, vectorized: bool, tmp_path: Path) -> None:
    """As a bucket shows a base of one file: with its rows."""
    fixture = next(fixture for fixture in fixtures() if fixture.name == "hive3/a_crud")
    location = fixture.lay(tmp_path / "table", "after_major")
    (base,) = location.glob("base_*")
    for marker in base.glob("_*"):
        marker.unlink()
    assert fixture.read_by_hive(location, hive_reader(generation), vectorized=vectorized)[0] == fixture.hive_rows()


@pytest.fixture
def longer(tmp_path: Path) -> Path:
    """A streaming delta of four rows with bytes behind the length that its side file notes."""
    data = tables.acid_bytes("struct<a:int>", [*tables.inserts(1, [(1,), (2,)]), *tables.inserts(2, [(3,), (4,)])])
    directory = tmp_path / "t" / tables.delta_name(1, 3, None)
    directory.mkdir(parents=True)
    (directory / "_orc_acid_version").write_bytes(b"2")
    (directory / "bucket_00000").write_bytes(data + b"x" * 100)
    (directory / "bucket_00000_flush_length").write_bytes(struct.pack(">qq", 0, len(data)))
    return tmp_path / "t"


@pytest.mark.parametrize("vectorized", [False, True], ids=["rows", "batches"])
def test_hive_4_reads_up_to_the_length_of_the_side_file(longer: Path, vectorized: bool) -> None:
    found = hive_reader(4).rows(longer, {"a": "int"}, vectorized=vectorized)
    assert found == merge.read(longer, generation=4)
    assert [row[3] for row in found] == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("vectorized", [False, True], ids=["rows", "batches"])
def test_hive_3_cannot_read_a_file_that_is_longer_than_its_side_file_says(longer: Path, vectorized: bool) -> None:
    """It fails; or, by the strategy BI, makes no split of a block that ends behind that length: no row is shown."""
    hive = hive_reader(3)
    with pytest.raises(JudgeError):
        hive.rows(longer, {"a": "int"}, vectorized=vectorized)
    settings = {"hive.exec.orc.split.strategy": "BI"}
    assert hive.rows(longer, {"a": "int"}, vectorized=vectorized, settings=settings) == []
