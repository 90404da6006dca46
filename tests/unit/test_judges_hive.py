"""The judges that are Hive's own readers give what the servers of the same release answered about the fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest
from judges.fixtures import Fixture, fixtures
from judges.hive_reader import hive_reader

pytestmark = pytest.mark.live
LAYERS = [(fixture, layer) for fixture in fixtures() for layer in ("", *fixture.layers)]
# Hive 3.1.3's own minor compaction of it is faulty; Hive cannot read it either
FAULTY = ("hive3/m_multiwriter", "after_minor")


@pytest.mark.parametrize("vectorized", [False, True], ids=["rows", "batches"])
@pytest.mark.parametrize(("fixture", "layer"), LAYERS, ids=[f"{f.name}-{layer}" for f, layer in LAYERS])
def test_hives_reader_gives_what_hive_returned(fixture: Fixture, layer: str, vectorized: bool, tmp_path: Path) -> None:
    if (fixture.name, layer) == FAULTY:
        pytest.skip("Hive cannot read it")
    location = fixture.lay(tmp_path / "table", layer)
    texts, keys = fixture.read_by_hive(location, hive_reader(fixture.generation), vectorized=vectorized)
    assert texts == fixture.hive_rows()
    assert keys == (fixture.hive_keys(layer) or keys)
