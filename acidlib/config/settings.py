"""The configuration of a run: the settings in force, each with its source, and Hadoop's properties.

Layers of settings, a later one wins: built-in, hive-site.xml, metastore-site.xml, acidlib.toml, database property,
table property, command line (`--set`). Settings have Hive's own names; properties have Hive's prefixes (`Spelling`).
Hive has two names for several settings, `hive.compactor.x` and `metastore.compactor.x`; either is accepted.
"""

import enum
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from acidlib.arguments import SET
from acidlib.config.files import expand, read_bytes, read_site
from acidlib.config.keys import (
    BY_NAME,
    CONNECTION_NAMES,
    KEYS,
    NAMESPACES,
    SettingKey,
    SettingKind,
    Spelling,
    find_key,
    is_hives,
)
from acidlib.errors import CorruptError, RefusedError, UsageError
from acidlib.planning.initiate import Threshold, Thresholds
from acidlib.wording import did_you_mean, parse_duration, parse_flag, parse_size

Value = int | float | str

HADOOP_SITES = ("core-site.xml", "hdfs-site.xml", "ozone-site.xml")
"""The files of Hadoop's properties; a later one wins."""


class Layer(enum.IntEnum):
    """A source of values; a higher one wins. Its `label` is its name for people."""

    BUILT_IN = 0, "default"
    HIVE_SITE = 1, "hive-site.xml"
    METASTORE_SITE = 2, "metastore-site.xml"
    TOML = 3, "acidlib.toml"
    DATABASE = 4, "database property"
    TABLE = 5, "table property"
    COMMAND_LINE = 6, "--set"

    label: str

    def __new__(cls, rank: int, label: str) -> Self:
        layer = int.__new__(cls, rank)
        layer._value_, layer.label = rank, label
        return layer


