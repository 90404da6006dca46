"""Cleaning after rolled back transactions: what is not seen is not forgotten, and nothing is before it is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from unit.ports.test_catalog import KEY, Metastore, part, table

from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.errors import RetryError
from acidlib.execute.services import Services
from acidlib.metastore.transactions import TxnType
from acidlib.model.results import CleaningResult
from acidlib.model.tables import TableRef
from acidlib.places.removals import DeleteRateLimiter
from acidlib.places.selection import CleanerOptions
from acidlib.planning.clean import DueCleaning, NotedWrite
from acidlib.ports.catalog import Catalog
from acidlib.ports.rolled_back import RolledBack

OPENED = 77
NOTE = NotedWrite(txn_id=50, ref=TableRef("d", "t"), write_id=5, compacts=False, is_open=False, started_ms=0)
DUE = DueCleaning(ref=TableRef("d", "t"), reason="so", below=None)


@dataclass
class Notes:
    """What `MetastoreDatabase` tells of table `d.t`; `gone` is called when something is about to be forgotten."""

    notes: tuple[NotedWrite, ...] = (NOTE,)
    knows_table: bool = True
    parts: tuple[str, ...] = ()
    host: str | None = None
    forgotten: list[NotedWrite] = field(default_factory=list)
    shown: str = "the database"

    def noted_writes(self) -> tuple[tuple[NotedWrite, ...], int]:
        return self.notes, 1_000_000_000_000

    def noted_writes_of(self, ref: TableRef) -> tuple[NotedWrite, ...]:
        return self.notes

    def rolled_back(self, ref: TableRef) -> tuple[tuple[int, int], ...]:
        return tuple((note.write_id, note.txn_id) for note in self.notes if note.write_id is not None)

    def has_table(self, ref: TableRef) -> bool:
        return self.knows_table

    def has_partition(self, ref: TableRef) -> bool:
        return ref.partition in self.parts

    def shows(self, txn_id: int, host: str) -> bool:
        return txn_id == OPENED and host == (self.host or host)

    def forget(self, notes: Sequence[NotedWrite]) -> None:
        self.forgotten += notes


class Hms(Metastore):
    """The metastore of one table, in which write ids 1 to `mark` were given out."""

    mark = 5
    calls: tuple[Any, ...] = ()

    def valid_write_ids(self, tables: Sequence[TableRef], txns: object) -> dict[TableRef, ValidWriteIdList]:
        return {ref: ValidWriteIdList(table=None, high_water_mark=self.mark, aborted_ids=(5,)) for ref in tables}

    def open_txn(self, kind: TxnType, agent: str, host: str | None = None) -> int:
        self.calls += ((kind, host),)
        return OPENED

    def commit_txn(self, txn_id: int, kind: TxnType) -> None:
        self.calls += ((kind, txn_id),)

    def show_compactions(self) -> tuple[object, ...]:
        return ()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The table's directory with a committed delta and one that was rolled back."""
    for name in ("delta_0000001_0000004", "delta_0000005_0000005"):
        (tmp_path / "t" / name).mkdir(parents=True)
        (tmp_path / "t" / name / "bucket_00000").write_text("rows")
    return tmp_path / "t"


def run(services: Services, hms: Hms, notes: Notes, due: DueCleaning = DUE, **options: bool) -> CleaningResult:
    made = RolledBack(services, hms, Catalog(services, hms), notes, CleanerOptions(**options))  # type: ignore[arg-type]
    return made.clean(due, DeleteRateLimiter(services))


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_directories_go_before_anything_is_forgotten(services: Services, place: Path) -> None:
    seen: list[list[str]] = []

    class Looking(Notes):
        def forget(self, notes: Sequence[NotedWrite]) -> None:
            seen.append(names(place))
            super().forget(notes)

    notes = Looking()
    result = run(services, Hms(table(place)), notes)
    assert (result.state.value, notes.forgotten) == ("succeeded", [NOTE])
    assert seen == [["delta_0000001_0000004"]]


def test_what_went_is_reported_although_it_cannot_be_forgotten(services: Services, place: Path) -> None:
    class Away(Notes):
        def forget(self, notes: Sequence[NotedWrite]) -> None:
            raise RetryError("Cannot write to the database: it is away")

    result = run(services, Hms(table(place)), Away())
    assert (result.state.value, [path.path for path in result.removed]) == ("failed", ["delta_0000005_0000005"])
    assert names(place) == ["delta_0000001_0000004"]


def test_a_dry_run_changes_nothing(services: Services, place: Path) -> None:
    notes = Notes()
    result = run(services, Hms(table(place)), notes, dry_run=True)
    assert (result.state.value, [one.path for one in result.removed]) == ("planned", ["delta_0000005_0000005"])
    assert "1 rolled back transaction would be forgotten" in result.reason
    assert (notes.forgotten, len(names(place))) == ([], 2)


