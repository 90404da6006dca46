"""Ozone in the races that every store has to stand, on a real one."""

from __future__ import annotations

import pytest
from long_runs import amount
from rename_stores import RenameStoreUnderTest
from servers.ozone import Ozone
from store_races import WAYS, StoreRaces, StoreUnderTest

from acidlib.stores.stores import Stores

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture
def under(ozone: Ozone) -> StoreUnderTest:
    stores = Stores(configuration=ozone.configuration)
    return RenameStoreUnderTest(stores, stores.locate(ozone.new_directory()), apart=amount(3 * len(WAYS), long=4))


class TestOzone(StoreRaces):
    """The same as on local disks."""
