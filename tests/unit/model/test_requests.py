"""Compaction requests: letters and names of their kinds and states."""

from dataclasses import replace

import pytest

from acidlib.errors import RefusedError
from acidlib.model.names import Generation
from acidlib.model.requests import CommitNote, CompactionRequest, CompactionType, State
from acidlib.model.tables import TableRef


def test_letters_of_kinds_and_states() -> None:
    assert {kind.value: kind.label for kind in CompactionType} == {
        "i": "MINOR",
        "a": "MAJOR",
        "r": "REBALANCE",
        "c": "ABORT_TXN_CLEANUP",
    }
    assert {state.value: state.label for state in State} == {
        "i": "initiated",
        "w": "working",
        "r": "ready for cleaning",
        "f": "failed",
        "s": "succeeded",
        "a": "did not initiate",
        "c": "refused",
        "x": "aborted",
    }
    assert State.ATTEMPTED.label_of(Generation.HIVE3) == "attempted"
    assert State.ATTEMPTED.label_of(Generation.HIVE4) == "did not initiate"
    assert State.parse("attempted") is State.parse("did not initiate") is State.parse("a")
    assert CompactionType.parse("Major") is CompactionType.parse("a") is CompactionType.MAJOR


def test_unknown_kinds_and_states() -> None:
    with pytest.raises(RefusedError, match="no such type"):
        CompactionType.parse("rebalanced")
    with pytest.raises(RefusedError, match="no such state"):
        State.parse("done")


def test_request() -> None:
    request = CompactionRequest(
        id=1, ref=TableRef("d", "t", "p=1"), type=CompactionType.MAJOR, properties=(("k", "v"),)
    )
    assert str(request.ref) == "d.t.p=1"
    assert request.ref == ("d", "t", "p=1")


def test_what_is_noted_of_a_commit_is_read_of_rebalances_alone() -> None:
    note = CommitNote(next_txn_id=987_654_321, commit_ms=1_795_468_797_123)
    assert len(note.text) <= 32  # COMPACTION_QUEUE.CQ_HADOOP_JOB_ID
    request = CompactionRequest(id=1, ref=TableRef("d", "t"), type=CompactionType.REBALANCE, hadoop_job_id=note.text)
    assert request.noted_commit == note
    assert replace(request, type=CompactionType.MAJOR).noted_commit is None
    for other in (None, "job_1_2", "acid:1:2:3"):
        assert replace(request, hadoop_job_id=other).noted_commit is None
