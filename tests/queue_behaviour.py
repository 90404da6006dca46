"""What a queue in tables of our own does, in whatever database: Hive's transitions, ownership, duplicates, history."""

from dataclasses import replace

import pytest
from claiming import claim_next
from located import at

from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.config.settings import default_settings
from acidlib.errors import ConflictError, RefusedError
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts, State
from acidlib.model.tables import TableRef
from acidlib.ports.sql import history_retention
from acidlib.queue.sql import SqlQueue

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
DAY_MS = 86_400_000
KEPT = history_retention(default_settings())
WRITE_IDS = ValidWriteIdList.parse("db.t:9:9223372036854775807::")


def request(
    table: str = "t",
    *,
    partition: str | None = None,
    kind: CompactionType = MAJOR,
    location: str | None = "/w/t",
    highest_write_id: int | None = None,
) -> CompactionRequest:
    facts = RequestFacts() if location is None else RequestFacts(location=at(location), write_ids=WRITE_IDS)
    return CompactionRequest(
        id=0, ref=TableRef("db", table, partition), type=kind, facts=facts, highest_write_id=highest_write_id
    )


def states(queue: SqlQueue) -> list[tuple[int, str]]:
    return [(row.id, row.state.value) for row in queue.show()]


HOSTILE = [
    "x'; DROP TABLE COMPACTION_QUEUE; --",
    'x"; DELETE FROM "COMPACTION_QUEUE" WHERE "a"="a',
    "x') OR ('1'='1",
    "b\\'b\\",
    "`t`;",
    "%",
    "%s %(a)s {a} $1",
    ":cq_id ?",
    "a_c",
    "abc",
    "line\nbreak\ttab",
    "\x1b[2J\u202eünï",
]


