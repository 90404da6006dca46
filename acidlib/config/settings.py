"""Settings under Hive's own property names, each value with the place it came from.

Layers, a later one wins: built-in, hive-site.xml, metastore-site.xml, acidlib.toml, database property, table property,
command line (`--set`). Properties have Hive's prefixes (`setting_keys.Spelling`).
Hive gives several settings two names, `hive.compactor.x` and `metastore.compactor.x`; either is taken.
"""

import enum
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from acidlib.config.files import HIVE_SITE, METASTORE_SITE, read_site, read_toml
from acidlib.config.keys import BY_NAME, CONNECTION_NAMES, KEYS, NAMESPACES, Key, Kind, Spelling, find_key, is_hives
from acidlib.errors import RefusedError, UsageError
from acidlib.planning.initiate import Threshold, Thresholds

Value = int | float | str


class Layer(enum.IntEnum):
    """Where values come from, in the order in which they win."""

    BUILT_IN = 0
    HIVE_SITE = 1
    METASTORE_SITE = 2
    TOML = 3
    DATABASE = 4
    TABLE = 5
    COMMAND_LINE = 6

    @property
    def label(self) -> str:
        """The name of the place, for people."""
        return _LABELS[self]


_LABELS = {
    Layer.BUILT_IN: "default",
    Layer.HIVE_SITE: HIVE_SITE,
    Layer.METASTORE_SITE: METASTORE_SITE,
    Layer.TOML: "acidlib.toml",
    Layer.DATABASE: "database property",
    Layer.TABLE: "table property",
    Layer.COMMAND_LINE: "--set",
}

_DURATION = re.compile(r"(-?[0-9]{1,18})\s*([a-z]*)")
_SIZE = re.compile(r"([0-9]{1,18})\s*([kmgt]?)(?:i?b)?")
_MILLISECONDS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000.0),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("us", "usec", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-6),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value in force: its text as given, the parsed value, and the layer it came from."""

    key: str
    text: str
    value: Value
    layer: Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force. A frozen value: `with_layer` gives a new one, so that each table can have its own."""

    settings: tuple[Setting, ...]

    def setting(self, key: str) -> Setting:
        """The value of a key by any of its Hive names; raises `KeyError` for a name that is not known."""
        known = find_key(key)
        return next((item for item in self.settings if known and item.key == known.name), None) or _raise_unknown(key)

    def source(self, key: str) -> str:
        """Where the value came from, such as "default" or "table property"."""
        return self.setting(key).layer.label

    def integer(self, key: str) -> int:
        """A count, a duration in milliseconds or a size in bytes."""
        return int(self.setting(key).value)

    def flag(self, key: str) -> bool:
        """The value of a setting that is true or false."""
        return self.setting(key).value is True

    def text(self, key: str) -> str:
        """The value of a text setting; `true` or `false` of a flag."""
        value = self.setting(key).value
        return str(value).lower() if isinstance(value, bool) else str(value)

    def with_layer(self, layer: Layer, values: Mapping[str, str]) -> tuple["Settings", tuple[str, ...]]:
        """These settings with those of a layer, which replace values of the same or an earlier layer.

        Also returns warnings: keys of Hive's compactor, or ours, that are not known or have no effect there. Keys of
        others are passed over in silence. Raises `RefusedError` for a value that does not parse, and on the command
        line for any key that is not known.
        """
        taken: dict[str, Setting] = {}
        warnings = []
        for name in sorted(values, key=lambda given: (given.removeprefix(Spelling.COMPACTOR.value) in BY_NAME, given)):
            key, warning = _resolve(name, layer)
            if warning is not None:
                warnings.append(warning)
            if key is not None and (values[name].strip() or key.kind is Kind.TEXT):
                taken[key.name] = _setting(key, values[name], layer)
        merged = tuple(taken[item.key] if item.key in taken and layer >= item.layer else item for item in self.settings)
        return Settings(settings=merged), tuple(warnings)

    def thresholds(self) -> Thresholds:
        """The thresholds of the decision, each with its source; nothing is to be laid over them any more."""
        return {
            item.key: Threshold(key=item.key, value=item.value, source=item.layer.label)
            for item in self.settings
            if BY_NAME[item.key].is_threshold and not isinstance(item.value, str)
        }


def default_settings() -> Settings:
    """Every key at its built-in value."""
    return Settings(settings=tuple(_setting(key, key.default, Layer.BUILT_IN) for key in KEYS))


def load_settings(
    *, conf_dir: Path | None, toml: Path | None, assignments: Iterable[str] = ()
) -> tuple[Settings, tuple[str, ...]]:
    """The settings that hold for every table, and the warnings about them.

    `conf_dir` may hold hive-site.xml and metastore-site.xml; `toml` is an acidlib.toml; `assignments` are the texts of
    `--set key=value`. Raises `RefusedError` for a folder or TOML file that is not there, an assignment without `=`, an
    unknown key among them, or a value that does not parse; `CorruptError` for a file that does not parse.
    """
    settings = default_settings()
    warnings: list[str] = []
    layers: list[tuple[Layer, Mapping[str, str]]] = []
    if conf_dir is not None:
        layers += _sites(conf_dir)
    if toml is not None:
        layers.append((Layer.TOML, read_toml(toml)))
    layers.append((Layer.COMMAND_LINE, dict(_assignment(text) for text in assignments)))
    for layer, values in layers:
        settings, more = settings.with_layer(layer, values)
        warnings.extend(more)
    return settings, tuple(warnings)


