"""Which Parquet files may become one file, and why others may not."""

from __future__ import annotations

from acidlib.parquet.footer import Footer

MOST_ROW_GROUPS = 32767
"""`RowGroup.ordinal` has 16 bits."""
MOST_JOINED_FOOTER = 32 << 20
"""Bytes of the footers of files that are joined: every reader holds the result's footer as a whole."""


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


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else "none"
