"""The queue and its history as Hive shows them.

Source: columns, order and the mark for "nothing" of Hive 4 `ShowCompactionsOperation`; host and thread of an id by
`MetaStoreUtils.getHostFromId` and `getThreadIdFromId`. Differences on purpose: a duration is shown only if both of its
ends are known (Hive takes an unknown start for the epoch), an unknown transaction or pool is shown as nothing, where
Hive 4's metastore fills in 0 and "default", and the host of this engine's own ids is shown without the rest of the id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, replace
from itertools import groupby

from acidlib.acid.names import Calls
from acidlib.location import Location
from acidlib.model.requests import CompactionRequest, State
from acidlib.model.results import ShownBlocker, ShownRequest
from acidlib.model.status import CleaningBlocker
from acidlib.model.tables import TableRef
from acidlib.planning.health import age_of
from acidlib.report.text import aligned, by_state, fitted, one_line, shared_reason, shortened, wrapped
from acidlib.wording import age_words, plural

UNDONE = "undone"
"""The state of a compaction whose result was taken back, for which Hive has no name."""
_WORKER = re.compile(r"acidlib-(?P<host>.+)-(?P<run>[0-9a-f]{16})(\.[0-9a-f.]+)?")  # the process signs it
_INITIATOR = re.compile(r"(?P<host>.+)-acidlib-(?P<run>[0-9a-f]{16})")


def shown_request(request: CompactionRequest, calls: Calls) -> ShownRequest:
    """Return a request as documents have it."""
    has_ended = request.start_ms is not None and request.end_ms is not None
    worker_host, worker = worker_of(request.worker_id)
    initiator_host, initiator = initiator_of(request.initiator_id)
    return ShownRequest(
        id=request.id,
        **request.ref._asdict(),
        type=request.type.label,
        state=state_of(request, calls),
        worker_host=worker_host,
        worker=worker,
        enqueue_ms=request.enqueue_ms,
        start_ms=request.start_ms,
        duration_ms=(request.end_ms or 0) - (request.start_ms or 0) if has_ended else None,
        hadoop_job_id=request.hadoop_job_id,
        error_message=request.error_message,
        initiator_host=initiator_host,
        initiator=initiator,
        pool=request.pool,
        txn_id=request.txn_id,
        next_txn_id=request.next_txn_id,
        commit_ms=request.commit_ms,
        highest_write_id=request.highest_write_id,
        location=None if request.facts.location is None else str(request.facts.location),
    )


def state_of(request: CompactionRequest, calls: Calls) -> str:
    """Return the state of a request for people and programs: Hive's name for it, or `undone`."""
    return request.state.label_of(calls) if request.facts.undone is None else UNDONE


def worker_of(identity: str | None) -> tuple[str | None, str | None]:
    """Return host and name of a worker: the parts before and behind the last hyphen for ids of Hive."""
    return _split(identity, _WORKER)


def initiator_of(identity: str | None) -> tuple[str | None, str | None]:
    """Return host and name of the initiator that queued a request, like `worker_of`."""
    return _split(identity, _INITIATOR)


def _split(identity: str | None, ours: re.Pattern[str]) -> tuple[str | None, str | None]:
    if identity is None:
        return None, None
    if match := ours.fullmatch(identity):
        return match["host"], f"acidlib-{match['run']}"
    host, hyphen, thread = identity.rpartition("-")
    return host if hyphen else thread, thread


NOTHING = " --- "
_HIVE_TITLES = (
    *("CompactionId", "Database", "Table", "Partition", "Type", "State", "Worker host", "Worker"),
    *("Enqueue Time", "Start Time", "Duration(ms)", "HadoopJobId", "Error message", "Initiator host", "Initiator"),
    *("Pool name", "TxnId", "Next TxnId", "Commit Time", "Highest WriteId"),
)


def hive_text(requests: Sequence[CompactionRequest], calls: Calls) -> str:
    """Return a header and a line per request, in the order given, as Hive's command line prints them: with tabs.

    Times are epoch milliseconds. Names of states are those of `calls`; the columns are always Hive 4's, which has
    more of them.
    """
    rows: list[tuple[str, ...]] = [_HIVE_TITLES]
    for request in requests:
        shown = replace(shown_request(request, calls), state=request.state.label_of(calls))
        *cells, _ = astuple(shown)  # Hive shows no location
        rows.append(tuple(NOTHING if value is None else one_line(str(value)) for value in cells))
    return "\n".join("\t".join(row) for row in rows)


_HEADER = ("Id", "State", "Type", "Since", "Start to end", "Place")
_INDENT = "      "
_COLLAPSED = (State.REFUSED, State.ATTEMPTED, State.FAILED)
_IDS_SHOWN = 6