def site_values(conf_dir: Path) -> Mapping[str, str]:
    """Every property of hive-site.xml and metastore-site.xml as it stands there; where both have one, the latter's.

    For keys that are no settings of a compaction, such as `hive.metastore.uris`. Raises as `load_settings` does.
    """
    merged: dict[str, str] = {}
    for _, values in _sites(conf_dir):
        merged.update(values)
    return merged


def parse_duration(text: str, unit: str = "s") -> int:
    """Milliseconds of `300ms`, `86400s`, `12h`, `7d`; a bare number is in `unit`. Raises `ValueError`."""
    match = _DURATION.fullmatch(text.strip().lower())
    factor = None if match is None else _MILLISECONDS.get(match[2] or unit)
    if match is None or factor is None:
        raise ValueError(text)
    return math.floor(int(match[1]) * factor)


def duration_text(seconds: float) -> str:
    """`1d`, `90m`, `30s`, `0.5s`: a duration in the largest unit that takes it as a whole number, as it is given."""
    for unit in ("d", "h", "m", "s"):
        size = _MILLISECONDS[unit] / 1000
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"


def parse_size(text: str) -> int:
    """Bytes of `1024`, `256m`, `1GiB`; the units are powers of 1024. Raises `ValueError`."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) << 10 * " kmgt".index(match[2] or " ")


def _sites(conf_dir: Path) -> list[tuple[Layer, Mapping[str, str]]]:
    if not conf_dir.is_dir():
        raise RefusedError(f"Cannot read settings from {conf_dir}: because there is no such directory")
    return [(layer, read_site(conf_dir / layer.label)) for layer in (Layer.HIVE_SITE, Layer.METASTORE_SITE)]


def _resolve(name: str, layer: Layer) -> tuple[Key | None, str | None]:
    """The key that a name means in a layer, and a warning about it; neither for a name that is none of ours."""
    if layer in (Layer.DATABASE, Layer.TABLE):
        return _resolve_property(name, layer)
    if name in CONNECTION_NAMES and layer in (Layer.HIVE_SITE, Layer.METASTORE_SITE):
        return None, None
    key = find_key(name)
    if key.inert if key is not None else is_hives(name):
        # site files are Hive's own: its services read there what says nothing here
        return key, f"{name} in {layer.label} has no effect here" if layer >= Layer.TOML else None
    if key is not None or not (name.startswith(NAMESPACES) or layer in (Layer.TOML, Layer.COMMAND_LINE)):
        return key, None
    if layer is Layer.COMMAND_LINE:
        raise UsageError(f"Cannot set {name}: because there is no such setting")
    return None, f"{name} in {layer.label} is not known and has no effect"


def _resolve_property(name: str, layer: Layer) -> tuple[Key | None, str | None]:
    spelling = next(
        one for one in (Spelling.THRESHOLD, Spelling.COMPACTOR, Spelling.PLAIN) if name.startswith(one.value)
    )
    bare = name.removeprefix(spelling.value)
    key = find_key(bare)
    if key is None:
        return None, f"{name} as {layer.label} is not known and has no effect" if _wants_to_be_ours(bare) else None
    if key.of_readers:
        return None, None
    if key.spelling is None:
        return None, f"{name} as {layer.label} has no effect here"
    if spelling is not key.spelling and (spelling, key.spelling) != (Spelling.COMPACTOR, Spelling.PLAIN):
        right = Spelling.COMPACTOR if key.spelling is Spelling.PLAIN else key.spelling
        return None, f"{name} as {layer.label} has no effect; it is {right.value}{key.name} there"
    return key, None


def _wants_to_be_ours(bare: str) -> bool:
    return bare.startswith(NAMESPACES) and not is_hives(bare)


def _setting(key: Key, text: str, layer: Layer) -> Setting:
    try:
        value = _parse(key, text)
    except ValueError as error:
        raise _wrong(key, text, layer, f"it is not {key.kind.value}") from error
    if key.least is not None and not isinstance(value, str) and value < key.least:
        raise _wrong(key, text, layer, f"it is less than {key.least:g}")
    shown = f"{value}ms" if key.kind is Kind.DURATION else text.strip()
    return Setting(key=key.name, text=shown, value=value, layer=layer)


def _wrong(key: Key, text: str, layer: Layer, reason: str) -> RefusedError:
    kind = UsageError if layer is Layer.COMMAND_LINE else RefusedError
    return kind(f"Cannot use {key.name}={text} from {layer.label}: because {reason}")


def _parse(key: Key, text: str) -> Value:
    match key.kind:
        case Kind.COUNT:
            if not re.fullmatch(r"-?[0-9]{1,10}", text.strip()):
                raise ValueError(text)
            return int(text)
        case Kind.NUMBER:
            number = float(text)
            if not math.isfinite(number):
                raise ValueError(text)
            return number
        case Kind.DURATION:
            return parse_duration(text, key.unit)
        case Kind.SIZE:
            return parse_size(text)
        case Kind.FLAG:
            if (given := text.strip().lower()) not in ("true", "false"):
                raise ValueError(text)
            return given == "true"
        case Kind.TEXT:
            return text.strip()


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"Cannot use --set {text}: because it is not of the form key=value")
    return name.strip(), value


def _raise_unknown(key: str) -> Setting:
    raise KeyError(key)
