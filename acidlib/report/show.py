"""The queue and its history as Hive shows them.

Source: columns, order and the mark for "nothing" of Hive 4 `ShowCompactionsOperation`; host and thread of an id by
`MetaStoreUtils.getHostFromId` and `getThreadIdFromId`. Differences on purpose: a duration is shown only if both of its
ends are known (Hive takes an unknown start for the epoch), what is not known (a transaction, a pool) is shown as
nothing, where Hive 4's metastore fills in 0 and "default", and the host of this engine's own ids is shown without the
rest of the id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from acidlib.model.generation import Generation
from acidlib.model.requests import CompactionRequest, State
from acidlib.planning.health_rules import age_of
from acidlib.report.text import by_state, fitted, one_line, wrapped
from acidlib.wording import age_words, plural

NOTHING = " --- "

_WORKERS = (
    re.compile(r"acidlib-(?P<host>.+)-(?P<run>[0-9a-f]{16})"),
    re.compile(r"acidlib-(?P<run>[0-9a-f]{12})-(?P<host>.+)"),  # as it was once
)
_INITIATORS = (
    re.compile(r"(?P<host>.+)-acidlib-(?P<run>[0-9a-f]{16})"),
    re.compile(r"(?P<host>.+)-acidlib-(?P<run>[0-9a-f]{12})-(?P=host)"),
)

_COLUMNS = (
    ("CompactionId", "id"),
    ("Database", "database"),
    ("Table", "table"),
    ("Partition", "partition"),
    ("Type", "type"),
    ("State", "state"),
    ("Worker host", "worker_host"),
    ("Worker", "worker"),
    ("Enqueue Time", "enqueue_ms"),
    ("Start Time", "start_ms"),
    ("Duration(ms)", "duration_ms"),
    ("HadoopJobId", "hadoop_job_id"),
    ("Error message", "error_message"),
    ("Initiator host", "initiator_host"),
    ("Initiator", "initiator"),
    ("Pool name", "pool"),
    ("TxnId", "txn_id"),
    ("Next TxnId", "next_txn_id"),
    ("Commit Time", "commit_ms"),
    ("Highest WriteId", "highest_write_id"),
)


def hive_text(requests: Sequence[CompactionRequest], generation: Generation) -> str:
    """A header and a line per request, in the order given, as Hive's command line prints them: a tab between columns.

    Times are epoch milliseconds. `generation` says whose names of states are shown; the columns are always Hive 4's,
    which has more of them.
    """
    rows = [tuple(title for title, _ in _COLUMNS)]
    for fact in show_document(requests, generation):
        values = (fact[key] for _, key in _COLUMNS)
        rows.append(tuple(NOTHING if value is None else one_line(str(value)) for value in values))
    return "\n".join("\t".join(row) for row in rows)


def show_text(requests: Sequence[CompactionRequest], generation: Generation, now_ms: int) -> str:
    """How many requests are in each state, then a line for each on 80 columns, in the order given, with ages.

    Below those that have not succeeded: why, and where the place lies, as far as the queue knows.
    """
    if not requests:
        return "no requests"
    counts = Counter(row.state for row in requests)
    states = {state.label_of(generation): counts[state] for state in State}
    rows = [_HEADER, *(_row(row, generation, now_ms) for row in requests)]
    lines = fitted(rows, right=(1, 4, 5))
    each = len(lines) // len(rows)
    text = [f"{plural(len(requests), 'request')}: {by_state(states)}", "", *lines[:each]]
    for number, row in enumerate(requests, start=1):
        text += lines[number * each : (number + 1) * each]
        if row.state is not State.SUCCEEDED:
            texts = [row.error_message, None if row.facts.location is None else str(row.facts.location)]
            text += [line for one in texts if one for line in wrapped(one, "    ")]
    return "\n".join(text)


_HEADER = ("Place", "Id", "Type", "State", "Since", "Took", "Worker")


def _row(row: CompactionRequest, generation: Generation, now_ms: int) -> tuple[str, ...]:
    age, fact = age_of(row, now_ms), _facts(row, generation)
    took = fact["duration_ms"]
    cells = (
        row.full_name,
        str(row.id),
        row.type.label.lower(),
        row.state.label_of(generation),
        "-" if age is None else age_words(age),
        "-" if took is None else age_words(took / 1000),
        fact["worker_host"] or "-",
    )
    return tuple(map(one_line, cells))


def show_document(
    requests: Sequence[CompactionRequest], generation: Generation = Generation.HIVE4
) -> list[dict[str, Any]]:
    """The same facts, an entry per request. Times are epoch milliseconds; unknown is None, never absent."""
    return [_facts(request, generation) for request in requests]


def _facts(request: CompactionRequest, generation: Generation) -> dict[str, Any]:
    known = request.start_ms is not None and request.end_ms is not None
    return {
        "id": request.id,
        "database": request.database,
        "table": request.table,
        "partition": request.partition,
        "type": request.type.label,
        "state": request.state.label_of(generation),
        "worker_host": worker_of(request.worker_id)[0],
        "worker": worker_of(request.worker_id)[1],
        "enqueue_ms": request.enqueue_ms,
        "start_ms": request.start_ms,
        "duration_ms": (request.end_ms or 0) - (request.start_ms or 0) if known else None,
        "hadoop_job_id": request.hadoop_job_id,
        "error_message": request.error_message,
        "initiator_host": initiator_of(request.initiator_id)[0],
        "initiator": initiator_of(request.initiator_id)[1],
        "pool": request.pool,
        "txn_id": request.txn_id,
        "next_txn_id": request.next_txn_id,
        "commit_ms": request.commit_ms,
        "highest_write_id": request.highest_write_id,
    }


def worker_of(identity: str | None) -> tuple[str | None, str | None]:
    """Host and name of a worker: of Hive's ids what is before and behind the last hyphen, the whole where is none."""
    return _split(identity, _WORKERS)


def initiator_of(identity: str | None) -> tuple[str | None, str | None]:
    """The same of whoever queued a request."""
    return _split(identity, _INITIATORS)


def _split(identity: str | None, ours: Sequence[re.Pattern[str]]) -> tuple[str | None, str | None]:
    if identity is None:
        return None, None
    for pattern in ours:
        if match := pattern.fullmatch(identity):
            return match["host"], f"acidlib-{match['run']}"
    host, hyphen, thread = identity.rpartition("-")
    return host if hyphen else thread, thread


def blockers_text(blockers: Sequence[dict[str, Any]]) -> str:
    """What keeps which request from being cleaned, a line for each transaction and lock."""
    rows: list[tuple[str, ...]] = [("Waits", "Request", "For", "Id", "User", "Host", "Since")]
    for one in blockers:
        age = "-" if one["age_ms"] is None else age_words(one["age_ms"] / 1000)
        cells = (one["name"], str(one["request_id"]), one["kind"], str(one["id"]), one["user"], one["host"], age)
        rows.append(tuple(map(one_line, cells)))
    if not blockers:
        return "nothing keeps a request from being cleaned"
    requests = len({one["request_id"] for one in blockers})
    summary = f"{plural(requests, 'request')} ready for cleaning {'waits' if requests == 1 else 'wait'}"
    return "\n".join([summary, "", *fitted(rows, right=(1, 3, 6))])
