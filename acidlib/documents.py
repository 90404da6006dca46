"""Texts for people that are made of definitions: `python -m acidlib.documents` writes them into the checkout.

They are conf/acidlib.toml, in docs/options.md the options of the jobs and the settings, in docs/monitoring.md the
metrics, in docs/json.md the fields of documents, and in docs/stores.md the promises of stores, each between two marks.
"""

import ast
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import click

from acidlib.cli import launch
from acidlib.cli.help import OPTION_GROUPS
from acidlib.config.keys import KEYS, STATUS_KEYS, SettingKey, SettingKind, Spelling
from acidlib.location import ABFS, GCS, HDFS, LOCAL, OZONE, S3, StoreKind
from acidlib.model.results import (
    CancellationsDocument,
    ChecksDocument,
    CleaningsDocument,
    CompactionsDocument,
    DecisionsDocument,
    ErrorDocument,
    PlacesDocument,
    ProbeDocument,
    RequestsDocument,
    RunHead,
    UndoDocument,
)
from acidlib.model.status import StatusDocument
from acidlib.status.metrics import METRICS
from acidlib.stores.buckets.store import BucketStore
from acidlib.stores.gcs.bucket import GcsBucket
from acidlib.stores.promises import Promise
from acidlib.stores.renaming.abfs_trials import abfs_promises
from acidlib.stores.renaming.ozone_trials import ozone_promises
from acidlib.stores.renaming.trials import renaming_promises
from acidlib.stores.s3.bucket import S3Bucket

ROOT = Path(__file__).resolve().parents[1]
TOML, OPTIONS = ROOT / "conf" / "acidlib.toml", ROOT / "docs" / "options.md"
MONITORING, JSON, STORES = (ROOT / "docs" / f"{name}.md" for name in ("monitoring", "json", "stores"))
JOBS: Mapping[str, click.Command] = {job.name: job.load() for job in launch.JOBS}
DOCUMENTS: Mapping[str, type] = {
    "Every document": RunHead,
    "major_compact, minor_compact": CompactionsDocument,
    "initiator": DecisionsDocument,
    "cleaner": CleaningsDocument,
    "show_place": PlacesDocument,
    "undo": UndoDocument,
    "cancel": CancellationsDocument,
    "show_compactions": RequestsDocument,
    "doctor": ChecksDocument,
    "probe": ProbeDocument,
    "status": StatusDocument,
    "Errors": ErrorDocument,
}
"""What documents have after the head, which all have, by the names of their jobs."""
_UNOPENED: Any = None
PROMISES: Mapping[StoreKind, Sequence[Promise]] = {
    LOCAL: renaming_promises(_UNOPENED),
    HDFS: renaming_promises(_UNOPENED),
    ABFS: abfs_promises(_UNOPENED, _UNOPENED),
    OZONE: ozone_promises(_UNOPENED, _UNOPENED),
    S3: BucketStore(S3Bucket(_UNOPENED)).promises(),
    GCS: BucketStore(GcsBucket(_UNOPENED)).promises(),
}
"""The promises of stores; none is opened for their sentences."""
_COMPACTIONS = re.compile("major-compact, minor-compact")
_OFTEN = 3
"""A field that objects of so many types have alike is described once."""

_TOML_HEAD = """\
# Settings of the compaction engine, under Hive's own property names. Every line below is the default, commented out.
#
# A later place wins: the built-in value, hive-site.xml, metastore-site.xml, this file, database property, table
# property (of those settings that say so), --set key=value.
# Durations: 300ms, 86400s, 90m, 12h, 7d. Sizes: 1024, 512k, 256m, 1g.
"""


def toml_text() -> str:
    """Return the whole of conf/acidlib.toml."""
    return "\n".join([_TOML_HEAD, *(_toml_entry(key) for key in KEYS)])


def options_text(document: str) -> str:
    """Return the text of docs/options.md with the parts between its marks made anew. ValueError without a mark."""
    document = _with_section(document, "options", _option_lists())
    return _with_section(document, "settings", _setting_lists())


def monitoring_text(document: str) -> str:
    """Return the text of docs/monitoring.md with its list made again. ValueError if a section mark is missing."""
    return _with_section(document, "metrics", _metric_list())


def json_page(document: str) -> str:
    """Return the text of docs/json.md with its lists made again. ValueError if a section mark is missing."""
    return _with_section(document, "fields", _documents())


def stores_page(document: str) -> str:
    """Return the text of docs/stores.md with its table made again. ValueError if a section mark is missing."""
    return _with_section(document, "promises", _promise_table())


