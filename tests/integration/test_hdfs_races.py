"""HDFS in the races that every store has to stand, on a real one."""

from __future__ import annotations

import pytest
from rename_stores import RenameStoreUnderTest
from servers.hdfs import Hdfs
from store_races import WAYS, StoreRaces, StoreUnderTest

from acidlib.stores.stores import Stores

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture
def under(hdfs: Hdfs) -> StoreUnderTest:
    stores = Stores(configuration=hdfs.configuration)
    return RenameStoreUnderTest(stores, stores.locate(hdfs.new_directory()), apart=len(WAYS))


class TestHdfs(StoreRaces):
    """The same as on local disks."""
