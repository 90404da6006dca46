"""The files that settings come from: Hadoop's XML, as hive-site.xml is, and TOML. Texts only; nothing is understood."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

from acidlib.errors import CorruptError, RefusedError, RetryError

HIVE_SITE, METASTORE_SITE = "hive-site.xml", "metastore-site.xml"


def read_site(path: Path) -> dict[str, str]:
    """The properties of a Hadoop configuration file; none when it is not there. Raises `CorruptError` if damaged."""
    data = _read(path)
    if data is None:
        return {}
    try:
        root = ElementTree.fromstring(data)  # noqa: S314 - the administrator wrote it; expat loads no entity from elsewhere
    except ElementTree.ParseError as error:
        raise CorruptError(f"Cannot read {path}: because it is not XML ({error})") from error
    found = {}
    for item in root.iter("property"):
        name = (item.findtext("name") or "").strip()
        if name:
            found[name] = (item.findtext("value") or "").strip()
    return found


def read_toml(path: Path) -> dict[str, str]:
    """The keys of a TOML file as dotted names, quoted or not, with their values as texts."""
    data = _read(path)
    if data is None:
        raise RefusedError(f"Cannot read settings from {path}: because there is no such file")
    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CorruptError(f"Cannot read {path}: because it is not TOML ({error})") from error
    return dict(_flatten(document, "", path))


def _flatten(table: Mapping[str, object], prefix: str, path: Path) -> Iterable[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.", path)
        elif isinstance(value, bool):
            yield prefix + name, str(value).lower()
        elif isinstance(value, int | float | str):
            yield prefix + name, str(value)
        else:
            raise RefusedError(f"Cannot use {prefix}{name} from {path}: because it is neither a text nor a number")


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RetryError(f"Cannot read {path}: because the operating system said: {error.strerror}") from error
