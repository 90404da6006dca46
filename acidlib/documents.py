"""What people read about settings, made of their definitions; `python -m acidlib.documents` writes both texts."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from acidlib.setting_keys import KEYS, Key, Kind, Spelling

ROOT = Path(__file__).resolve().parents[1]
TOML, README = ROOT / "conf" / "acidlib.toml", ROOT / "README.md"
BEGIN = "<!-- settings: made by python -m acidlib.documents -->"
END = "<!-- end of settings -->"

_TOML_HEAD = """\
# Settings of the compaction engine, under Hive's own property names. Every line below is the default, commented out.
#
# A later place wins: the built-in value, hive-site.xml, metastore-site.xml, this file, database property, table
# property (compactorthreshold.<key> for the first two, compactor.<key> for the others), request property,
# --set key=value.
# Durations: 300ms, 86400s, 90m, 12h, 7d. Sizes: 1024, 512k, 256m, 1g.
"""


def toml_text() -> str:
    """The whole of conf/acidlib.toml."""
    return "\n".join([_TOML_HEAD, *(_toml_entry(key) for key in KEYS)])


def readme_text(readme: str) -> str:
    """The text of README.md with the part between the two marks made anew."""
    before, _, rest = readme.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"no {BEGIN} and {END}")
    return "\n".join([f"{before}{BEGIN}", "", *_readme_lines(), "", f"{END}{after}"])


def _toml_entry(key: Key) -> str:
    meaning = f"Without effect: {key.meaning}" if key.inert else key.meaning
    lines = textwrap.wrap(meaning.replace("`", ""), 118, initial_indent="# ", subsequent_indent="# ")
    bare = key.kind in (Kind.COUNT, Kind.NUMBER, Kind.FLAG)
    value = key.default if bare else f'"{key.default}"'
    return "\n".join([*lines, f'#"{key.name}" = {value}\n'])


def _readme_lines() -> Iterator[str]:
    yield from ("| Setting | Default | Meaning |", "|---|---|---|")
    for key in KEYS:
        if not key.inert:
            default = f" {key.default} |" if key.default else " |"
            yield f"| `{key.name}` |{default} {key.meaning}{_in_tables(key)} |"
    yield from ("", "Accepted and without effect:", "")
    for key in KEYS:
        if key.inert:
            yield f"- `{key.name}`: {key.meaning}"


def _in_tables(key: Key) -> str:
    match key.spelling:
        case Spelling.PLAIN:
            return " In tables by this name."
        case Spelling.THRESHOLD:
            return f" In tables as `{key.spelling.value}<setting>`."
        case _:
            return ""


if __name__ == "__main__":
    TOML.write_text(toml_text(), encoding="utf-8")
    README.write_text(readme_text(README.read_text(encoding="utf-8")), encoding="utf-8")