def _with_section(document: str, name: str, lines: Iterable[str]) -> str:
    begin, end = f"<!-- {name}: made by python -m acidlib.documents -->", f"<!-- end of {name} -->"
    before, _, rest = document.partition(begin)
    _, last, after = rest.partition(end)
    if not last:
        raise ValueError(f"no {begin} and {end}")
    return "\n".join([f"{before}{begin}", "", *lines, "", f"{end}{after}"])


def _toml_entry(key: SettingKey) -> str:
    meaning = f"Without effect: {key.meaning}" if key.inert else key.meaning
    if (where := _in_tables(key)) != "no":
        meaning += f" In tables: {where}."
    lines = textwrap.wrap(meaning.replace("`", ""), 118, initial_indent="# ", subsequent_indent="# ")
    bare = key.kind in (SettingKind.COUNT, SettingKind.NUMBER, SettingKind.FLAG)
    value = key.default if bare else f'"{key.default}"'
    return "\n".join([*lines, f'#"{key.name}" = {value}\n'])


def _setting_lists() -> Iterator[str]:
    """Yield a line for each setting: the limits of the status below a title of their own, as those without effect."""
    yield from _setting_items(key for key in KEYS if not key.inert and key not in STATUS_KEYS)
    yield from ("", "**Limits of `acidlib status`**, for a warning if they do not say error:", "")
    yield from _setting_items(STATUS_KEYS)
    inert = ", ".join(f"`{key.name}`" for key in KEYS if key.inert)
    yield from ("", f"**Accepted and without effect:** {inert}.")


def _setting_items(keys: Iterable[SettingKey]) -> Iterator[str]:
    """Yield a line for each meaning, with the settings next to each other that have it."""
    for meaning, alike in groupby(keys, key=lambda key: key.meaning.removeprefix("status: ")):
        yield f"- {', '.join(_named_setting(key) for key in alike)}: {meaning[0].upper()}{meaning[1:]}"


def _named_setting(key: SettingKey) -> str:
    stated = [key.default] if key.default else []
    if (where := _in_tables(key)) != "no":
        stated.append(f"in tables {where}")
    return _named(f"`{key.name}`", "; ".join(stated))


def _named(name: str, stated: str) -> str:
    return f"{name} ({stated})" if stated else name


def _in_tables(key: SettingKey) -> str:
    """Return where else than for all tables a setting may be given."""
    if key.of_readers:
        return "as table property"
    match key.spelling:
        case None:
            return "no"
        case Spelling.PLAIN:
            return "by this name"
        case spelling:
            return f"as `{spelling.value}<setting>`"


def _metric_list() -> Iterator[str]:
    of_tables = [metric for metric in METRICS if metric.labels[:2] == ("database", "table")]
    for metric in METRICS:
        if metric not in of_tables:
            hives = re.sub(r"\b\w+_\w+\b", r"`\g<0>`", metric.hive)
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            meaning = f"{metric.help} In Hive: {hives}." if hives else metric.help
            yield f"- {_named(f'`{metric.name}`', labels)}: {meaning}"
    names = ", ".join(f"`{metric.name}`" for metric in of_tables)
    yield f"- {names} (`database`, `table`): The same of a table."


def _common_fields() -> Sequence[tuple[str, str]]:
    """Return the fields, with their sentences, that objects of several types have alike."""
    kinds = dict.fromkeys(kind for document in DOCUMENTS.values() for kind in _paths_of(document))
    counts = Counter(field for kind in kinds for field in _described(kind))
    fields = [field for field, count in counts.items() if count >= _OFTEN]
    sentences = [sentence for _, sentence in fields]
    return sorted(fields, key=lambda field: sentences.index(field[1]))


def _paths_of(kind: type) -> Mapping[type, Sequence[str]]:
    """Return the types of the objects in documents of a type, each with the paths at which they stand."""
    paths_of: dict[type, list[str]] = {}

    def find(kind: type, path: str) -> None:
        paths_of.setdefault(kind, []).append(path)
        for name, hint in get_type_hints(kind).items():
            for inner, is_listed in _objects_in(hint):
                find(inner, f"{path.rstrip('.')}.{name}" + "[]" * is_listed)

    find(kind, ".")
    return paths_of


