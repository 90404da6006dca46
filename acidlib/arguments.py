"""The arguments that texts name: each door says them in its own words, as a caller there writes them.

A message, reason or note keeps the place of an argument by two characters that no text of a caller is likely to have,
so that a condition such as `id > 1 --note` stays as it is. A door puts its words into each text that leaves it: an
error, a result, a line. What is stored has the words of the command line, and so has `str(error)` before a door.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

Word = Callable[[str], str]
"""What says an argument, by the name of its option, in the words of a door."""
V = TypeVar("V")

_BEGIN, _END = "\x02", "\x03"
_ARGUMENT = re.compile(f"{_BEGIN}([a-z-]+){_END}")
_CUT = re.compile(f"{_BEGIN}(?=[a-z-]*…)")
"""The beginning of an argument whose end was cut off with that of a long text."""
_PHRASES = {
    "committed": "--write-ids, --write-ids-file or --all-committed",
    "insert-only": "--table-kind insert-only",
    "json": "--output json",
    "kind-of-one": "--table-kind",
    "locations": "--location",
    "no-metastore": "--metastore-uri none",
    "table-columns": "--columns 'name type, ...'",
    "without-dry-run": "a run without --dry-run",
    "verified": "a compaction with --verify",
    "cancel": "acidlib cancel",
    "show": "acidlib show",
    "show-blockers": "show_compactions --blockers",
    "show-place": "acidlib show with the place",
    "undo": "acidlib undo",
}
"""What stands for several words on the command line, or for a command."""


def argument(name: str) -> str:
    """Return an argument for the message of an error, by the name of its option on the command line without dashes."""
    return f"\x02{name}\x03"


def option(name: str) -> str:
    """Return the words of an argument on the command line."""
    return _PHRASES.get(name) or f"--{name}"


def names_command(name: str) -> bool:
    """Return whether an argument stands for a command, and not for an option."""
    return not option(name).startswith("--")


def said(text: str, word: Word = option) -> str:
    """Return a text with each argument in the words of a door."""
    return _CUT.sub("", _ARGUMENT.sub(lambda match: word(match[1]), text)) if _BEGIN in text else text


def said_in(value: V, word: Word = option) -> V:
    """Return a value with each argument that its texts name in the words of a door: of dataclasses, lists and dicts."""
    return _said_in(value, word)  # type: ignore[no-any-return]  # a value of the same type


def _said_in(value: Any, word: Word) -> Any:
    if type(value) is str:
        return said(value, word)
    if type(value) in (list, tuple):
        parts = [_said_in(part, word) for part in value]
        return value if all(map(_is, parts, value)) else type(value)(parts)
    if type(value) is dict:
        return {key: _said_in(part, word) for key, part in value.items()}
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {
        each.name: part
        for each in fields(value)
        if not _is(part := _said_in(getattr(value, each.name), word), getattr(value, each.name))
    }
    if changed:
        value = copy.copy(value)
        for name, part in changed.items():
            object.__setattr__(value, name, part)  # frozen, and some are set by no constructor
    return value


def _is(value: object, other: object) -> bool:
    return value is other


ALL_COMMITTED = argument("all-committed")
AS_JSON = argument("json")
"""What returns a result as a JSON document."""
BLOCKERS = argument("blockers")
BUCKETS = argument("buckets")
CANCEL = argument("cancel")
"""What withdraws a request."""
COLUMNS = argument("columns")
COMMITTED = argument("committed")
"""All that can state which write ids are committed."""
DELETE = argument("delete")
DETAILS = argument("details")
DRY_RUN = argument("dry-run")
EXCLUDE = argument("exclude")
FORCE = argument("force")
HIVE_VERSION = argument("hive-version")
IDLE = argument("idle")
IF_EXISTS = argument("if-exists")
INSERT_ONLY = argument("insert-only")
"""The statement that a table is insert-only."""
KIND_OF_ONE = argument("kind-of-one")
"""The kind of a table, where a table is named alone."""
LOCATION = argument("location")
LOCATIONS = argument("locations")
LOGIN_KEYTAB = argument("keytab")
LOGIN_PRINCIPAL = argument("principal")
"""Of Kerberos, which Spark's configuration has."""
MAX_BYTES = argument("max-bytes")
MAX_PARTITIONS = argument("max-partitions")
METASTORE_DB = argument("metastore-db")
METASTORE_URI = argument("metastore-uri")
METRICS_FILE = argument("metrics-file")
NO_METASTORE = argument("no-metastore")
"""The statement that tables are directories alone."""
NOBODY_READS = argument("nobody-reads")
ORPHANS = argument("orphans")
PARTITION = argument("partition")
POOL = argument("pool")
QUEUE_URL = argument("queue-url")
REBALANCE = argument("rebalance")
RELEASE_HELD = argument("release-held")
SET = argument("set")
SHOW = argument("show")
"""What shows the queue."""
SHOW_BLOCKERS = argument("show-blockers")
"""What names the transactions and locks that keep requests from being cleaned."""
SHOW_PLACE = argument("show-place")
"""What shows the directories of a place."""
TABLE = argument("table")
TABLE_COLUMNS = argument("table-columns")
"""The statement of the columns of a table."""
TABLE_KIND = argument("table-kind")
TRASH = argument("trash")
UNDO = argument("undo")
"""What takes the result of a compaction back."""
VERIFIED = argument("verified")
"""A compaction whose result a second reader compares."""
VERIFY = argument("verify")
VISIBILITY_TXN = argument("visibility-txn")
WAREHOUSE = argument("warehouse")
WITHOUT_DRY_RUN = argument("without-dry-run")
"""The job as it is without a dry run."""
WRITE_IDS = argument("write-ids")
WRITE_IDS_FILE = argument("write-ids-file")
YES = argument("yes")