def test_what_was_rolled_back_meanwhile_is_left(services: Services, place: Path) -> None:
    """It was open when the first place was looked at, and may have written there since."""
    late = replace(NOTE, txn_id=60, write_id=6)

    class Later(Notes):
        def rolled_back(self, ref: TableRef) -> tuple[tuple[int, int], ...]:
            self.notes = (NOTE, late)
            return super().rolled_back(ref)

    notes = Later()
    assert run(services, Hms(table(place)), notes).state.value == "succeeded"
    assert notes.forgotten == [NOTE]


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_a_table_that_was_made_anew_keeps_what_is_its_own(
    services: Services, place: Path, *, is_made_anew: bool
) -> None:
    """Its write id 5 is another transaction's: what was noted of the one before says nothing of it."""

    class Anew(Notes):
        def rolled_back(self, ref: TableRef) -> tuple[tuple[int, int], ...]:
            return () if is_made_anew else super().rolled_back(ref)

    notes = Anew()
    result = run(services, Hms(table(place)), notes)
    assert ("delta_0000005_0000005" in names(place)) == is_made_anew
    ended = ("ready for cleaning", []) if is_made_anew else ("succeeded", [NOTE])
    assert (result.state.value, notes.forgotten) == ended


def test_nothing_is_forgotten_of_what_cannot_be_looked_at(services: Services, place: Path, tmp_path: Path) -> None:
    """A mount that is missing, a table or partition that the user may not see, one whose owner forbids it."""
    empty = tmp_path / "empty"
    empty.mkdir()
    parted = replace(table(place), partition_keys=KEY)
    of_part = replace(DUE, ref=TableRef("d", "t", "p=1"))
    hidden = Notes(notes=(replace(NOTE, ref=NOTE.ref._replace(partition="p=1")),), parts=("p=1",))
    kept = replace(table(place), properties={**table(place).properties, "no_cleanup": "true"})
    for hms, notes, due, state, reason in (
        (Hms(table(tmp_path / "gone")), Notes(), DUE, "failed", "a mount may be missing"),
        (Hms(table(empty)), Notes(), DUE, "failed", "a mount may be missing"),
        (Hms(None), Notes(), DUE, "ready for cleaning", "does not show this user the table"),
        (Hms(parted), hidden, of_part, "ready for cleaning", "does not show this user the partition"),
        (Hms(kept), Notes(), DUE, "ready for cleaning", "NO_CLEANUP is set"),
    ):
        result = run(services, hms, notes, due)
        assert (result.state.value, notes.forgotten) == (state, [])
        assert reason in result.reason
    assert len(names(place)) == 2


def test_what_is_gone_for_good_is_forgotten(services: Services, place: Path, tmp_path: Path) -> None:
    """A table that the database does not know either, a partition, and what an empty table never held."""
    empty = tmp_path / "empty"
    empty.mkdir()
    never = Hms(table(empty))
    never.mark = 1
    noted = replace(NOTE, ref=NOTE.ref._replace(partition="p=1"))
    parted = replace(table(place), partition_keys=KEY)
    for hms, notes, due in (
        (Hms(None), Notes(knows_table=False), DUE),
        (Hms(parted), Notes(notes=(noted,)), replace(DUE, ref=noted.ref)),
        (never, Notes(), DUE),
    ):
        assert run(services, hms, notes, due).state.value == "succeeded"
        assert len(notes.forgotten) == 1


def test_a_partition_of_its_own_place_is_looked_at_too(services: Services, place: Path, tmp_path: Path) -> None:
    """Partitions that are known only at the end of a write: below the table, where none is known, and elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    for made in (place / "p=1", place / "p=2", elsewhere):
        (made / "delta_0000005_0000005").mkdir(parents=True)
    (place / "delta_0000005_0000005" / "bucket_00000").unlink()
    (place / "delta_0000005_0000005").rmdir()
    parts = {"p=1": part(place / "p=1"), "p=9": part(elsewhere)}
    notes = Notes()
    result = run(services, Hms(replace(table(place), partition_keys=KEY), parts), notes)
    assert (result.state.value, notes.forgotten) == ("succeeded", [NOTE])
    assert len(result.removed) == 3
    assert [list(made.iterdir()) for made in (place / "p=1", place / "p=2", elsewhere)] == [[], [], []]


def test_only_what_is_due_and_selected_has_the_database_proven(services: Services, place: Path) -> None:
    hms = Hms(table(place))
    made = RolledBack(services, hms, Catalog(services, hms), Notes(), CleanerOptions())  # type: ignore[arg-type]
    assert [[one.ref for one in places] for places in made.due()] == [[("d", "t", None)]]
    assert [call for call in hms.calls if call[1] == OPENED] == [(TxnType.READ_ONLY, OPENED)]
