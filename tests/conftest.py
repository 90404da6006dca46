"""What tests of every kind may ask for."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from mounts import NO_FLAG, WAYS, fuse_mount, refuse_flag

from acidlib.orc import compression

pytest.register_assert_rewrite("queue_behaviour", "hive_queue_behaviour")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What file systems can do; a test that uses it is run for each."""
    if request.param == NO_FLAG:
        refuse_flag(monkeypatch)
    return str(request.param)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """A directory on a mount of FUSE, which knows no rename that never replaces."""
    with fuse_mount(tmp_path) as path:
        yield path


@pytest.fixture
def steady_deflate(monkeypatch: pytest.MonkeyPatch) -> None:
    """zlib in place of ISA-L: the bytes that ISA-L makes depend on memory that it does not initialise.

    They inflate to the same, but may be a few more or fewer.
    """

    class Steady:
        @staticmethod
        def compress(block: bytes, level: int, window: int) -> bytes:
            return zlib.compress(block, level, window)

    monkeypatch.setattr(compression, "isal_zlib", Steady)
