"""The arguments that messages name: each door says them in its own words, as a caller there writes them.

An error keeps the place of an argument in its message by two characters that no text of a caller is likely to have, so
that a condition such as `id > 1 --note` stays as it is. `str(error)` has the words of the command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_ARGUMENT = re.compile("\x02([a-z-]+)\x03")
_PHRASES = {
    "committed": "--write-ids, --write-ids-file or --all-committed",
    "insert-only": "--table-kind insert-only",
    "no-metastore": "--metastore-uri none",
    "table-columns": "--columns 'name type, ...'",
}
"""Arguments that stand for several words on the command line."""


def argument(name: str) -> str:
    """Return an argument for the message of an error, by the name of its option on the command line without dashes."""
    return f"\x02{name}\x03"


def option(name: str) -> str:
    """Return the words of an argument on the command line."""
    return _PHRASES.get(name) or f"--{name}"


def said(message: str, word: Callable[[str], str] = option) -> str:
    """Return a message with each argument in the words of a door."""
    return _ARGUMENT.sub(lambda match: word(match[1]), message)


ALL_COMMITTED = argument("all-committed")
BLOCKERS = argument("blockers")
BUCKETS = argument("buckets")
COLUMNS = argument("columns")
COMMITTED = argument("committed")
"""All that can state which write ids are committed."""
DELETE = argument("delete")
DRY_RUN = argument("dry-run")
EXCLUDE = argument("exclude")
HIVE_VERSION = argument("hive-version")
INSERT_ONLY = argument("insert-only")
"""The statement that a table is insert-only."""
LOCATION = argument("location")
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
TABLE = argument("table")
TABLE_COLUMNS = argument("table-columns")
"""The statement of the columns of a table."""
TABLE_KIND = argument("table-kind")
TRASH = argument("trash")
VERIFY = argument("verify")
VISIBILITY_TXN = argument("visibility-txn")
WAREHOUSE = argument("warehouse")
WRITE_IDS = argument("write-ids")
WRITE_IDS_FILE = argument("write-ids-file")
YES = argument("yes")
