"""What belongs to nobody at one place: staging of dead runs, ours and Hive's, and results that can never be seen."""

from __future__ import annotations

from dataclasses import dataclass

from acidlib.errors import ConflictError
from acidlib.model.generation import Generation
from acidlib.model.names import parse_directory
from acidlib.model.txnids import ValidTxnList
from acidlib.storage.claims import is_claimed
from acidlib.storage.filesystem import Entry, FileSystem
from acidlib.storage.staging import LITTER_SECONDS, STAGING_MARKER, STAGING_PREFIX, contents

HIVE_STAGING_PREFIX = ".hive-staging"
"""What Hive's queries write to before their results have a name (`hive.exec.stagingdir`)."""

_FOREIGN = ("staging of a compaction", "staging of a query")


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """One directory that nobody will ever read; `idle_seconds` since anything in it was modified."""

    path: str
    bytes: int
    idle_seconds: float
    reason: str


def find_orphans(
    fs: FileSystem,
    location: str,
    *,
    now: float,
    idle_seconds: float,
    txns: ValidTxnList,
    own_token: str | None = None,
) -> tuple[Orphan, ...]:
    """The orphans in a table or partition in which nothing was modified for `idle_seconds`; in the order of names.

    Staging is told by its name: `_tmp_…` is what compactors write to, Hive's and this one, `.hive-staging…` what
    Hive's queries do. A result is an orphan when the transaction of its `_vT` is known to be aborted. Nothing is one
    while another run holds a live claim on the place, nor is staging with the record of a publication, which the next
    run finishes. `own_token` is that of the caller's own claim. Raises ConflictError when the place is gone.
    """
    if is_claimed(fs, location, now, own_token=own_token):
        return ()
    found = []
    for entry in sorted(fs.list_directory(location, missing=ConflictError), key=lambda entry: entry.name):
        if not entry.is_directory or entry.is_symlink:
            continue
        what = _what(entry.name, txns)
        orphan = None if what is None else _measured(fs, location, entry, what, now)
        if orphan is not None and orphan.idle_seconds > _patience(orphan, idle_seconds):
            found.append(orphan)
    return tuple(found)


def _what(name: str, txns: ValidTxnList) -> str | None:
    if name.startswith(STAGING_PREFIX):
        return _FOREIGN[0]
    if name.startswith(HIVE_STAGING_PREFIX):
        return _FOREIGN[1]
    parsed = parse_directory(name, Generation.HIVE4)
    if parsed is not None and parsed.visibility_txn and txns.is_txn_aborted(parsed.visibility_txn):
        return f"the result of transaction {parsed.visibility_txn}, which was aborted"
    return None


def _patience(orphan: Orphan, idle_seconds: float) -> float:
    """Only Hive knows whether its query or compactor still lives: its staging is left for a day at least."""
    return max(idle_seconds, LITTER_SECONDS) if orphan.reason in _FOREIGN else idle_seconds


def _measured(fs: FileSystem, location: str, entry: Entry, what: str, now: float) -> Orphan | None:
    found = contents(fs, location, entry)
    if found is None:
        return None
    if STAGING_MARKER in found.names:
        what = "staging of a dead run of this engine"
    return Orphan(path=entry.name, bytes=found.bytes, idle_seconds=now - found.modified, reason=what)
