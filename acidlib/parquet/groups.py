"""Which Parquet files may become one file, and why others may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from acidlib.parquet.footer import Footer, Identity

MOST_ROW_GROUPS = 32767
"""`RowGroup.ordinal` has 16 bits."""
MOST_JOINED_FOOTER = 32 << 20
"""Bytes of the footers of files that are joined: every reader holds the result's footer as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files that become one. `apart` says why they are not in the first group, or why not in an earlier one."""

    files: tuple[Footer, ...]
    apart: str


@dataclass(slots=True)
class _Open:
    files: list[Footer]
    apart: str
    row_groups: int = 0
    size: int = 0

    def full(self, footer: Footer) -> str:
        """Why the file does not fit any more, or ""."""
        if self.row_groups + len(footer.row_groups) > MOST_ROW_GROUPS:
            return f"more than {MOST_ROW_GROUPS} row groups in one file"
        if self.size + footer.size > MOST_JOINED_FOOTER:
            return f"more than {MOST_JOINED_FOOTER} bytes of footer in one file"
        return ""

    def add(self, footer: Footer) -> None:
        self.files.append(footer)
        self.row_groups += len(footer.row_groups)
        self.size += footer.size


def group_files(footers: Sequence[Footer]) -> tuple[FileGroup, ...]:
    """Every file in one group; groups in the order of their first files, files in the order given."""
    groups: list[_Open] = []
    latest: dict[Identity, _Open] = {}
    for footer in footers:
        target = None if footer.alone else latest.get(footer.identity)
        full = target.full(footer) if target is not None else ""
        if target is None or full:
            target = _Open([], full or (_apart(groups[0].files[0], footer) if groups else ""))
            groups.append(target)
            if not footer.alone:
                latest[footer.identity] = target
        target.add(footer)
    return tuple(FileGroup(files=tuple(group.files), apart=group.apart) for group in groups)


def differences(first: Footer, second: Footer) -> tuple[str, ...]:
    """Why two files cannot become one; nothing when they can."""
    found = [f"{footer.name} is copied as a whole: {footer.alone}" for footer in (first, second) if footer.alone]
    a, b = first.identity, second.identity
    found += ["another format version"] if a.version != b.version else []
    found += ["another schema"] if a.schema != b.schema else []
    if a.created_by != b.created_by:
        found.append(f"another writer ({_text(b.created_by)} instead of {_text(a.created_by)})")
    if a.key_values != b.key_values:
        keys = sorted({_text(key) for key, _ in set(a.key_values) ^ set(b.key_values)})
        found.append(f"other key-value metadata ({', '.join(keys) or 'of one key twice'})")
    found += ["other column orders"] if a.column_orders != b.column_orders else []
    return tuple(found)


def _apart(first: Footer, footer: Footer) -> str:
    return "; ".join(differences(first, footer))


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else "none"
