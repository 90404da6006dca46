"""A reader whose snapshot is open for long, on tables in any store: what it may read has to stay, byte for byte."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judges import merge
from judges.acid_dirs import directory_state
from store_tables import StoreTables

from acidlib.location import Location
from acidlib.metastore.hms import Hms
from acidlib.metastore.transactions import TxnType
from acidlib.model.tables import TableRef


@dataclass(frozen=True, slots=True)
class Seen:
    """What a snapshot consists of at one place."""

    directories: frozenset[str]
    files: Mapping[str, bytes]
    rows: Sequence[merge.Row]


class OldReader:
    """An open transaction of Hive 4, and an independent reader of its snapshot."""

    def __init__(self, hms: Hms, stores: StoreTables, places: Mapping[Location, TableRef], copies: Path) -> None:
        """Opens it, and remembers what its snapshot consists of; `copies` is a directory of its own."""
        self.txn = hms.open_txn(TxnType.DEFAULT, "old reader")
        self._hms = hms
        self._stores = stores
        self._places = places
        self._copies = copies
        self._txns = hms.open_txns()
        self._write_ids = hms.valid_write_ids(sorted(set(places.values())), self._txns)
        self.seen = self._read()

    def check(self) -> None:
        """Everything is as it was."""
        assert self._read() == self.seen

    def compacted_since(self) -> set[Location]:
        """The places with results of compactions that this reader must not see."""
        return {place for place in self._places if any(map(self._is_hidden, self._names(place)))}

    def beat(self) -> None:
        """It is alive: the metastore aborts a transaction that it has not heard of for five minutes."""
        self._hms.heartbeat(txn_id=self.txn)

    def end(self) -> None:
        """Nobody keeps anything any more."""
        self._hms.commit_txn(self.txn, TxnType.DEFAULT)

    def _read(self) -> dict[Location, Seen]:
        shutil.rmtree(self._copies, ignore_errors=True)
        return {place: self._seen(place, self._copies / str(at)) for at, place in enumerate(self._places)}

    def _seen(self, place: Location, copy: Path) -> Seen:
        names = self._names(place)
        for name in names:
            (copy / name).mkdir(parents=True)
        hidden = frozenset(int(name.rpartition("_v")[2]) for name in names if self._is_hidden(name))
        write_ids = self._write_ids[self._places[place]].format()
        state = directory_state(copy, write_ids, generation=4, hidden_txns=hidden)
        chosen = frozenset(one.path.name for one in (*([state.base] if state.base else []), *state.deltas))
        for name in chosen:
            self._stores.downloaded(place.child(name), copy / name)
        files = {path.relative_to(copy).as_posix(): path.read_bytes() for path in copy.rglob("*") if path.is_file()}
        rows = merge.read(copy, write_ids, generation=4, hidden_txns=hidden, strict=True)
        return Seen(chosen, files, rows)

    def _names(self, place: Location) -> list[str]:
        return [name for name in self._stores.names(place) if name[0] not in "_."]

    def _is_hidden(self, name: str) -> bool:
        """Whether a directory is a result whose transaction its snapshot does not know as committed."""
        return "_v" in name and not self._txns.is_txn_valid(int(name.rpartition("_v")[2]))
