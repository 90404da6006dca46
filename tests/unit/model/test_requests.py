"""Compaction requests: letters of their kinds and states, the facts noted of them, and the text form of maps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from located import at

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.errors import RefusedError
from acidlib.model.requests import (
    NO_FACTS,
    ActivityMark,
    CompactionRequest,
    CompactionType,
    RequestFacts,
    State,
    commit_note,
    format_map,
    parse_map,
    split_properties,
)
from acidlib.model.tables import TableRef
from acidlib.queue.sql import SqlQueue


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


def test_what_is_noted_of_a_commit_is_read_of_rebalances_alone() -> None:
    values = (987_654_321, 1_795_468_797_123)
    note = commit_note(*values)
    assert len(note) <= 32  # COMPACTION_QUEUE.CQ_HADOOP_JOB_ID
    request = CompactionRequest(id=1, ref=TableRef("d", "t"), type=CompactionType.REBALANCE, hadoop_job_id=note)
    assert request.noted_commit == values
    assert replace(request, type=CompactionType.MAJOR).noted_commit is None
    for other in (None, "job_1_2", "acid:1:2:3"):
        assert replace(request, hadoop_job_id=other).noted_commit is None


ALL = RequestFacts(
    location=at("/w/t"),
    root="/w",
    directory="boot:1:2",
    write_ids=ValidWriteIdList.parse("d.t:9:7:7,8:4"),
    generation=Generation.HIVE4,
    table_kind="full",
    columns="struct<a:int>",
    visibility_txn=0,
    identity_file="",
    metastore="thrift://h:9083",
    process="host 1 2",
    deltas=0,
    bytes=0,
    reason="it is full",
    lock_tries=2,
    outputs=("base_9", "delta_1_2"),
    published_ms=5,
    inputs="01.23",
    undone="_acidlib_undone.1.5",
    evidence={"base_9": ActivityMark(txn=1, lock=2, ms=3), "": ActivityMark(txn=4, lock=5, ms=6)},
    table_id="1 /w/t",
    first_seen={"base_8": 1.5},
    files="0123",
    conflict=True,
    unverified=("base_9",),
    differs=True,
)
STORED = {
    "location": "/w/t",
    "acidlib.root": "/w",
    "acidlib.directory": "boot:1:2",
    "acidlib.write.ids": "d.t:9:7:7,8:4",
    "acidlib.hive.version": "4",
    "acidlib.table.kind": "full",
    "acidlib.columns": "struct<a:int>",
    "acidlib.visibility.txn": "0",
    "acidlib.witness": "",
    "acidlib.metastore": "thrift://h:9083",
    "acidlib.process": "host 1 2",
    "acidlib.deltas": "0",
    "acidlib.bytes": "0",
    "acidlib.reason": "it is full",
    "acidlib.lock.tries": "2",
    "acidlib.outputs": "base_9,delta_1_2",
    "acidlib.published.ms": "5",
    "acidlib.inputs": "01.23",
    "acidlib.undone": "_acidlib_undone.1.5",
    "acidlib.evidence": '{"base_9":[1,2,3],"":[4,5,6]}',
    "acidlib.table.id": "1 /w/t",
    "acidlib.first.seen": '{"base_8": 1.5}',
    "acidlib.files": "0123",
    "acidlib.conflict": "true",
    "acidlib.unverified": "base_9",
    "acidlib.differs": "true",
}
UNREADABLE = {
    "acidlib.directory": ("", "1:2", "boot:1:x"),
    "acidlib.write.ids": ("", "d.t", "d.t:x:1::"),
    "acidlib.hive.version": ("four", "5", ""),
    "acidlib.visibility.txn": ("x",),
    "acidlib.deltas": ("many",),
    "acidlib.bytes": ("1e3",),
    "acidlib.lock.tries": ("x",),
    "acidlib.published.ms": ("x", "9" * 5000),
    "acidlib.evidence": ("", "[]", "7", '{"d":[1,2]}', '{"d":[1,2,Infinity]}', '{"d":"abc"}', "[" * 100_000),
    "acidlib.first.seen": ("oops", "[1]", '{"d":null}'),
}


def request(facts: RequestFacts = NO_FACTS, **more: object) -> CompactionRequest:
    made = CompactionRequest(id=0, ref=TableRef("d", "t"), type=CompactionType.MAJOR, facts=facts)
    return replace(made, **more)


def test_facts_are_stored_as_ever() -> None:
    assert ALL.properties() == STORED
    assert split_properties(STORED) == (ALL, {})


def test_every_fact_is_stored() -> None:
    assert {name for name in RequestFacts.__slots__ if getattr(ALL, name) == getattr(NO_FACTS, name)} == {"problems"}


def test_what_is_not_stated_is_not_stored() -> None:
    assert NO_FACTS.properties() == {}
    assert split_properties({"orc.compress": "ZLIB", "acidlib.other": "x"}) == (
        NO_FACTS,
        {"orc.compress": "ZLIB", "acidlib.other": "x"},
    )


def test_no_directories_is_a_statement() -> None:
    assert RequestFacts(outputs=()).properties() == {"acidlib.outputs": ""}
    assert split_properties({"acidlib.outputs": ""})[0].outputs == ()


def test_newer_facts_take_the_place_of_older_ones() -> None:
    found = ALL.updated(RequestFacts(lock_tries=3, outputs=(), first_seen={"base_9": 2.0}))
    assert found == replace(ALL, lock_tries=3, outputs=(), first_seen={"base_9": 2.0})
    assert ALL.updated(NO_FACTS) == ALL


@pytest.mark.parametrize(("key", "text"), [(key, text) for key, texts in UNREADABLE.items() for text in texts])
def test_what_is_not_understood_is_kept_and_told(key: str, text: str) -> None:
    facts, others = split_properties(STORED | {key: text})
    assert others == {key: text}
    (name,) = facts.problems
    assert getattr(facts, name) == getattr(NO_FACTS, name)
    stored = request(facts, id=7, properties=tuple(others.items()))
    with pytest.raises(
        RefusedError,
        match=r"Cannot clean d\.t: request 7 is not understood, as one of a newer version may be: its acidlib\.",
    ):
        stored.require_understood("clean")
    with pytest.raises(RefusedError, match="Cannot clean"):
        stored.require_understood("clean", name)
    stored.require_understood("clean", "location")


def test_a_request_that_is_not_understood_stops_no_others(tmp_path: Path) -> None:
    odd = (("acidlib.hive.version", "four"), ("acidlib.evidence", "oops"))
    with SqlQueue(f"sqlite:///{tmp_path}/queue.db") as queue:
        queue.enqueue(request(RequestFacts(location=at("/w/t")), properties=odd), now_ms=1)
        queue.enqueue(request(ALL, ref=TableRef("d", "u")), now_ms=1)
        other, one = queue.show()
        assert (other.facts, other.properties) == (ALL, ())
        assert sorted(one.facts.problems) == ["evidence", "generation"]
        assert queue.claim_id(1, "w", 2) is not None
        queue.end(1, State.REFUSED, 3, worker_id="w", reason="not understood", facts=RequestFacts(files="f"))
        refused = queue.find(1)
        assert refused is not None
        assert (refused.properties, refused.facts) == (odd, replace(one.facts, files="f"))


def test_of_evidence_the_ids_tell_which_is_newer() -> None:
    older, newer = ActivityMark(txn=1, lock=9, ms=9), ActivityMark(txn=2, lock=1, ms=1)
    assert max(older, newer) == newer


def test_a_map_as_in_hives_test() -> None:
    assert format_map({}) == "0:"
    assert parse_map("0:") == {}
    entries = {"akey": "aval", "bkey": None, "ckey": ""}
    assert format_map(entries) == "3:4:akey4:aval4:bkey-1:4:ckey0:"
    assert parse_map("3:4:akey4:aval4:bkey-1:4:ckey0:") == entries
    assert parse_map("1:-1:-1:") == {None: None}


def test_lengths_are_java_characters() -> None:
    assert format_map({"\U0001f600:": "é"}) == "1:3:\U0001f600:1:é"
    assert parse_map("1:3:\U0001f600:1:é") == {"\U0001f600:": "é"}
    assert parse_map("1:1:\u3a3a1:\u003a") == {"\u3a3a": ":"}


@pytest.mark.parametrize("text", ["", "x", "1", "-1:", "2:1:a1:b", "1:1:a2:b", "1:1:a1:bc", "1:-2:1:b", "9:"])
def test_texts_that_do_not_parse(text: str) -> None:
    with pytest.raises(RefusedError, match="Cannot read"):
        parse_map(text)
