"""The files of settings: where our own are, and how Hadoop's, such as hive-site.xml, are read with their includes.

Source: Hadoop `Configuration` (`loadResource`, `substituteVars`).
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from acidlib.errors import CorruptError, RefusedError, RetryError

_PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = _PACKAGE.parent if (_PACKAGE.parent / "pyproject.toml").is_file() else None
"""The folder of the sources, if the package runs from there; None if it is installed."""


def conf_file(name: str, environment: Mapping[str, str]) -> Path | None:
    """Return a configuration file of ours, from `ACIDLIB_CONF_DIR` or else from the package; None if neither has it.

    In a checkout the package's folder conf/ is the checkout's.
    """
    named = environment.get("ACIDLIB_CONF_DIR")
    folders = [*([Path(named).expanduser().absolute()] if named else []), _PACKAGE / "conf"]
    return next((path for folder in folders if (path := folder / name).is_file()), None)


_XINCLUDE = "{http://www.w3.org/2001/XInclude}"


def read_site(path: Path) -> dict[str, str]:
    """Return the properties of a file and of the files it includes; empty if the file does not exist.

    Raises `CorruptError` for a damaged file, and for an include of a missing file without a fallback.
    """
    data = read_bytes(path)
    return {} if data is None else dict(_properties(_xml(path, data), (path,)))


def read_bytes(path: Path) -> bytes | None:
    """Return the contents of a file; None if it does not exist. RetryError if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RetryError(f"Cannot read {path}: the operating system said: {error.strerror}") from error


def _xml(path: Path, data: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(data)  # noqa: S314 - the administrator wrote it; expat loads no entity from elsewhere
    except ElementTree.ParseError as error:
        raise CorruptError(f"Cannot read {path}: it is not XML ({error})") from error


_FILE_SCHEME = re.compile("^file:(//(?=/))?")


def _properties(parent: ElementTree.Element, files: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    """Yield names and values in the order of the file and its includes; the last value of a name counts.

    files  the chain of includes: each file includes the next one, by a path relative to its own; the last is being read
    """
    for item in parent:
        if item.tag == "property":
            name = (item.findtext("name") or "").strip()
            if name:
                yield name, (item.findtext("value") or "").strip()
            continue
        if item.tag != f"{_XINCLUDE}include":
            yield from _properties(item, files)
            continue
        reference = item.get("href", "")
        name = _FILE_SCHEME.sub("", reference)
        if not name or "://" in name:
            raise RefusedError(f"Cannot read {files[-1]}: it includes {reference!r}, which is no path of this machine")
        path = files[-1].parent / name
        if path in files:
            raise CorruptError(f"Cannot read {path}: it includes itself")
        data, fallback = read_bytes(path), item.find(f"{_XINCLUDE}fallback")
        if data is not None:
            yield from _properties(_xml(path, data), (*files, path))
        elif fallback is not None:
            yield from _properties(fallback, files)
        else:
            raise CorruptError(f"Cannot read {files[-1]}: it includes {path}, which is not there")


_REFERENCE = re.compile(r"\$\{([^}$ ]+)\}")
_VARIABLE = re.compile(r"env\.(.*?)(?:(:?-)(.*))?", re.DOTALL)
_MOST_REFERENCES = 20


def expand(
    properties: Mapping[str, str], *, known: Mapping[str, str], variables: Mapping[str, str], java: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties with the references in their values replaced.

    known      the properties to which `${name}` may refer
    variables  the environment's, for `${env.NAME}`; `${env.NAME-default}` has a default for a variable that is not set,
               `${env.NAME:-default}` also for an empty one
    java       the system properties of Java, such as `${user.name}`, which win over `known`

    In a value the first unknown reference, and all references after it, stay as they are; so does a value that refers
    to itself. Raises `CorruptError` for more than 20 references, as in a circle.
    """

    def value_of(reference: str) -> str | None:
        variable = _VARIABLE.fullmatch(reference)
        if variable is None or reference == "env.":
            return java.get(reference, known.get(reference))
        name, sign, default = variable.groups()
        value = variables.get(name)
        if sign and (value is None or (sign == ":-" and not value)):
            value = default
        return known.get(reference) if value is None else value

    def expanded(name: str, text: str) -> str:
        result = text
        for _ in range(_MOST_REFERENCES):
            match = _REFERENCE.search(result)
            value = None if match is None else value_of(match[1])
            if match is None or value is None:
                return result
            if match[0] in value:
                return text
            result = result[: match.start()] + value + result[match.end() :]
        raise CorruptError(f"Cannot use {name}={text}: its references lead to more than {_MOST_REFERENCES}")

    return {name: expanded(name, text) for name, text in properties.items()}
