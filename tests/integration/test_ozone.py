"""Ozone as a file system and its data files, on a real one."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from filesystem_behaviour import ODD_NAMES, DataFilesBehaviour, FileSystemBehaviour, names, put
from long_runs import LONG
from servers.ozone import Ozone

from acidlib.errors import ConflictError, RefusedError
from acidlib.location import parse_location
from acidlib.model.results import PromiseState
from acidlib.stores.filesystem import FileSystem
from acidlib.stores.probe import try_promises
from acidlib.stores.renaming.ozone import OzoneDataFiles, OzoneFileSystem
from acidlib.stores.renaming.ozone_client import httpfs_of
from acidlib.stores.stores import Stores

pytestmark = pytest.mark.live
UNSAFE_IN_TARGETS = set("&<>\"'")


@pytest.fixture
def place(ozone: Ozone) -> str:
    return ozone.new_directory()


@pytest.fixture
def fs(ozone: Ozone, place: str) -> OzoneFileSystem:
    return OzoneFileSystem(httpfs_of(parse_location(place), ozone.configuration))


@pytest.fixture
def data(ozone: Ozone, place: str) -> OzoneDataFiles:
    return OzoneDataFiles(httpfs_of(parse_location(place), ozone.configuration))


class TestFileSystem(FileSystemBehaviour):
    """The same as on local disks, but for a few names."""

    odd: ClassVar[list[str]] = [name for name in ODD_NAMES if not set(name) & UNSAFE_IN_TARGETS]

    def test_a_name_that_cannot_be(self, fs: FileSystem, place: str) -> None:
        """Ozone takes a long name; HttpFS alters the target of a rename that has signs of HTML."""
        fs.make_directory(f"{place}/a&b")
        fs.create(f"{place}/f", b"")
        with pytest.raises(RefusedError, match=r"Cannot rename to .*a&b"):
            fs.rename_noreplace(f"{place}/f", f"{place}/a&b/f")
        with pytest.raises(RefusedError, match=r"Cannot rename to "):
            fs.create(f"{place}/a&b/f", b"")
        assert names(fs, place) == ["a&b", "f"]
        assert names(fs, f"{place}/a&b") == []

    def test_a_directory_that_is_made_while_its_name_is_given(self, ozone: Ozone, place: str) -> None:
        """Ozone moves into it, and says yes: it is taken out again."""

        class Hostile(OzoneFileSystem):
            __slots__ = ()

            def _move(self, source: str, directory: str, **more: Any) -> bool:
                if directory.endswith("/target"):
                    self._server.change("PUT", directory, "MKDIRS")
                return super()._move(source, directory, **more)

        fs = Hostile(httpfs_of(parse_location(place), ozone.configuration))
        put(fs, place, "source/f", "plain")
        for source in ("source", "plain"):
            with pytest.raises(ConflictError, match="target already exists"):
                fs.rename_noreplace(f"{place}/{source}", f"{place}/target")
            assert names(fs, f"{place}/target") == []
            fs.remove_tree(place, "target")
        assert [item.path for item in fs.list_tree(place, enter_hidden=True)] == ["plain", "source", "source/f"]

    def test_layouts_whose_renames_are_not_atomic_are_refused(self, ozone: Ozone, place: str) -> None:
        stores = Stores(configuration=ozone.configuration)
        location = stores.locate(place)
        with stores.store(location).claim(location, owner="o", token="t", now=0.0):
            pass
        for bucket in ("legacy", "obs"):
            location = stores.locate(f"ofs://{ozone.authority}/tests/{bucket}/t")
            with pytest.raises(RefusedError, match="layout LEGACY or OBJECT_STORE"):
                stores.store(location).claim(location, owner="o", token="t", now=0.0)


class TestDataFiles(DataFilesBehaviour):
    """The same as on local disks."""


def test_a_bucket_with_directories_keeps_all_promises(ozone: Ozone, place: str) -> None:
    stores = Stores(configuration=ozone.configuration)
    location = stores.locate(place)
    # in a usual run without the races, of which the suites here and of claims in turn have the like
    tried = list(try_promises(stores.store(location), location, unique="u", only_quick=not LONG, note=print))
    assert len(tried) >= 4
    unproved = [promise.name for promise in tried if promise.state is not PromiseState.HOLDS]
    assert unproved == (["synced bytes last"] if LONG else [])
