"""Files that settings come from: Hadoop's XML and TOML, read as text."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from acidlib.errors import CorruptError, RefusedError, RetryError

# --- setting files ----------------------------------------------------------------------------------------------------
# The files that settings come from: Hadoop's XML, as hive-site.xml is, and TOML. Texts only; nothing is understood.

HIVE_SITE, METASTORE_SITE = "hive-site.xml", "metastore-site.xml"
_XINCLUDE = "{http://www.w3.org/2001/XInclude}"


def read_site(path: Path) -> dict[str, str]:
    """The properties of a Hadoop configuration file and of those it includes; none when it is not there.

    Raises `CorruptError` where one is damaged, or includes what is not there and says nothing for that case.
    """
    data = _read(path)
    return {} if data is None else dict(_properties(_xml(path, data), (path,)))


def _xml(path: Path, data: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(data)  # noqa: S314 - the administrator wrote it; expat loads no entity from elsewhere
    except ElementTree.ParseError as error:
        raise CorruptError(f"Cannot read {path}: because it is not XML ({error})") from error


def _properties(above: ElementTree.Element, files: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    """Names and values in the order of the file; the last one of a name counts."""
    for item in above:
        if item.tag == "property":
            name = (item.findtext("name") or "").strip()
            if name:
                yield name, (item.findtext("value") or "").strip()
        elif item.tag == f"{_XINCLUDE}include":
            yield from _included(item, files)
        else:
            yield from _properties(item, files)


def _included(item: ElementTree.Element, files: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    """What another file says, as Hadoop has it: its name is relative to the file that includes it."""
    reference = item.get("href", "")
    if not reference or "://" in reference:
        raise RefusedError(f"Cannot read {files[-1]}: because it includes {reference!r}, which is no file here")
    path = files[-1].parent / reference.removeprefix("file:")
    if path in files:
        raise CorruptError(f"Cannot read {path}: because it includes itself")
    data, otherwise = _read(path), item.find(f"{_XINCLUDE}fallback")
    if data is not None:
        yield from _properties(_xml(path, data), (*files, path))
    elif otherwise is not None:
        yield from _properties(otherwise, files)
    else:
        raise CorruptError(f"Cannot read {files[-1]}: because it includes {path}, which is not there")


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


# --- hadoop -----------------------------------------------------------------------------------------------------------
# Hadoop's configuration, as far as stores are concerned: core-site.xml and hdfs-site.xml of HADOOP_CONF_DIR.

_FILES = ("core-site.xml", "hdfs-site.xml")
_STORES = (
    *("fs.defaultFS", "fs.hdfs.impl", "fs.permissions.umask-mode", "fs.s3a.", "fs.viewfs.mounttable.", "dfs."),
    "hadoop.security.",
)
_REFERENCE = re.compile(r"\$\{([^}$\s]+)\}")
_MOST_REFERENCES = 20  # as Hadoop has it


def read_hadoop_configuration(directory: Path) -> dict[str, str]:
    """What core-site.xml and hdfs-site.xml of a directory say about stores, references to other properties filled in.

    Raises `CorruptError` for a file that is no XML. References to the environment stay as they are.
    """
    found: dict[str, str] = {}
    for name in _FILES:
        found |= read_site(directory / name)
    return about_stores({name: _filled(value, found) for name, value in found.items()})


def about_stores(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that stores go by; no others travel to tasks."""
    return {name: value for name, value in properties.items() if name.startswith(_STORES)}


def _filled(value: str, properties: Mapping[str, str]) -> str:
    for _ in range(_MOST_REFERENCES):
        match = next((found for found in _REFERENCE.finditer(value) if found[1] in properties), None)
        if match is None:
            break
        value = value[: match.start()] + properties[match[1]] + value[match.end() :]
    return value