HIVE_SITES = (Layer.HIVE_SITE.label, Layer.METASTORE_SITE.label)
"""The files of Hive's properties; a later one wins."""
_MAX_TOML_BYTES, _MAX_DOTS = 256 << 10, 100
"""Bytes of a TOML file, and dots in one of its lines."""
_HADOOPS = ("dfs.", "fs.", "hadoop.")
"""Prefixes of Hadoop's properties, which are no settings."""
_OF_CONNECTION = ("hive.metastore.", "metastore.", "acidlib.metastore.", "hive.zookeeper.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value in force: its text as given, the parsed value, and the layer it came from."""

    text: str
    value: Value
    layer: Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force, immutable: `with_layer` returns a new instance, so that each table can have its own.

    values    the settings by their main names
    site      all properties of hive-site.xml and metastore-site.xml; the latter wins. Never printed, as `hadoop`:
              passwords and keys may be among them
    hadoop    all properties of HADOOP_SITES
    warnings  about the files and assignments of the run
    """

    values: Mapping[str, Setting]
    site: Mapping[str, str] = field(default_factory=dict, repr=False)
    hadoop: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()

    def setting(self, key: str) -> Setting:
        """Return the value of a key by any of its names; raise `KeyError` for an unknown name."""
        definition = find_key(key)
        if definition is None:
            raise KeyError(key)
        return self.values[definition.name]

    def integer(self, key: str) -> int:
        """Return a count, a duration in milliseconds or a size in bytes."""
        return int(self.setting(key).value)

    def flag(self, key: str) -> bool:
        """Return the value of a setting that is true or false."""
        return self.setting(key).value is True

    def text(self, key: str) -> str:
        """Return the value of a text setting; `true` or `false` of a flag."""
        value = self.setting(key).value
        return str(value).lower() if isinstance(value, bool) else str(value)

    def with_layer(self, layer: Layer, values: Mapping[str, str]) -> tuple["Settings", tuple[str, ...]]:
        """Return these settings with the values of a layer, which replace those of the same or an earlier layer.

        Also returns warnings: names of Hive's compactor, or ours, that are unknown or have no effect in this layer.
        Other programs' names are ignored. Raises `RefusedError` for a value that does not parse, and on the command
        line for an unknown name.
        """
        stated: dict[str, Setting] = {}
        warnings = []
        # the main name of a key comes last, and wins
        for name in sorted(values, key=lambda name: (name.removeprefix(Spelling.COMPACTOR.value) in BY_NAME, name)):
            key, warning = _resolve(name, layer)
            if warning is not None:
                warnings.append(warning)
            if key is not None and (values[name].strip() or key.kind is SettingKind.TEXT):
                stated[key.name] = _setting(key, values[name], layer)
        winning = {name: setting for name, setting in stated.items() if layer >= self.values[name].layer}
        return replace(self, values={**self.values, **winning}), tuple(warnings)

    def thresholds(self) -> Thresholds:
        """Return the thresholds of the initiator's decision, each with its source."""
        return {
            name: Threshold(key=name, value=setting.value, source=setting.layer.label)
            for name, setting in self.values.items()
            if BY_NAME[name].is_threshold and not isinstance(setting.value, str)
        }


def default_settings() -> Settings:
    """Return every key at its built-in value."""
    return Settings(values={key.name: _setting(key, key.default, Layer.BUILT_IN) for key in KEYS})


def load_settings(
    *,
    conf_dir: Path | None = None,
    hadoop_dir: Path | None = None,
    toml: Path | None = None,
    assignments: Iterable[str] = (),
    variables: Mapping[str, str] | None = None,
    java: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings for every table; each file is read once.

    conf_dir         may hold hive-site.xml and metastore-site.xml
    hadoop_dir       may hold HADOOP_SITES, to whose properties the former two may refer
    toml             an acidlib.toml
    assignments      the texts of `--set key=value`
    variables, java  see `expand`

    Raises `RefusedError` for a missing folder or TOML file, an assignment without `=` or with an unknown name, and a
    value that does not parse; `CorruptError` for a file that does not parse.
    """
    hadoop: dict[str, str] = {}
    if hadoop_dir is not None:
        for site_file in HADOOP_SITES:
            hadoop |= read_site(hadoop_dir / site_file)
    sites: dict[Layer, dict[str, str]] = {}
    if conf_dir is not None:
        if not conf_dir.is_dir():
            raise RefusedError(f"Cannot read settings from {conf_dir}: there is no such directory")
        sites = {layer: read_site(conf_dir / layer.label) for layer in (Layer.HIVE_SITE, Layer.METASTORE_SITE)}
    site = {name: text for values in sites.values() for name, text in values.items()}
    variables, java = variables or {}, java or {}
    layers: list[tuple[Layer, Mapping[str, str]]] = [
        (layer, expand(values, known=hadoop | site, variables=variables, java=java)) for layer, values in sites.items()
    ]
    site = {name: text for _, values in layers for name, text in values.items()}
    if toml is not None:
        layers.append((Layer.TOML, read_toml(toml)))
    assigned: dict[str, str] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"Cannot use {SET} {text}: it is not of the form key=value")
        assigned[name.strip()] = value
    layers.append((Layer.COMMAND_LINE, assigned))
    settings = default_settings()
    warnings: list[str] = []
    for layer, values in layers:
        settings, more = settings.with_layer(layer, values)
        warnings.extend(more)
    hadoop = expand(hadoop, known=hadoop, variables=variables, java=java)
    return replace(settings, site=site, hadoop=hadoop, warnings=tuple(warnings))


def read_toml(path: Path) -> dict[str, str]:
    """Return the values of a TOML file as texts, by dotted names, whether quoted or not.

    Raises `CorruptError` for a damaged file, also one whose values are nested too deeply to be parsed; `RefusedError`
    for a missing file and other types; and as `read_bytes` does.
    """
    data = read_bytes(path, _MAX_TOML_BYTES)
    if data is None:
        raise RefusedError(f"Cannot read settings from {path}: there is no such file")

    def flattened(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, str]]:
        for name, value in table.items():
            if isinstance(value, dict):
                yield from flattened(value, f"{prefix}{name}.")
            elif isinstance(value, bool):
                yield prefix + name, str(value).lower()
            elif isinstance(value, int | float | str):
                yield prefix + name, str(value)
            else:
                raise RefusedError(f"Cannot use {prefix}{name} from {path}: it is neither a text nor a number")

    # the parser keeps each beginning of a dotted name, which takes the square of its parts in memory
    if any(line.count(b".") > _MAX_DOTS for line in data.splitlines()):
        raise CorruptError(f"Cannot read {path}: a line has more than {_MAX_DOTS} dots")
    try:
        return dict(flattened(tomllib.loads(data.decode()), ""))
    except RecursionError:
        raise CorruptError(f"Cannot read {path}: its values are nested too deeply") from None
    except ValueError as error:  # no TOML, no UTF-8, a number of more digits than Python reads
        raise CorruptError(f"Cannot read {path}: it is not TOML ({error})") from error


def _resolve(name: str, layer: Layer) -> tuple[SettingKey | None, str | None]:
    """Return the key of a name in a layer, and a warning about the name; None and None for other programs' names."""
    if layer in (Layer.DATABASE, Layer.TABLE):
        return _resolve_property(name, layer)
    if name in CONNECTION_NAMES and layer in (Layer.HIVE_SITE, Layer.METASTORE_SITE):
        return None, None
    key = find_key(name)
    if key.inert if key is not None else is_hives(name):
        # site files are also for Hive's own services: names without effect here are no mistake there
        return key, f"{name} in {layer.label} has no effect here" if layer >= Layer.TOML else None
    if key is not None or not (name.startswith(NAMESPACES) or layer in (Layer.TOML, Layer.COMMAND_LINE)):
        return key, None
    if layer is Layer.COMMAND_LINE:
        meant = did_you_mean(name, BY_NAME)
        reason = f"there is no such setting{meant}"
        if name.startswith(_OF_CONNECTION) and not meant:
            reason = "it is a property of the connection to the metastore, for hive-site.xml in HIVE_CONF_DIR"
        elif name.startswith(_HADOOPS):
            reason = (
                "it is a property of Hadoop, for core-site.xml in HADOOP_CONF_DIR, or as "
                f"spark.hadoop.{name} for Spark's configuration"
            )
        raise UsageError(f"Cannot set {name}: {reason}")
    return None, f"{name} in {layer.label} is not known and has no effect"


def _resolve_property(name: str, layer: Layer) -> tuple[SettingKey | None, str | None]:
    prefixes = (Spelling.THRESHOLD, Spelling.COMPACTOR, Spelling.PLAIN)
    spelling = next(spelling for spelling in prefixes if name.startswith(spelling.value))
    bare = name.removeprefix(spelling.value)
    key = find_key(bare)
    if key is None:
        is_mistake = bare.startswith(NAMESPACES) and not is_hives(bare)
        return None, f"{name} as {layer.label} is not known and has no effect" if is_mistake else None
    if key.of_readers:
        return None, None
    if key.spelling is None:
        return None, f"{name} as {layer.label} has no effect here"
    if spelling is not key.spelling and (spelling, key.spelling) != (Spelling.COMPACTOR, Spelling.PLAIN):
        right = Spelling.COMPACTOR if key.spelling is Spelling.PLAIN else key.spelling
        return None, f"{name} as {layer.label} has no effect; it is {right.value}{key.name} there"
    return key, None


def _setting(key: SettingKey, text: str, layer: Layer) -> Setting:
    def refusal(reason: str) -> RefusedError:
        kind = UsageError if layer is Layer.COMMAND_LINE else RefusedError
        return kind(f"Cannot use {key.name}={text} from {layer.label}: {reason}")

    try:
        value = _parse(key, text)
    except ValueError as error:
        raise refusal(f"it is not {key.kind.value}") from error
    if key.least is not None and not isinstance(value, str) and value < key.least:
        raise refusal(f"it is less than {key.least:g}")
    if key.choices and value not in ("", *key.choices):
        raise refusal(f"it is neither {' nor '.join(key.choices)}")
    shown = f"{value}ms" if key.kind is SettingKind.DURATION else text.strip()
    return Setting(text=shown, value=value, layer=layer)


def _parse(key: SettingKey, text: str) -> Value:
    match key.kind:
        case SettingKind.COUNT:
            if not re.fullmatch(r"-?[0-9]{1,10}", text.strip()):
                raise ValueError(text)
            return int(text)
        case SettingKind.NUMBER:
            number = float(text)
            if not math.isfinite(number):
                raise ValueError(text)
            return number
        case SettingKind.DURATION:
            return parse_duration(text, key.unit)
        case SettingKind.SIZE:
            return parse_size(text)
        case SettingKind.FLAG:
            return parse_flag(text)
        case SettingKind.TEXT:
            return text.strip()
