"""The files of settings: where ours lie, and what Hadoop's, such as hive-site.xml, state, include and refer to.

Source: Hadoop `Configuration` (`loadResource`, `substituteVars`).
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from acidlib.errors import CorruptError, RefusedError, RetryError

_PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = _PACKAGE.parent if (_PACKAGE.parent / "pyproject.toml").is_file() else None
"""The folder of the sources, if the package is used from there; None where it is installed."""


def conf_file(name: str, environment: Mapping[str, str]) -> Path | None:
    """Return a file of ours: that of `ACIDLIB_CONF_DIR`, else the one beside the package; None without either.

    The folder conf/ of the package is that of the checkout, where the package lies in one.
    """
    named = environment.get("ACIDLIB_CONF_DIR")
    places = [Path(named).expanduser().absolute()] if named else []
    return next((path for place in (*places, _PACKAGE / "conf") if (path := place / name).is_file()), None)


_XINCLUDE = "{http://www.w3.org/2001/XInclude}"


def read_site(path: Path) -> dict[str, str]:
    """Return the properties of a file and of those it includes; none when it is not there.

    Raises `CorruptError` where one is damaged, or includes what is not there and says nothing for that case.
    """
    data = read_bytes(path)
    return {} if data is None else dict(_properties(_xml(path, data), (path,)))


def read_bytes(path: Path) -> bytes | None:
    """Return the contents of a file; None when it is not there. RetryError where it cannot be read."""
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


def _properties(above: ElementTree.Element, files: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    """Yield names and values in the order of the file, and of those it includes; the last one of a name counts.

    files  those that are being read, each included by the one before, to which its name is relative
    """
    for item in above:
        if item.tag == "property":
            name = (item.findtext("name") or "").strip()
            if name:
                yield name, (item.findtext("value") or "").strip()
            continue
        if item.tag != f"{_XINCLUDE}include":
            yield from _properties(item, files)
            continue
        reference = item.get("href", "")
        if not reference or "://" in reference:
            raise RefusedError(f"Cannot read {files[-1]}: it includes {reference!r}, which is no file here")
        path = files[-1].parent / reference.removeprefix("file:")
        if path in files:
            raise CorruptError(f"Cannot read {path}: it includes itself")
        data, otherwise = read_bytes(path), item.find(f"{_XINCLUDE}fallback")
        if data is not None:
            yield from _properties(_xml(path, data), (*files, path))
        elif otherwise is not None:
            yield from _properties(otherwise, files)
        else:
            raise CorruptError(f"Cannot read {files[-1]}: it includes {path}, which is not there")


_REFERENCE = re.compile(r"\$\{([^}$ ]+)\}")
_VARIABLE = re.compile(r"env\.(.*?)(?:(:?-)(.*))?", re.DOTALL)
_MOST_REFERENCES = 20


def expand(
    properties: Mapping[str, str], *, known: Mapping[str, str], variables: Mapping[str, str], java: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties with the references in their values replaced.

    known      the properties that `${name}` may name
    variables  those of the environment: `${env.NAME}`, with a default `${env.NAME-default}`, and with one also for an
               empty variable `${env.NAME:-default}`
    java       the system properties of Java, as `${user.name}`, which win over `known`

    In a value the first reference that names nothing, and all behind it, stay as they are; so does a value that refers
    to itself. Raises `CorruptError` for more than 20 references, as in a circle.
    """

    def meaning(reference: str) -> str | None:
        found = _VARIABLE.fullmatch(reference)
        if found is None or reference == "env.":
            return java.get(reference, known.get(reference))
        name, sign, default = found.groups()
        value = variables.get(name)
        if sign and (value is None or (sign == ":-" and not value)):
            value = default
        return known.get(reference) if value is None else value

    def expanded(name: str, text: str) -> str:
        found = text
        for _ in range(_MOST_REFERENCES):
            match = _REFERENCE.search(found)
            value = None if match is None else meaning(match[1])
            if match is None or value is None:
                return found
            if match[0] in value:
                return text
            found = found[: match.start()] + value + found[match.end() :]
        raise CorruptError(f"Cannot use {name}={text}: its references lead to more than {_MOST_REFERENCES}")

    return {name: expanded(name, text) for name, text in properties.items()}
