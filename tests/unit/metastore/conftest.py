"""Metastores of both generations that answer as a test says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_metastore import FakeMetastore

from acidlib.acid.names import Generation


@pytest.fixture
def hive4() -> Iterator[FakeMetastore]:
    with FakeMetastore(Generation.HIVE4) as server:
        yield server


@pytest.fixture
def hive3() -> Iterator[FakeMetastore]:
    with FakeMetastore(Generation.HIVE3, version="3.0") as server:
        yield server
