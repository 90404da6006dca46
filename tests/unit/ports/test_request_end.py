"""How a request of Hive 4 ends that its transaction's commit has not ended: by its row as it is now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from acidlib.model.requests import CompactionRequest, CompactionType, State
from acidlib.model.results import Outcome
from acidlib.model.tables import TableRef
from acidlib.ports.hive4 import RequestEnd, request_end

OURS = CompactionRequest(
    id=7, ref=TableRef("d", "t"), type=CompactionType.MAJOR, state=State.WORKING, worker_id="w", txn_id=3
)
READY = replace(OURS, state=State.READY_FOR_CLEANING, worker_id=None)
FAILED, REFUSED, GIVEN_BACK, LEFT_ALONE = RequestEnd


@pytest.mark.parametrize(
    ("outcome", "row", "is_marked", "is_returned", "expected"),
    [
        (Outcome.FAILED, OURS, False, True, FAILED),
        (Outcome.REFUSED, OURS, False, True, REFUSED),
        (Outcome.ALREADY_COMPACT, OURS, False, True, REFUSED),
        (Outcome.CONFLICT, OURS, False, True, GIVEN_BACK),
        (Outcome.SKIPPED, OURS, False, True, GIVEN_BACK),
        (Outcome.CONFLICT, OURS, False, False, REFUSED),
        (Outcome.CONFLICT, replace(OURS, txn_id=None), False, True, GIVEN_BACK),
        # not ours any more
        (Outcome.FAILED, None, False, True, LEFT_ALONE),
        (Outcome.FAILED, replace(OURS, worker_id="another"), False, True, LEFT_ALONE),
        (Outcome.FAILED, replace(OURS, state=State.INITIATED), False, True, LEFT_ALONE),
        (Outcome.CONFLICT, READY, False, True, LEFT_ALONE),
        # marked as compacted, or perhaps, and its transaction was aborted: it would block its place for ever
        (Outcome.CONFLICT, READY, True, True, FAILED),
        (Outcome.REFUSED, OURS, True, False, FAILED),
        # marked, and meanwhile another's
        (Outcome.FAILED, replace(READY, txn_id=4), True, True, LEFT_ALONE),
        (Outcome.FAILED, replace(READY, state=State.SUCCEEDED), True, True, LEFT_ALONE),
        (Outcome.FAILED, None, True, True, LEFT_ALONE),
    ],
)
def test_a_request_ends(
    outcome: Outcome, row: CompactionRequest | None, is_marked: bool, is_returned: bool, expected: RequestEnd
) -> None:
    found = request_end(outcome, row, worker_id="w", txn_id=3, is_marked=is_marked, is_returned=is_returned)
    assert found is expected
