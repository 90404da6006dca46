"""For how long a server that was waited for in vain is not asked."""

from __future__ import annotations

import pickle

from acidlib.stores.filesystem import UNREACHABLE_SECONDS, UnreachableServers


def test_for_a_minute_the_reason_is_known() -> None:
    now = [0.0]
    known = UnreachableServers(lambda: now[0])
    assert known.reason("a") is None
    known.note("a", "gone")
    assert (known.reason("a"), known.reason("b")) == ("gone", None)
    assert pickle.loads(pickle.dumps(known)).reason("a") is None
    now[0] = UNREACHABLE_SECONDS
    assert known.reason("a") is None