def show_text(requests: Sequence[CompactionRequest], calls: Calls, now_ms: int, *, of: int) -> str:
    """Return the number of requests in each state, then a line for each in the order given, with ages.

    Neighbours that did not end well for the same reason have it once below them. Earlier requests of a place that ended
    in the same way are counted below the newest.

    of  the number of all requests, of which these are shown
    """
    if not requests:
        return "no requests" if not of else f"none of {plural(of, 'request')}"
    counts = Counter(state_of(row, calls) for row in requests)
    order = [UNDONE, *(state.label_of(calls) for state in State)]
    among = "" if len(requests) == of else f" of {of:,}"
    states = by_state({state: counts[state] for state in sorted(counts, key=order.index)})
    groups = _groups(requests)
    locations: dict[TableRef, set[Location | None]] = {}
    for row in requests:
        locations.setdefault(row.ref, set()).add(row.facts.location)
    # without a metastore several places may have one name: then their locations are shown
    shown = (_row(row, calls, now_ms, with_location=len(locations[row.ref]) > 1) for row, *_ in groups)
    lines = aligned([_HEADER, *shown], right=(0, 3, 4))
    text = [f"{plural(len(requests), 'request')}{among}: {states}", "", lines[0]]
    for reason, stretch in groupby(zip(groups, lines[1:], strict=True), key=lambda line: _reason(line[0][0])):
        together = list(stretch)
        for (_, *before), line in together:
            text.append(line)
            if before:
                oldest = age_of(before[-1], now_ms)
                since = "" if oldest is None else f" in {age_words(oldest)}"
                ids = ", ".join(shortened([str(row.id) for row in before], _IDS_SHOWN))
                text += wrapped(f"the same {plural(len(before), 'time')} before{since}: {ids}", _INDENT)
        if reason is not None:
            alone = together[0][0][0].error_message or ""
            text += wrapped(alone if len(together) == 1 else f"these {len(together)}: {reason}", _INDENT)
    return "\n".join(text)


def _groups(requests: Sequence[CompactionRequest]) -> list[list[CompactionRequest]]:
    """Return groups of requests that were refused or failed at a place for the same reason, else single ones."""
    groups: dict[object, list[CompactionRequest]] = {}
    for row in requests:
        is_alike = row.state in _COLLAPSED and row.facts.undone is None
        key = (row.ref, row.facts.location, row.type, row.state, row.error_message) if is_alike else row.id
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _row(row: CompactionRequest, calls: Calls, now_ms: int, *, with_location: bool) -> tuple[str, ...]:
    age, shown = age_of(row, now_ms), shown_request(row, calls)
    took, host = shown.duration_ms, shown.worker_host
    place = [str(row.ref)]
    if host is not None and row.facts.undone is None and row.state in (State.WORKING, State.FAILED):
        place.append(f"on {host}")
    if with_location:
        place.append(str(row.facts.location))
    cells = (
        str(row.id),
        state_of(row, calls),
        row.type.label.lower(),
        "-" if age is None else age_words(age),
        "-" if took is None else age_words(took / 1000),
        "  ".join(place),
    )
    return tuple(map(one_line, cells))


def _reason(row: CompactionRequest) -> str | None:
    """Return why a request did not end well, as places share it."""
    if row.state is State.SUCCEEDED or row.error_message is None:
        return None
    return shared_reason(row.error_message, row.ref, row.facts.location)


def shown_blocker(blocker: CleaningBlocker) -> ShownBlocker:
    """Return a transaction or lock that keeps a request from being cleaned as the document of the queue has it."""
    return ShownBlocker(
        request_id=blocker.request_id,
        name=str(blocker.ref),
        kind=blocker.kind,
        id=blocker.id,
        user=blocker.user,
        host=blocker.host,
        age_ms=None if blocker.age is None else round(blocker.age * 1000),
    )


def blockers_text(blockers: Sequence[ShownBlocker]) -> str:
    """Return a line for each transaction and lock that keeps a request from being cleaned."""
    if not blockers:
        return "nothing keeps a request from being cleaned"
    rows: list[tuple[str, ...]] = [("Waits", "Request", "For", "Id", "User", "Host", "Since")]
    for entry in blockers:
        cells = [entry.name, str(entry.request_id), entry.kind, str(entry.id), entry.user, entry.host]
        age = "-" if entry.age_ms is None else age_words(entry.age_ms / 1000)
        rows.append(tuple(map(one_line, [*cells, age])))
    requests = len({entry.request_id for entry in blockers})
    summary = f"{plural(requests, 'request')} ready for cleaning {'waits' if requests == 1 else 'wait'}"
    return "\n".join([summary, "", *fitted(rows, right=(1, 3, 6))])
