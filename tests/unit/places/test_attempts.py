"""By what a place is known to be the same as when it was refused or failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from located import at

from acidlib.acid.listing import ListedFile, Listing
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.config.settings import Layer, default_settings
from acidlib.model.requests import (
    NO_FACTS,
    CompactionRequest,
    CompactionType,
    RequestFacts,
    State,
    facts_in_message,
    message_with_facts,
)
from acidlib.model.tables import Database, MetastoreTable, Storage, TableColumn, TableRef
from acidlib.places.attempts import Attempts, fingerprint
from acidlib.places.place import Interpretation, Place, TableFacts
from acidlib.planning.stated_write_ids import StatedWriteIds

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
PLACE = at("/w/t")
SETTINGS = default_settings()


def file(path: str, length: int = 10, modified: float = 5.0) -> ListedFile:
    return ListedFile(path=path, length=length, modified=modified)


def listing(*files: ListedFile, directories: tuple[str, ...] = ()) -> Listing:
    return Listing(location=PLACE, files=files, directories=directories)


def place(write_ids: str = "db.t:2:9223372036854775807::", **more: Any) -> Place:
    interpretation = Interpretation(write_ids=StatedWriteIds(single=ValidWriteIdList.parse(write_ids)))
    return replace(Place(ref=TableRef("db", "t"), location=PLACE, interpretation=interpretation), **more)


def facts(columns: tuple[str, ...] = ("a",), **properties: str) -> TableFacts:
    storage = Storage(location=str(PLACE), columns=tuple(TableColumn(name=name, type="int") for name in columns))
    table = MetastoreTable(
        ref=TableRef("db", "t"), kind="MANAGED_TABLE", owner=None, created=1, storage=storage, properties=properties
    )
    return TableFacts(table=table, database=Database(name="db"))


ONE, TWO, THREE = (f"delta_{number:07d}_{number:07d}_0000/bucket_00000" for number in (1, 2, 3))
SEEN = listing(file(ONE), file(TWO))
HERE = place(facts=facts())


@pytest.mark.parametrize(
    "now",
    [
        listing(file(ONE), file(TWO), file(THREE)),
        listing(file(ONE)),
        listing(file(ONE), file(TWO, length=11)),
        listing(file(ONE), file(TWO, modified=5.5)),
        listing(file(ONE), file(TWO), directories=("delta_0000003_0000003_0000",)),
    ],
)
def test_another_file_is_another_place(now: Listing) -> None:
    assert fingerprint(HERE.listed(now), SETTINGS) != fingerprint(HERE.listed(SEEN), SETTINGS)


@pytest.mark.parametrize(
    "now",
    [
        place(write_ids="db.t:2:2:2:", facts=facts()),
        place(write_ids="db.t:2:9223372036854775807::2", facts=facts()),
        place(facts=facts(columns=("a", "b"))),
        place(facts=facts(orc_compress="ZSTD")),
        place(),
        replace(HERE, interpretation=replace(HERE.interpretation, table_kind="insert-only")),
        replace(HERE, request_properties={"compactor.x": "y"}),
    ],
)
def test_what_is_read_and_how_it_is_written_counts(now: Place) -> None:
    assert fingerprint(now.listed(SEEN), SETTINGS) != fingerprint(HERE.listed(SEEN), SETTINGS)


def test_another_version_of_this_library_may_do_more(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(HERE.listed(SEEN), SETTINGS)
    monkeypatch.setattr("acidlib.places.attempts.__version__", "999")
    assert fingerprint(HERE.listed(SEEN), SETTINGS) != before


@pytest.mark.parametrize(
    ("now", "seen"),
    [
        (HERE, listing(file(TWO), file(ONE))),
        (HERE, listing(file(ONE), file(TWO), directories=("_acidlib_claim", "_tmp_x"))),
        # writes to other partitions
        (place(write_ids="db.t:9:8:8:7", facts=facts()), SEEN),
        (place(facts=facts(numRows="7", transient_lastDdlTime="8", COLUMN_STATS_ACCURATE="x")), SEEN),
    ],
)
def test_what_does_not_change_a_place(now: Place, seen: Listing) -> None:
    assert fingerprint(now.listed(seen), SETTINGS) == fingerprint(HERE.listed(SEEN), SETTINGS)


def test_how_readers_find_columns_makes_another_place() -> None:
    by_position, _ = SETTINGS.with_layer(Layer.HIVE_SITE, {"orc.force.positional.evolution": "true"})
    assert fingerprint(HERE.listed(SEEN), by_position) != fingerprint(HERE.listed(SEEN), SETTINGS)


def ended(number: int, state: State = State.REFUSED, *, table: str = "t", **more: Any) -> CompactionRequest:
    given = {"ref": TableRef("db", table), "type": MAJOR, "error_message": f"reason {number}"} | more
    return CompactionRequest(id=number, state=state, **given)


def noted(location: str | None = None) -> RequestFacts:
    return RequestFacts(files=fingerprint(HERE.listed(SEEN), SETTINGS), location=location)


def test_the_newest_that_ended_for_the_same_files_counts() -> None:
    rows = [
        ended(1, facts=noted()),
        ended(2, State.FAILED, facts=noted()),
        ended(3, State.FAILED, facts=RequestFacts(files="0" * 16)),
        ended(4, State.FAILED),
        ended(5, facts=noted(), type=MINOR),
        ended(6, facts=noted(), table="other"),
        ended(7, facts=noted(location=at("/elsewhere"))),
        ended(8, State.SUCCEEDED, facts=noted()),
    ]
    found = Attempts(rows, SETTINGS).last(HERE.listed(SEEN), MAJOR)
    assert found is rows[1]
    assert Attempts(rows, SETTINGS).refusal(HERE.listed(SEEN), MAJOR) is None, "it has failed since: that may pass"
    assert Attempts(rows, SETTINGS).last(HERE.listed(listing(file(ONE))), MAJOR) is None
    assert Attempts(rows[:1], SETTINGS).refusal(HERE.listed(SEEN), MAJOR) == (
        "request 1 was refused, and nothing has changed there since: reason 1"
    )


def test_a_conflict_counts_for_the_order_alone() -> None:
    met = ended(2, facts=replace(noted(), conflict=True))
    assert Attempts([met], SETTINGS).last(HERE.listed(SEEN), MAJOR) is met
    assert Attempts([met], SETTINGS).refusal(HERE.listed(SEEN), MAJOR) is None
    refused = ended(1, facts=noted())
    assert Attempts([met, refused], SETTINGS).last(HERE.listed(SEEN), MAJOR) is met
    told = Attempts([met, refused], SETTINGS).refusal(HERE.listed(SEEN), MAJOR)
    assert (told or "").startswith("request 1 was refused")


def test_a_place_is_known_by_its_location_whatever_it_was_called() -> None:
    row = ended(1, facts=noted(location=PLACE), table="as_it_was_called")
    assert Attempts([row], SETTINGS).last(HERE.listed(SEEN), MAJOR) is row


@pytest.mark.parametrize("reason", ["plain", "two\nlines [files x]", ""])
@pytest.mark.parametrize("differs", [False, True])
def test_a_note_in_the_reason_is_read_back(reason: str, differs: bool) -> None:
    noted_here = RequestFacts(files=fingerprint(HERE.listed(SEEN), SETTINGS), differs=differs)
    text = message_with_facts(reason, noted_here)
    assert facts_in_message(text) == (reason, noted_here)
    conflict = replace(noted_here, conflict=True)
    assert facts_in_message(message_with_facts(reason, conflict)) == (reason, conflict)
    told = Attempts([ended(1, error_message=text, facts=noted_here)], SETTINGS).refusal(HERE.listed(SEEN), MAJOR)
    assert told == f"request 1 was refused, and nothing has changed there since: {reason}"
    assert message_with_facts(reason, NO_FACTS) == reason
    assert Attempts([ended(1, error_message=reason)], SETTINGS).refusal(HERE.listed(SEEN), MAJOR) is None


def test_what_awaits_cleaning() -> None:
    rows = [
        ended(1, highest_write_id=9),
        ended(2, State.READY_FOR_CLEANING, highest_write_id=5),
        ended(3, State.READY_FOR_CLEANING),
        ended(4, State.READY_FOR_CLEANING, table="other", highest_write_id=7),
        ended(5, State.READY_FOR_CLEANING, type=CompactionType.ABORT_TXN_CLEANUP, highest_write_id=8),
    ]
    assert Attempts(rows, SETTINGS).awaited_marks(HERE) == (5, 0)
