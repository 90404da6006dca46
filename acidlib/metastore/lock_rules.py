"""Decisions about locks: what our own are called, who stands in whose way, and which of ours are dead; no I/O.

Source: Hive `TxnHandler.lock`, and the widths of table HIVE_LOCKS in Hive 3.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import unquote

from acidlib.metastore.values import HeldLock, LockType

PLACES = "acidlib.places"
"""The database, which no Hive database can be called, under which a compactor holds the place it works on."""

AGENT = "acidlib"
"""Every lock of ours is told by an agent that begins with it."""

AGENT_WIDTH, TABLE_WIDTH, PARTITION_WIDTH = 128, 128, 767
DEAD_AFTER_TIMEOUTS = 2
"""A lock counts as dead after so many timeouts without a heartbeat; its owner gives itself up after one."""

SHOWN_LOCKS = 5


def agent_text(agent: str, token: str = "") -> str:
    """The agent that a lock is told by: at most 128 characters, of which `token` makes it one of a kind."""
    named = agent if agent.startswith(AGENT) else f"{AGENT} {agent}"
    return f"{named[: AGENT_WIDTH - len(token) - 1]} {token}".rstrip()


def lock_token(process: str, unique: str) -> str:
    """What ends the agent of a lock: the identity of its process, if it is known, and what makes it one of a kind."""
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
    differ in case alone would be one. The result has to look like a partition's name: Hive 4 takes it apart.
    """
    if partition is None:
        return None
    known_as = f"{partition}/{AGENT}={_digest(partition)[:16]}"
    if not partition.isascii() or len(known_as) > PARTITION_WIDTH:
        return f"{AGENT}={_digest(partition)}"
    return partition if partition == partition.lower() else known_as


def in_the_way(
    locks: Iterable[HeldLock],
    *,
    lock_id: int,
    type: LockType,
    database: str,
    table: str,
    partition: str | None,
) -> tuple[HeldLock, ...]:
    """The locks that a SHARED_READ or EXCLUSIVE lock with this id has to wait for, by id.

    Only older locks count, waiting ones too. A shared lock of the whole database does not stand in anybody's way.
    """
    found = {
        lock.lock_id: lock
        for lock in locks
        if lock.lock_id < lock_id
        and lock.database.lower() == database.lower()
        and _meets(lock, table, partition)
        and (type is LockType.EXCLUSIVE or lock.type is LockType.EXCLUSIVE)
        and not (lock.table is None and lock.type is LockType.SHARED_READ)
    }
    return tuple(found[one] for one in sorted(found))


def dead_locks(
    locks: Iterable[HeldLock], *, now_ms: int, timeout_seconds: float, has_ended: Callable[[str], bool]
) -> tuple[HeldLock, ...]:
    """Our locks whose owners are dead: without a transaction, and without a heartbeat for two timeouts or a process.

    `now_ms` is by the clock of the server's database; `has_ended` tells of a process by its identity. Hive 3.1 drops
    such locks by itself only where its initiator runs.
    """
    limit = DEAD_AFTER_TIMEOUTS * timeout_seconds * 1000
    return tuple(
        lock
        for lock in locks
        if not lock.txn_id
        and (lock.agent or "").startswith(AGENT)
        and ((lock.heartbeat_ms and now_ms - lock.heartbeat_ms > limit) or has_ended(_process(lock)))
    )


def holders(locks: Sequence[HeldLock]) -> str:
    """Who holds these locks, for people."""
    told = [_holder(lock) for lock in locks[:SHOWN_LOCKS]]
    if len(locks) > SHOWN_LOCKS:
        told.append(f"{len(locks) - SHOWN_LOCKS} more")
    return ", ".join(told) or "a lock that is gone by now"


def _process(lock: HeldLock) -> str:
    process, colon, _ = (lock.agent or "").rpartition(" ")[2].rpartition(":")
    return process if colon else ""


def _holder(lock: HeldLock) -> str:
    parts = [f"{lock.type.name} by {lock.user} on {lock.host}"]
    if lock.txn_id:
        parts.append(f"transaction {lock.txn_id}")
    if lock.agent:
        parts.append(lock.agent)
    return f"lock {lock.lock_id} ({', '.join(parts)})"


def _meets(lock: HeldLock, table: str, partition: str | None) -> bool:
    if lock.table is None:
        return True
    if lock.table.lower() != table.lower():
        return False
    return lock.partition is None or partition is None or _plain(lock.partition) == _plain(partition)


def _plain(partition: str) -> str:
    """A partition's name as both generations tell it: 3.1 in lower case, 4 with the escapes escaped once more."""
    return unquote(unquote(partition)).lower()


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode().replace("?", "_")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
