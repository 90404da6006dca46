"""The files of settings: where our own are, and how Hadoop's, such as hive-site.xml, are read with their includes.

Source: Hadoop `Configuration` (`loadResource`, `substituteVars`).
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from acidlib.errors import CorruptError, RefusedError, RetryError
from acidlib.masking import MASK, is_secret
from acidlib.wording import size_words

_PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = _PACKAGE.parent if (_PACKAGE.parent / "pyproject.toml").is_file() else None
"""The folder of the sources, if the package runs from there; None if it is installed."""

QUEUE_VARIABLE, METASTORE_DB_VARIABLE = "ACIDLIB_QUEUE_URL", "ACIDLIB_METASTORE_DB"
"""Variables of the environment with URLs of databases, which may hold passwords."""


def conf_file(name: str, environment: Mapping[str, str]) -> Path | None:
    """Return a configuration file of ours, from `ACIDLIB_CONF_DIR` or else from the package; None if neither has it.

    In a checkout the package's folder conf/ is the checkout's.
    """
    named = environment.get("ACIDLIB_CONF_DIR")
    folders = [*([absolute_path(named)] if named else []), _PACKAGE / "conf"]
    return next((path for folder in folders if (path := folder / name).is_file()), None)


def absolute_path(text: str) -> Path:
    """Return a path with the home directory for a `~`; RefusedError for a user without one, as in some containers."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise RefusedError(f"Cannot find {text}: its user has no home directory") from None


_MAX_BYTES = 4 << 20
"""Bytes of a file of settings, with all that it includes: parsed they take some 50 times as much memory."""
_MAX_DEPTH = 100
"""Elements of XML around another one."""
_XINCLUDE = "{http://www.w3.org/2001/XInclude}"


def read_site(path: Path) -> dict[str, str]:
    """Return the properties of a file and of the files it includes; empty if the file does not exist.

    Raises `CorruptError` for a damaged file, for elements in more than 100 others, and for an include of a missing file
    without a fallback; and as `read_bytes` does, whose limit is one for the file and all includes.
    """
    site = _Site()
    data = site.read(path)
    return {} if data is None else dict(site.properties(_xml(path, data), (path,), 0))


def read_bytes(path: Path, most: int = _MAX_BYTES) -> bytes | None:
    """Return the contents of a file; None if it does not exist.

    RefusedError for what is no regular file, such as a pipe or a device, and for more than `most` bytes; RetryError if
    it cannot be read.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RefusedError(f"Cannot read {path}: it is no regular file")
            data = file.read(most + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RetryError(f"Cannot read {path}: the operating system said: {error.strerror}") from error
    if len(data) > most:
        raise RefusedError(f"Cannot read {path}: it is larger than a file of settings may be ({size_words(most)})")
    return data


def _xml(path: Path, data: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(data)  # noqa: S314 - the administrator wrote it; expat loads no entity from elsewhere
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # the latter two for an encoding
        raise CorruptError(f"Cannot read {path}: it is not XML ({error})") from error


_FILE_SCHEME = re.compile("^file:(//(?=/))?")


class _Site:
    """The reading of one file with all that it includes."""

    def __init__(self) -> None:
        self._left = _MAX_BYTES

    def read(self, path: Path) -> bytes | None:
        """Return the contents of one more file; raises as `read_bytes`, for the bytes that are left."""
        data = read_bytes(path, self._left)
        self._left -= len(data or b"")
        return data

    def properties(self, parent: ElementTree.Element, files: tuple[Path, ...], depth: int) -> Iterator[tuple[str, str]]:
        """Yield names and values in the order of the file and its includes; the last value of a name counts.

        files  the chain of includes: each file includes the next one, by a path relative to its own; the last is being
               read
        depth  elements around those of `parent`, of all these files
        """
        if depth > _MAX_DEPTH:
            raise CorruptError(f"Cannot read {files[-1]}: it has elements in more than {_MAX_DEPTH} others")
        for item in parent:
            if item.tag == "property":
                name = (item.findtext("name") or "").strip()
                if name:
                    yield name, (item.findtext("value") or "").strip()
                continue
            if item.tag != f"{_XINCLUDE}include":
                yield from self.properties(item, files, depth + 1)
                continue
            reference = item.get("href", "")
            name = _FILE_SCHEME.sub("", reference)
            if not name or "://" in name or "\0" in name:
                raise RefusedError(
                    f"Cannot read {files[-1]}: it includes {reference!r}, which is no path of this machine"
                )
            path = files[-1].parent / name
            if path in files:
                raise CorruptError(f"Cannot read {path}: it includes itself")
            data, fallback = self.read(path), item.find(f"{_XINCLUDE}fallback")
            if data is not None:
                yield from self.properties(_xml(path, data), (*files, path), depth + 1)
            elif fallback is not None:
                yield from self.properties(fallback, files, depth + 1)
            else:
                raise CorruptError(f"Cannot read {files[-1]}: it includes {path}, which is not there")


_REFERENCE = re.compile(r"\$\{([^}$ ]+)\}")
_VARIABLE = re.compile(r"env\.(.*?)(?:(:?-)(.*))?", re.DOTALL)
_MAX_REFERENCES = 20


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
        for _ in range(_MAX_REFERENCES):
            match = _REFERENCE.search(result)
            value = None if match is None else value_of(match[1])
            if match is None or value is None:
                return result
            if match[0] in value:
                return text
            result = result[: match.start()] + value + result[match.end() :]
        shown = MASK if is_secret(name) else text
        raise CorruptError(f"Cannot use {name}={shown}: its references lead to more than {_MAX_REFERENCES}")

    return {name: expanded(name, text) for name, text in properties.items()}
