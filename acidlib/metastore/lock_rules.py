"""Decisions about locks: what our own are called, which block which, and which of ours have dead owners; no I/O.

Source: Hive `TxnHandler.lock`, and the widths of table HIVE_LOCKS in Hive 3.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import unquote

from acidlib.errors import WHEN_FREE, BusyError, ConflictError
from acidlib.metastore.values import HeldLock, LockComponent, LockType

PLACES = "acidlib.places"
"""The database of the locks by which a compactor holds the place it works on; no Hive database can have this name."""

AGENT = "acidlib"
"""The agent of every lock of ours begins with it."""

AGENT_WIDTH, TABLE_WIDTH, PARTITION_WIDTH = 128, 128, 767
DEAD_AFTER_TIMEOUTS = 2
"""A lock counts as dead after so many timeouts without a heartbeat; its owner has stopped relying on it after one."""

SHOWN_LOCKS = 5


def agent_text(agent: str, token: str = "") -> str:
    """The agent that Hive shows for a lock: at most 128 characters, of which `token` makes it unique."""
    named = agent if agent.startswith(AGENT) else f"{AGENT} {agent}"
    return f"{named[: AGENT_WIDTH - len(token) - 1]} {token}".rstrip()


def lock_token(process: str, unique: str) -> str:
    """The end of the agent of a lock: the identity of its process, if it is known, and what makes it unique."""
    return f"{process}:{unique}" if process else unique


def place_table(database: str, table: str) -> str:
    """The name under `PLACES` that stands for a table; the same for equal tables only."""
    name = f"{database}.{table}".lower()
    if name.isascii() and len(name) <= TABLE_WIDTH:
        return name
    return f"{_ascii(name)[: TABLE_WIDTH - 33]}.{_digest(name)[:32]}"


def place_partition(partition: str | None) -> str | None:
    """The name that stands for a partition; the same for equal partitions only.

    Hive 3.1 puts the whole name of a partition into lower case in its locks, values included, so two partitions that
    differ in case alone would be one. The result has to look like a partition's name, because Hive 4 parses it.
    """
    if partition is None:
        return None
    with_digest = f"{partition}/{AGENT}={_digest(partition)[:16]}"
    if not partition.isascii() or len(with_digest) > PARTITION_WIDTH:
        return f"{AGENT}={_digest(partition)}"
    return partition if partition == partition.lower() else with_digest


def blocking_locks(locks: Iterable[HeldLock], wanted: LockComponent, *, lock_id: int) -> tuple[HeldLock, ...]:
    """The locks that a wanted SHARED_READ, EXCL_WRITE or EXCLUSIVE lock, of this id, has to wait for, by id.

    Only older locks count, waiting ones too. A shared lock of the whole database blocks nobody.
    """
    found = {
        lock.lock_id: lock
        for lock in locks
        if lock.lock_id < lock_id
        and lock.database.lower() == wanted.database.lower()
        and _overlaps(lock, wanted)
        and _excludes(wanted.type, lock.type)
        and not (lock.table is None and lock.type is LockType.SHARED_READ)
    }
    return tuple(found[one] for one in sorted(found))


def _excludes(wanted: LockType, held: LockType) -> bool:
    if LockType.EXCLUSIVE in (wanted, held):
        return True
    return wanted is LockType.EXCL_WRITE and held in (LockType.EXCL_WRITE, LockType.SHARED_WRITE)


def dead_locks(
    locks: Iterable[HeldLock], *, now_ms: int, timeout_seconds: float, has_ended: Callable[[str], bool]
) -> tuple[HeldLock, ...]:
    """Our locks whose owners are dead: without a transaction, and without a heartbeat for two timeouts or a process.

    `now_ms` is by the clock of the server's database; `has_ended` is asked with the identity of a process. Hive 3.1
    drops such locks by itself only where its initiator runs.
    """
    limit = DEAD_AFTER_TIMEOUTS * timeout_seconds * 1000
    return tuple(
        lock
        for lock in locks
        if not lock.txn_id
        and (lock.agent or "").startswith(AGENT)
        and ((lock.heartbeat_ms and now_ms - lock.heartbeat_ms > limit) or has_ended(_process(lock)))
    )


def refusal(begin: str, blocking: Sequence[HeldLock]) -> ConflictError:
    """Return the error for a lock that is not granted: `BusyError` where runs of this engine alone are in the way.

    begin  what cannot be done, as far as `: `
    """
    if blocking and all((lock.agent or "").startswith(AGENT) for lock in blocking):
        return BusyError(f"{begin}: held by {describe_holders(blocking)}; {WHEN_FREE}")
    return ConflictError(f"{begin}: held by {describe_holders(blocking)}; call again when it is released")


def describe_holders(locks: Sequence[HeldLock]) -> str:
    """Who holds these locks, for messages; at most five of them."""
    described = [_describe(lock) for lock in locks[:SHOWN_LOCKS]]
    if len(locks) > SHOWN_LOCKS:
        described.append(f"{len(locks) - SHOWN_LOCKS} more")
    return ", ".join(described) or "a lock that is gone by now"


def _process(lock: HeldLock) -> str:
    process, colon, _ = (lock.agent or "").rpartition(" ")[2].rpartition(":")
    return process if colon else ""


def _describe(lock: HeldLock) -> str:
    parts = [f"{lock.type.name} by {lock.user} on {lock.host}"]
    if lock.txn_id:
        parts.append(f"transaction {lock.txn_id}")
    if lock.agent:
        parts.append(lock.agent)
    return f"lock {lock.lock_id} ({', '.join(parts)})"


def _overlaps(lock: HeldLock, wanted: LockComponent) -> bool:
    if lock.table is None or wanted.table is None:
        return True
    if lock.table.lower() != wanted.table.lower():
        return False
    if lock.partition is None or wanted.partition is None:
        return True
    return _comparable(lock.partition) == _comparable(wanted.partition)


def _comparable(partition: str) -> str:
    """A partition's name of either generation: Hive 3.1 has it in lower case, Hive 4 with escapes escaped again."""
    return unquote(unquote(partition)).lower()


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode().replace("?", "_")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
