"""What tests of every kind may ask for."""

from __future__ import annotations

import zlib

import pytest

from acidlib.orc import compression


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