class QueueBehaviour:
    """To be inherited by tests that have a fixture `queue`."""

    def test_a_request_from_enqueueing_to_its_history(self, queue: SqlQueue) -> None:
        assert queue.enqueue(request(), now_ms=10).id == 1
        claimed = claim_next(queue, MAJOR, "w-1", 20)
        assert claimed is not None
        assert (claimed.state, claimed.worker_id, claimed.start_ms) == (State.WORKING, "w-1", 20)
        queue.change(1, "w-1", facts=RequestFacts(reason="r"))
        facts = RequestFacts(outputs=("base_0000009",), reason="s")
        queue.mark_compacted(1, "w-1", 30, highest_write_id=9, facts=facts)
        (ready,) = queue.ready_for_cleaning()
        assert (ready.worker_id, ready.highest_write_id, ready.commit_ms) == (None, 9, 30)
        assert ready.facts == RequestFacts(
            location=at("/w/t"), write_ids=WRITE_IDS, reason="s", outputs=("base_0000009",)
        )
        queue.change(1, None, error_message="a reader is open", retry_retention_ms=300)
        assert queue.ready_for_cleaning()[0].retry_retention_ms == 300
        queue.end(1, State.SUCCEEDED, 50)
        assert queue.ready_for_cleaning() == ()
        (done,) = queue.show()
        assert (done.state, done.start_ms, done.end_ms, done.enqueue_ms) == (State.SUCCEEDED, 20, 50, 10)
        assert (done.facts, done.properties, done.error_message) == (ready.facts, (), None)
        assert queue.find(1) == done
        assert queue.find(2) is None

    def test_requests_are_claimed_in_order_and_by_kind(self, queue: SqlQueue) -> None:
        for table, kind in (("a", MINOR), ("b", MAJOR), ("c", MINOR)):
            queue.enqueue(request(table, kind=kind), now_ms=1)
        assert [row.ref.table for row in queue.waiting()] == ["a", "b", "c"]
        assert [row.ref.table for row in queue.waiting(MINOR)] == ["a", "c"]
        first = claim_next(queue, MINOR, "w", 2)
        assert first is not None
        assert first.ref.table == "a"
        assert queue.claim_id(1, "v", 3) is None
        second = queue.claim_id(3, "v", 3)
        assert second is not None
        assert (second.ref.table, second.worker_id) == ("c", "v")
        assert claim_next(queue, MINOR, "w", 4) is None

    @pytest.mark.parametrize("working", [False, True])
    def test_a_second_request_for_the_same_place_is_not_accepted(self, queue: SqlQueue, working: bool) -> None:
        queue.enqueue(request(), now_ms=1)
        if working:
            claim_next(queue, MAJOR, "w", 2)
        answer = queue.enqueue(request(kind=MINOR), now_ms=3)
        label = "working" if working else "initiated"
        assert (answer.accepted, answer.id, answer.state.label) == (False, 1, label)
        assert answer.reason == f"Compaction is already scheduled with state='{label}' and id=1"
        assert not queue.enqueue(request(location=None), now_ms=3).accepted
        assert queue.enqueue(request(partition="p=1"), now_ms=3).accepted
        assert queue.enqueue(request("u"), now_ms=3).accepted
        assert queue.enqueue(request(location="/elsewhere/t"), now_ms=3).accepted
        assert len(queue.show()) == 4

    def test_what_is_ready_for_cleaning_refuses_only_when_nothing_is_new(self, queue: SqlQueue) -> None:
        queue.enqueue(request(), now_ms=1)
        claim_next(queue, MAJOR, "w", 2)
        queue.mark_compacted(1, "w", 3, highest_write_id=22)
        refused = queue.enqueue(request(highest_write_id=22), now_ms=4)
        assert (refused.accepted, refused.state) == (False, State.READY_FOR_CLEANING)
        assert refused.reason == "Compaction is already scheduled with state='ready for cleaning' and id=1"
        accepted = queue.enqueue(request(highest_write_id=23), now_ms=4)
        assert accepted.accepted
        assert queue.waiting()[0].highest_write_id is None  # it is recorded with the result

    def test_several_are_added_at_once(self, queue: SqlQueue) -> None:
        answers = queue.enqueue_all([request(), request(table="other"), request()], now_ms=5)
        assert [(answer.id, answer.accepted) for answer in answers] == [(1, True), (2, True), (1, False)]
        assert [(row.id, row.ref.table, row.enqueue_ms) for row in queue.waiting()] == [(1, "t", 5), (2, "other", 5)]
        assert queue.enqueue_all([], now_ms=6) == []

    def test_several_are_cleaned_at_once_but_not_what_is_not_ready(self, queue: SqlQueue) -> None:
        for number, table in enumerate("abc", start=1):
            queue.enqueue(request(table), now_ms=1)
            assert queue.claim_id(number, "w", 2)
            if table != "b":
                queue.mark_compacted(number, "w", 3, facts=RequestFacts(reason=table))
        first, second, third, fourth = queue.mark_cleaned([1, 2, 3, 4], 5)
        assert (first, third) == (None, None)
        assert "request 2" in str(second)
        assert "request 4" in str(fourth)
        assert [(row.id, row.state, row.facts.reason, row.end_ms) for row in queue.show()] == [
            (3, State.SUCCEEDED, "c", 5), (2, State.WORKING, None, None), (1, State.SUCCEEDED, "a", 5),
        ]  # fmt: skip

    def test_what_was_needless_leaves_nothing(self, queue: SqlQueue) -> None:
        queue.enqueue(request(), now_ms=1)
        for worker in ("w", "another"):
            with pytest.raises(ConflictError, match="request 1"):
                queue.mark_needless(1, 2, worker_id=worker)
            claim_next(queue, MAJOR, "w", 2)
        queue.mark_needless(1, 3, worker_id="w")
        assert (queue.show(), queue.find(1)) == ((), None)
        assert queue.enqueue(request(), now_ms=4).id == 2  # a number is never had twice

    def test_a_worker_ends_only_what_is_its_own(self, queue: SqlQueue) -> None:
        queue.enqueue(request(), now_ms=1)
        claim_next(queue, MAJOR, "w", 2)
        for call in (
            lambda: queue.mark_compacted(1, "other", 3),
            lambda: queue.assert_owned(1, "other"),
            lambda: queue.change(1, "other", run_as="etl"),
            lambda: queue.change(1, "other", facts=RequestFacts(reason="b")),
            lambda: queue.give_back(1, "other"),
            lambda: queue.end(1, State.FAILED, 3, worker_id="other", reason="reason"),
            lambda: queue.end(1, State.REFUSED, 3, worker_id="other", reason="reason"),
            lambda: queue.end(1, State.FAILED, 3, reason="reason"),
            lambda: queue.end(1, State.SUCCEEDED, 3),
            lambda: queue.mark_compacted(2, "w", 3),
        ):
            with pytest.raises(ConflictError, match=r"Cannot change compaction request [12]: it is gone"):
                call()
        queue.assert_owned(1, "w")
        assert queue.show() == (queue.find(1),)
        assert states(queue) == [(1, "w")]

    def test_failing_twice_is_a_conflict(self, queue: SqlQueue) -> None:
        queue.enqueue(request(), now_ms=1)
        claim_next(queue, MAJOR, "w", 2)
        queue.end(1, State.FAILED, 3, worker_id="w", reason="Cannot read x: y")
        with pytest.raises(ConflictError):
            queue.end(1, State.FAILED, 4, worker_id="w", reason="again")
        (row,) = queue.show()
        assert (row.state, row.error_message, row.end_ms, row.worker_id) == (State.FAILED, "Cannot read x: y", 3, "w")

    def test_what_is_undone_has_failed_wherever_it_was(self, queue: SqlQueue) -> None:
        for number, table in enumerate("abcd", start=1):
            queue.enqueue(request(table=table), now_ms=1)
            queue.claim_id(number, "w", 2)
            if table != "d":
                queue.mark_compacted(number, "w", 3, facts=RequestFacts(reason=table))
        queue.end(2, State.FAILED, 4, reason="its rows differ")
        queue.end(3, State.SUCCEEDED, 4)
        for number in (1, 2, 3):
            queue.mark_undone(number, "undone by lena", 5, facts=RequestFacts(undone="_aside"))
        with pytest.raises(ConflictError):
            queue.mark_undone(4, "undone by lena", 5, facts=RequestFacts(undone="_aside"))
        assert [(row.id, row.state, row.facts.undone, row.facts.reason, row.end_ms) for row in queue.show()] == [
            (4, State.WORKING, None, None, None),
            (3, State.FAILED, "_aside", "c", 4),
            (2, State.FAILED, "_aside", "b", 4),
            (1, State.FAILED, "_aside", "a", 5),
        ]
        assert {row.error_message for row in queue.in_states(State.FAILED)} == {"undone by lena"}

    def test_only_what_waits_is_aborted(self, queue: SqlQueue) -> None:
        for table in "abc":
            queue.enqueue(request(table=table), now_ms=1)
        queue.claim_id(2, "w", 2)
        queue.claim_id(3, "w", 2)
        queue.end(3, State.FAILED, 3, worker_id="w", reason="x")
        assert queue.abort([1, 2, 3, 4], "cancelled by lena", 5) == {1}
        assert queue.abort([1], "again", 6) == frozenset()
        assert states(queue) == [(3, "f"), (2, "w"), (1, "x")]
        row = queue.find(1)
        assert row is not None
        assert (row.error_message, row.end_ms, row.worker_id) == ("cancelled by lena", 5, None)
        assert queue.enqueue(request(table="a"), now_ms=7).accepted
        for moment in range(8, 12):
            (waiting,) = queue.waiting()
            queue.abort([waiting.id], "cancelled", moment)
            queue.enqueue(request(table="a"), now_ms=moment)
        assert queue.purge_history(KEPT, 12) == 5 - KEPT.refused

    def test_given_back_it_waits_again(self, queue: SqlQueue) -> None:
        queue.enqueue(request(), now_ms=1)
        claim_next(queue, MAJOR, "w", 2)
        queue.give_back(1, "w")
        (row,) = queue.waiting()
        assert (row.worker_id, row.start_ms) == (None, None)

    def test_refused_and_not_initiated(self, queue: SqlQueue) -> None:
        queue.enqueue(request(), now_ms=1)
        claim_next(queue, MAJOR, "w", 2)
        queue.end(1, State.REFUSED, 3, worker_id="w", reason="None of the thresholds met")
        assert queue.record_not_initiated(request("u", kind=MINOR), "2 attempts failed", 4) == 2
        newest, oldest = queue.show()
        assert (oldest.state.label, oldest.error_message) == ("refused", "None of the thresholds met")
        assert (newest.state.label, newest.start_ms, newest.error_message) == (
            "did not initiate",
            4,
            "2 attempts failed",
        )

    def test_names_and_texts_are_never_statements(self, queue: SqlQueue) -> None:
        assert queue.enqueue(request("bystander"), now_ms=1).accepted
        for name in HOSTILE:
            wanted = replace(
                request(name, partition=f"p={name}"),
                ref=request(name, partition=f"p={name}").ref._replace(database=name),
                properties=((name, name),),
            )
            number = queue.enqueue(wanted, now_ms=1).id
            again = queue.enqueue(wanted, now_ms=1)
            assert (again.id, again.accepted) == (number, False)
            assert [row.id for row in queue.waiting() if row.ref == wanted.ref] == [number]
            assert queue.claim_id(number, name, 2) is not None
            with pytest.raises(ConflictError):
                queue.mark_compacted(number, f"{name}'", 3)
            queue.change(number, name, run_as=name)
            queue.change(number, name, facts=RequestFacts(reason=name))
            queue.mark_compacted(number, name, 3)
            queue.change(number, None, error_message=name, retry_retention_ms=5)
            queue.end(number, State.FAILED, 4, reason=name)
            row = queue.find(number)
            assert row is not None
            assert (row.ref, row.run_as, row.facts.reason, row.error_message) == (wanted.ref, name, name, name)
            assert row.properties == ((name, name),)
            limits = {"threshold": 1, "retry_ms": 0, "now_ms": 9}
            assert queue.failed_attempts(wanted, **limits) is not None
            assert queue.failed_attempts(replace(wanted, ref=wanted.ref._replace(table=f"{name}x")), **limits) is None
        assert [state for _, state in states(queue)] == ["f"] * len(HOSTILE) + ["i"]

    def test_a_name_with_a_zero_is_kept_or_refused(self, queue: SqlQueue) -> None:
        try:
            number = queue.enqueue(request("a\0b"), now_ms=1).id
        except RefusedError:
            assert queue.show() == ()
            return
        row = queue.find(number)
        assert row is not None
        assert row.ref.table == "a\0b"

    def test_only_workers_over_their_time_are_revoked(self, queue: SqlQueue) -> None:
        for table, start in (("a", 1000), ("b", 2000), ("c", 1999)):
            queue.enqueue(request(table), now_ms=1)
            claim_next(queue, MAJOR, f"w-{table}", start)
        assert queue.revoke_timed_out(12_000, 10_000) == 2
        assert states(queue) == [(3, "i"), (2, "w"), (1, "i")]
        with pytest.raises(ConflictError):
            queue.mark_compacted(1, "w-a", 12_001)

    def test_ready_rows_come_by_their_mark(self, queue: SqlQueue) -> None:
        for number, mark in enumerate((30, 10, 20), start=1):
            queue.enqueue(request(f"t{number}"), now_ms=1)
            queue.claim_id(number, "w", 2)
            queue.mark_compacted(number, "w", 3, highest_write_id=mark)
        assert [row.id for row in queue.ready_for_cleaning()] == [2, 3, 1]

    def test_a_queue_is_asked_by_place_entity_and_state(self, queue: SqlQueue) -> None:
        wanted = [
            request("a", partition="p=1", location="/w/a/p=1"),
            request("b", location="/w/a/p=1"),
            request("a", partition="p=10", location="/w/a/p=10"),
            request("a", partition="P=1", location="/w/a/P=1"),
            request("a", location="/w/a_b%"),
            request("c", location=None),
            request("a", location="/w/a"),
        ]
        for number, one in enumerate(wanted, start=1):
            assert queue.enqueue(one, now_ms=1).id == number
        for number, end in ((1, "failed"), (2, "ready"), (5, "cleaned")):
            assert queue.claim_id(number, "w", 2) is not None
            if end == "failed":
                queue.end(number, State.FAILED, 3, worker_id="w", reason="x")
                continue
            queue.mark_compacted(number, "w", 3)
            if end == "cleaned":
                queue.end(number, State.SUCCEEDED, 4)

        def ids(rows: tuple[CompactionRequest, ...]) -> list[int]:
            return [row.id for row in rows]

        assert ids(queue.rows_at([at("/w/a/p=1")])) == [2, 1]
        assert ids(queue.rows_at([at("/w/a_b%")])) == [5]
        assert ids(queue.rows_at([at("/w/axb%")])) == ids(queue.rows_at([at("/w")])) == []
        assert queue.rows_noting(at("/w/a/p=1"), "location")
        assert not queue.rows_noting(at("/w/a/p=1"), "acidlib.unverified")
        paths = ("/w", "/w/a", "/w/a_b%", "/w/axb%", "/w/a_b%/p=1")
        assert [path for path in paths if queue.has_succeeded_below(at(path))] == ["/w", "/w/a_b%"]
        assert [ids(queue.of_entity(one.ref)) for one in wanted] == [[1], [2], [3], [4], [7, 5], [6], [7, 5]]
        assert ids(queue.in_states(State.FAILED, State.READY_FOR_CLEANING)) == [2, 1]
        assert ids(queue.in_states(State.INITIATED)) == [7, 6, 4, 3]
        assert queue.in_states() == ()

    def test_failed_attempts_count_per_place(self, queue: SqlQueue) -> None:
        for number, partition in enumerate(("p=1", "p=1", "p=2"), start=1):
            queue.enqueue(request(partition=partition), now_ms=number)
            claim_next(queue, MAJOR, "w", number)
            queue.end(number, State.FAILED, number, worker_id="w", reason="x")

        def blocked(one: CompactionRequest) -> bool:
            reason = queue.failed_attempts(one, threshold=2, retry_ms=DAY_MS, now_ms=9)
            return reason is not None

        assert blocked(request(partition="p=1"))
        assert not blocked(request(partition="p=2"))
        assert not blocked(request())
        assert not blocked(request(partition="p=1", location="/elsewhere"))

    def test_purging_deletes_what_the_rule_names(self, queue: SqlQueue) -> None:
        for number in range(1, 6):
            queue.enqueue(request(), now_ms=number)
            claim_next(queue, MAJOR, "w", number)
            queue.end(number, State.FAILED, number, worker_id="w", reason="x")
        queue.enqueue(request(), now_ms=9)
        assert queue.purge_history(KEPT, 10) == 2
        assert states(queue) == [(6, "i"), (5, "f"), (4, "f"), (3, "f")]
