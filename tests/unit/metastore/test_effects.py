"""What may be asked twice: every call of the interface has a rule, and no rule is of a call that there is not."""

from __future__ import annotations

import pytest
from fake_metastore import TYPES
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore

from acidlib.errors import DefectError
from acidlib.metastore import connection as effects
from acidlib.metastore.connection import Effect, effect_of

# of the handshake, in which nothing is repeated by itself
HANDSHAKE = {"set_ugi", "getVersion"}


def test_every_call_has_a_rule() -> None:
    calls = set(TYPES.Metastore.thrift_services) - HANDSHAKE
    ruled = {*effects._READS, *effects._CHANGES}
    assert calls <= ruled
    assert not effects._READS & set(effects._CHANGES)
    assert all(hasattr(ThriftHiveMetastore.Client, call) for call in ruled - calls)


def test_only_what_is_known_to_be_harmless_is_repeated() -> None:
    never = {call for call in TYPES.Metastore.thrift_services if call not in HANDSHAKE}
    never = {call for call in never if effect_of(call) is Effect.NOT_IDEMPOTENT}
    assert never == {
        *("open_txns", "lock", "compact2", "find_next_compact2", "add_write_ids_to_min_history", "abort_Compactions"),
        *("mark_compacted", "mark_cleaned", "mark_failed", "mark_refused", "alter_table_req"),
    }
    assert all(call.startswith(("get_", "show_", "fetch_")) for call in effects._READS)


def test_a_call_without_a_rule_is_a_defect() -> None:
    with pytest.raises(DefectError, match=r"^Cannot call drop_table: because it is not known what becomes of it"):
        effect_of("drop_table")