def _documents() -> Iterator[str]:
    """Yield the common fields, and those of each document, as lists below headings."""
    common = _common_fields()
    yield from ("## Common fields", "", *_listed(common))
    for title, document in DOCUMENTS.items():
        yield from ("", f"## {title}")
        for kind, paths in _paths_of(document).items():
            yield from (("", _heading(paths), "") if kind is not document else ("",))
            fields = list(_described(kind))
            if shared := [f"`{name}`" for name, sentence in fields if (name, sentence) in common]:
                yield f"- {', '.join(shared)}: [common](#common-fields)."
            yield from _listed(field for field in fields if field not in common)
            for name, hint in get_type_hints(kind, include_extras=True).items():
                for keys in getattr(hint, "__metadata__", ()):  # of a dictionary, with their meaning
                    yield from ("", _heading([f"{path}.{name}" for path in paths]), "", *_listed(keys.items()))


def _heading(paths: Iterable[str]) -> str:
    return f"### {', '.join(f'`{path}`' for path in paths)}"


def _listed(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each sentence, with the names that it is about."""
    for sentence, alike in groupby(rows, key=itemgetter(1)):
        yield f"- {', '.join(f'`{name}`' for name, _ in alike)}: {sentence}"


def _described(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a dataclass, each with the sentence about it, which stands below it in its source."""
    for of in reversed(kind.__mro__):
        names: list[str] = []
        if not is_dataclass(of):
            continue
        (definition,) = ast.parse(inspect.getsource(of)).body
        assert isinstance(definition, ast.ClassDef)
        for node in definition.body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name)):
                    names.append(name)
                case ast.Expr(value=ast.Constant(value=str(sentence))) if names:
                    yield from ((name, " ".join(sentence.split())) for name in names)
                    names.clear()


def _objects_in(hint: Any, *, is_listed: bool = False) -> Iterator[tuple[type, bool]]:
    """Yield the dataclasses in the type of a field, and whether it is a list of them."""
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint, is_listed
    for inner in get_args(hint):
        yield from _objects_in(inner, is_listed=is_listed or get_origin(hint) in (tuple, Sequence))


def _promise_table() -> Iterator[str]:
    """Yield a table with a line for each promise, and a column for each store."""
    names = dict.fromkeys(promise.name for promises in PROMISES.values() for promise in promises)
    yield f"|Promise|{'|'.join(map(str, PROMISES))}|"
    yield f"|---|{'---|' * len(PROMISES)}"
    for name in names:
        yield f"|{name}|{'|'.join(_promise_cell(name, promises) for promises in PROMISES.values())}|"


def _promise_cell(name: str, promises: Sequence[Promise]) -> str:
    promise = next((promise for promise in promises if promise.name == name), None)
    return "" if promise is None else "yes" if promise.is_shown else "untried"


def _option_lists() -> Iterator[str]:
    """Yield a list for each group of options, as help has them, with a line for each meaning of an option."""
    commands_of: dict[tuple[str, str], list[str]] = {}
    for job, command in JOBS.items():
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                commands_of.setdefault((option.opts[-1], _option_item(option)), []).append(job)
    served = [name for name, command in JOBS.items() if any("--set" in option.opts for option in command.params)]
    for number, (title, group) in enumerate(OPTION_GROUPS.items()):
        yield from (*([""] if number else []), f"**{title}**", "")
        for wanted in group:
            for (name, item), commands in commands_of.items():
                if name == wanted:
                    yield item if commands == served else f"{item} *{_COMPACTIONS.sub('compact', ', '.join(commands))}*"


def _option_item(option: click.Option) -> str:
    shown = f"- `{' '.join([*option.opts, *_values(option)])}`"
    default = f"`${option.envvar}`" if option.envvar else str(option.default) if option.show_default else ""
    return f"{_named(shown, default)}: {' '.join((option.help or '').split())}"


def _values(option: click.Option) -> list[str]:
    """Return what stands behind an option, as `--help` shows it; nothing behind a flag."""
    if option.is_flag:
        return []
    if option.metavar is not None:
        return [option.metavar]
    if isinstance(option.type, click.Choice):
        return ["|".join(option.type.choices)]
    if isinstance(option.type, click.IntRange):
        return ["N"]
    return ["FILE" if isinstance(option.type, click.Path) else option.type.name.upper()]


if __name__ == "__main__":
    TOML.write_text(toml_text(), encoding="utf-8")
    OPTIONS.write_text(options_text(OPTIONS.read_text(encoding="utf-8")), encoding="utf-8")
    MONITORING.write_text(monitoring_text(MONITORING.read_text(encoding="utf-8")), encoding="utf-8")
    JSON.write_text(json_page(JSON.read_text(encoding="utf-8")), encoding="utf-8")
    STORES.write_text(stores_page(STORES.read_text(encoding="utf-8")), encoding="utf-8")
