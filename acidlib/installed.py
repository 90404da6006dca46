"""Where this package lies, and the files that come with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
CHECKOUT = _PACKAGE.parent if (_PACKAGE.parent / "pyproject.toml").is_file() else None
"""The folder of the sources, if the package is used from there; None where it is installed."""


def conf_file(name: str, environment: Mapping[str, str]) -> Path | None:
    """A file of settings: that of `ACIDLIB_CONF_DIR`, else the one that comes with the package; None without either.

    From a checkout the latter is in its folder conf/.
    """
    named = environment.get("ACIDLIB_CONF_DIR")
    places = [Path(named).expanduser().absolute()] if named else []
    return next((path for place in (*places, _PACKAGE / "conf") if (path := place / name).is_file()), None)
