"""What must hold after every step: every open snapshot sees its rows, and its files are all there."""

from __future__ import annotations

import os
from pathlib import Path

from judges import arrow_rows, merge
from judges.acid_dirs import Dir, ReaderError, State, directory_state
from snapshot_reads import read_arrow

from histories.files import columns
from histories.history import History, Reader
from histories.model import Seen, Snapshot, bare

Tree = tuple[tuple[str, int, int], ...]


def tree(path: Path) -> Tree:
    """Names, sizes and times of everything that a reader sees: what is equal need not be read again."""
    if not path.is_dir():
        return ()
    found = []
    for entry in os.scandir(path):
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_dir():
            found += [(f"{entry.name}/{name}", size, when) for name, size, when in tree(Path(entry.path))]
            found.append((entry.name, 0, 0))
        else:
            status = entry.stat()
            found.append((entry.name, status.st_size, status.st_mtime_ns))
    return tuple(sorted(found))


class Judge:
    """Compares what files show with the model."""

    def __init__(self, history: History, *, reads_snapshots: bool = False) -> None:
        """With `reads_snapshots` the snapshot reader has to find the same as the independent one."""
        self.history = history
        self._reads_snapshots = reads_snapshots
        self.snapshots = 0
        """How many it has read."""
        self.late = 0
        """How often a snapshot older than a base found no base that it may use, having listed too late."""
        self._told: dict[tuple[object, ...], Tree] = {}
        self._readers = 0

    def pin(self, reader: Reader) -> None:
        """Remember by links what a reader lists now."""
        history = self.history
        self._readers += 1
        reader.pins = history.folder / "pins" / str(self._readers)
        reader.pins.mkdir(parents=True)
        for place in history.table.parts:
            pins = reader.pins / (place or "all")
            pins.mkdir()
            path = history.path(place)
            if not path.is_dir():
                continue
            state = self._state(path, reader.snapshot)
            base = () if state.base is None else (state.base.path,)
            for found in (*base, *state.originals, *(delta.path for delta in state.deltas)):
                (pins / found.name).symlink_to(found)

    def check(self) -> None:
        """Every open snapshot, and one that is opened now, at every place. Raises AssertionError."""
        history = self.history
        looking = [history.now, *(one.snapshot for one in (*history.readers, *history.writers))]
        for place in history.table.parts:
            path, now = history.path(place), tree(history.path(place))
            for number, snapshot in enumerate(looking):
                self._fresh(place, path, now, snapshot, current=number == 0)
            for reader in history.readers:
                assert reader.pins is not None
                pins = reader.pins / (place or "all")
                if pins.is_dir():
                    self._listed(pins, history.part(place).seen(reader.snapshot), reader.snapshot)

    def _listed(self, pins: Path, expected: list[Seen], snapshot: Snapshot) -> None:
        """What a reader listed when it began is still there and says the same."""
        gone = [pin.readlink() for pin in pins.iterdir() if not pin.exists()]
        assert gone == [], f"gone, and the reader of {snapshot.text} is still at it: {gone}"
        if self._is_news((pins,), tree(pins)):
            seen = self._read(pins, snapshot)
            assert seen == expected, f"{pins}, {snapshot.text}: {told(seen, expected)}"

    def _is_news(self, key: tuple[object, ...], now: Tree) -> bool:
        if self._told.get(key) == now:
            return False
        self._told[key] = now
        return True

    def _fresh(self, place: str, path: Path, now: Tree, snapshot: Snapshot, *, current: bool) -> None:
        expected = self.history.part(place).seen(snapshot)
        if not path.is_dir():
            assert expected == [], f"{path} is gone"
            return
        if not self._is_news((place, snapshot), now):
            return
        state = None if current else self._late_state(path, snapshot)
        if state is None and not current:
            self.late += 1
            return
        state = state or self._state(path, snapshot)
        seen = self._read(path, snapshot)
        assert seen == expected, f"{path}, {snapshot.text}: {told(seen, expected)}"
        has_events = state.base is not None or state.deltas  # originals alone do not prove a full ACID table
        if self._reads_snapshots and has_events and not self._hidden(snapshot):
            self.snapshots += 1
            seen = self._snapshot(path, snapshot)
            assert seen == expected, f"a snapshot of {path}, {snapshot.text}: {told(seen, expected)}"
        self._ranges(place, state.base, state.deltas, snapshot)

    def _late_state(self, path: Path, snapshot: Snapshot) -> State | None:
        """What an older snapshot finds when it lists only now; None where Hive cannot serve it any more.

        All bases may be newer than it. And Hive 4 takes a base whose write id is the lowest open one, which a suffix
        would have hidden. Who has listed in time goes on in either case, see `pins`.
        """
        try:
            state = self._state(path, snapshot)
        except ReaderError as error:
            if "not enough history" not in str(error):
                raise
            return None
        too_early = self.history.generation == 4 and state.base is not None and state.base.high in snapshot.open
        return None if too_early else state

    def _ranges(self, place: str, base: Dir | None, deltas: tuple[Dir, ...], snapshot: Snapshot) -> None:
        """What is read covers every write id that wrote there, without overlap."""
        low = base.high if base is not None else 0
        ranges = sorted({(delta.low, delta.high) for delta in deltas})
        ends = [low, *(high for _, high in ranges)]
        assert all(before < begin for before, (begin, _) in zip(ends, ranges, strict=False)), (place, low, ranges)
        for write_id in self.history.part(place).writers:
            if write_id > low and snapshot.valid(write_id):
                assert any(begin <= write_id <= end for begin, end in ranges), (place, write_id, low, ranges)

    def _state(self, path: Path, snapshot: Snapshot) -> State:
        return directory_state(
            path, snapshot.text, generation=self.history.generation, hidden_txns=self._hidden(snapshot)
        )

    def _hidden(self, snapshot: Snapshot) -> frozenset[int]:
        return frozenset(range(snapshot.txn + 1, self.history.table.txn + 1))

    def _read(self, path: Path, snapshot: Snapshot) -> list[Seen]:
        found = merge.read(
            path,
            snapshot.text,
            generation=self.history.generation,
            hidden_txns=self._hidden(snapshot),
            strict=not self.history.names.scattered,
        )
        return [(*row[:3], bare(_plain(value) for value in row[3])) for row in found]

    def _snapshot(self, path: Path, snapshot: Snapshot) -> list[Seen]:
        found = read_arrow(
            path,
            generation=self.history.generation,
            write_ids=snapshot.text,
            columns=columns(self.history.width),
            chosen=["a", "s", *(f"c{number}" for number in range(2, self.history.width))],
            row_ids=True,
        )
        return [(*row[:3], bare(_plain(value) for value in row[3])) for row in arrow_rows.keyed_rows(found)]


def _plain(value: object) -> object:
    """A value without the mark of text that the judge puts before it."""
    return value.removeprefix("s:") if isinstance(value, str) else value


def told(seen: list[Seen], expected: list[Seen]) -> str:
    """How the rows differ."""
    missing = [row for row in expected if row not in seen]
    surplus = [row for row in seen if row not in expected]
    return f"missing {missing}, too many {surplus}, {len(seen)} seen, {len(expected)} expected"
