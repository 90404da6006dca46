"""What each call changes at a metastore, and so what is done when its answer is lost, over a socket as over HTTP."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from acidlib.errors import DefectError


class Effect(enum.Enum):
    """What a call changes on the server, and so what may be done when its answer is lost."""

    NONE = "nothing: it is repeated"
    IDEMPOTENT = "the same once or twice: it is repeated; if no answer ever comes, the outcome is unknown"
    NOT_IDEMPOTENT = "something each time: it is never repeated once anything was sent"


# why, where it is not that a call only reads
_CHANGES: Mapping[str, tuple[Effect, str]] = {
    "heartbeat": (Effect.NONE, "a life that is prolonged twice is as long"),
    "check_lock": (Effect.NONE, "a lock that is granted meanwhile stays granted"),
    "open_txns": (Effect.NOT_IDEMPOTENT, "each opens another transaction"),
    "commit_txn": (Effect.IDEMPOTENT, "Hive 4 takes a second one; Hive 3.1 may have forgotten the transaction"),
    "abort_txn": (Effect.IDEMPOTENT, "one that is aborted stays aborted"),
    "allocate_table_write_ids": (Effect.IDEMPOTENT, "a transaction has one write id of a table"),
    "add_write_ids_to_min_history": (Effect.NOT_IDEMPOTENT, "each adds rows"),
    "lock": (Effect.NOT_IDEMPOTENT, "each is another request for locks"),
    "unlock": (Effect.IDEMPOTENT, "one that does not exist is no error"),
    "compact2": (Effect.NOT_IDEMPOTENT, "the first may have been done and gone from the queue"),
    "find_next_compact2": (Effect.NOT_IDEMPOTENT, "each hands out another request"),
    "update_compactor_state": (Effect.IDEMPOTENT, "each writes the same into the row"),
    "set_hadoop_jobid": (Effect.IDEMPOTENT, "each writes the same into the row"),
    "mark_compacted": (Effect.NOT_IDEMPOTENT, "it may be another run's by then: the server does not check whose it is"),
    "mark_cleaned": (Effect.NOT_IDEMPOTENT, "the request has left the queue by then"),
    "mark_failed": (Effect.NOT_IDEMPOTENT, "the request has left the queue by then"),
    "mark_refused": (Effect.NOT_IDEMPOTENT, "the request has left the queue by then"),
    "alter_table_req": (Effect.NOT_IDEMPOTENT, "the second finds another value than the one that it expects"),
    "abort_Compactions": (Effect.NOT_IDEMPOTENT, "of the second the answer would be that they are not there"),
}
_READS = frozenset(
    (
        *("get_catalogs", "get_databases", "get_all_databases", "get_database", "get_database_req", "get_all_tables"),
        *("get_table_req", "get_table_objects_by_name_req", "get_partition_names", "fetch_partition_names_req"),
        *("get_partitions_by_names", "get_partitions_by_names_req", "get_config_value"),
        *("get_open_txns", "get_open_txns_req", "get_open_txns_info", "get_valid_write_ids"),
        *("show_locks", "show_compact"),
    )
)


def effect_of(call: str) -> Effect:
    """What a call changes; raises DefectError for one that nobody has thought about."""
    if call in _READS:
        return Effect.NONE
    if call not in _CHANGES:
        raise DefectError(f"Cannot call {call}: because it is not known what becomes of it when it is repeated")
    return _CHANGES[call][0]
