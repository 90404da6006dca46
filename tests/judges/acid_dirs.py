"""What a query opens in an ACID directory for a valid write-id list: Hive's ``AcidUtils.getAcidState``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

MAX = (1 << 63) - 1
MIN = -(1 << 63)

_BASE = re.compile(r"base_(-?\d+)(?:_v(\d+))?$")
_DELTA = re.compile(r"(delete_)?delta_(\d+)_(\d+)(?:_(\d+))?(?:_v(\d+))?$")


class ReaderError(Exception):
    """A reader of this generation would fail, or the directory breaks a rule that readers rely on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteIds:
    """A ValidReaderWriteIdList: ``<table>:<hwm>:<minOpen>:<open,…>:<aborted,…>``, or blank for everything."""

    high: int = MAX
    min_open: int = MAX
    open: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> WriteIds:
        if not text.strip():
            return cls()
        parts = [*text.split(":"), "", "", ""][:5]
        ids = [frozenset(int(i) for i in part.split(",") if i) for part in parts[3:5]]
        return cls(high=int(parts[1]), min_open=int(parts[2] or MAX), open=ids[0], aborted=ids[1])

    @property
    def exceptions(self) -> frozenset[int]:
        return self.open | self.aborted

    def valid(self, write_id: int) -> bool:
        return write_id <= self.high and write_id not in self.exceptions

    def valid_base(self, write_id: int) -> bool:
        """ValidReaderWriteIdList.isValidBase: the lowest open id counts only if there are exceptions."""
        return write_id <= self.high and (not self.exceptions or write_id < self.min_open)

    def any_valid(self, low: int, high: int) -> bool:
        """ValidReaderWriteIdList.isWriteIdRangeValid is not NONE."""
        if low > self.high:
            return False
        beyond = max(0, high - self.high)
        return beyond + sum(1 for i in self.exceptions if low <= i <= high) < high - low + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Dir:
    """A base (``low`` is 0) or delta directory."""

    path: Path
    low: int
    high: int
    statement: int = -1
    delete: bool = False
    visibility: int | None = None

    @property
    def compacted_base(self) -> bool:
        """AcidUtils.isCompactedBase; as Hive does, it fails at a data format that it does not know."""
        if self.visibility is not None:
            return True
        marker = self.path / "_metadata_acid"
        if not marker.is_file():
            return False
        data_format = str(json.loads(marker.read_text())["dataFormat"]).lower()
        if data_format not in ("compacted", "truncated", "dropped"):
            raise ReaderError(f"{marker} has the data format {data_format}")
        return data_format == "compacted"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a reader opens: a base or originals, and deltas in order. ``obsolete`` is what they cover."""

    base: Dir | None
    originals: tuple[Path, ...]
    deltas: tuple[Dir, ...]
    obsolete: tuple[Path, ...]


def visible_names(directory: Path) -> list[Path]:
    return sorted(p for p in directory.iterdir() if p.name[0] not in "_.")


def parse_dir(path: Path, generation: int) -> Dir | None:
    if base := _BASE.match(path.name):
        found = Dir(path=path, low=0, high=int(base[1]), visibility=int(base[2]) if base[2] else None)
    elif delta := _DELTA.match(path.name):
        found = Dir(
            path=path,
            low=int(delta[2]),
            high=int(delta[3]),
            statement=int(delta[4]) if delta[4] else -1,
            delete=bool(delta[1]),
            visibility=int(delta[5]) if delta[5] else None,
        )
    elif path.name.startswith(("base_", "delta_", "delete_delta_")):
        raise ReaderError(f"{path} is no name of an ACID directory")
    else:
        return None
    if generation == 3 and found.visibility is not None:
        raise ReaderError(f"Hive 3 cannot parse {path.name}")
    return found


def directory_state(
    location: Path, write_ids: str = "", *, generation: int = 3, hidden_txns: frozenset[int] = frozenset()
) -> State:
    """AcidUtils.getAcidState for a query. ``hidden_txns``: visibility transactions that have not committed."""
    ids = WriteIds.parse(write_ids)
    files: list[Path] = []
    others: list[Path] = []
    bases: list[Dir] = []
    deltas: list[Dir] = []
    for path in visible_names(location):
        if not path.is_dir():
            files.append(path)
        elif (found := parse_dir(path, generation)) is None:
            others.append(path)
        elif found.visibility in hidden_txns:
            continue
        elif _BASE.match(path.name):
            bases.append(found)
        elif ids.any_valid(found.low, found.high):
            deltas.append(found)
    base, obsolete = _choose_base(bases, ids, generation)
    if bases and base is None:
        oldest = min(bases, key=lambda d: d.high)
        if generation == 3 or oldest.compacted_base:
            raise ReaderError(f"not enough history: {oldest.path} cannot be read with {write_ids}")
    originals: list[Path] = []
    if base is None:
        originals = files + [p for other in others for p in all_files(other)]
    else:
        obsolete += files + others
    taken, covered = _select(deltas, base.high if base and base.high != MIN else 0, ids)
    return State(
        base=base, originals=tuple(sorted(originals, key=str)), deltas=tuple(taken), obsolete=tuple(obsolete + covered)
    )


def all_files(directory: Path) -> list[Path]:
    found: list[Path] = []
    for path in visible_names(directory):
        found += all_files(path) if path.is_dir() else [path]
    return found


def _choose_base(bases: list[Dir], ids: WriteIds, generation: int) -> tuple[Dir | None, list[Path]]:
    best: Dir | None = None
    obsolete: list[Path] = []
    for base in bases:
        if generation == 4 and base.high in ids.aborted and not base.compacted_base:
            continue
        better = best is None or base.high > best.high
        if generation == 4 and best is not None and base.high == best.high and base.compacted_base:
            better = True
        if not better:
            obsolete.append(base.path)
        elif _base_is_valid(base, ids, generation):
            if best is not None:
                obsolete.append(best.path)
            best = base
    return best, obsolete


def _base_is_valid(base: Dir, ids: WriteIds, generation: int) -> bool:
    if base.high == MIN:
        return True
    if generation == 4 and ids.min_open != MAX and base.high <= ids.min_open:
        return True
    return ids.valid_base(base.high) if base.compacted_base else ids.valid(base.high)


def _select(deltas: list[Dir], current: int, ids: WriteIds) -> tuple[list[Dir], list[Path]]:
    taken: list[Dir] = []
    covered: list[Path] = []
    last_statement = -1
    for delta in sorted(deltas, key=lambda d: (d.low, -d.high, d.statement, str(d.path))):
        twin = taken and (taken[-1].low, taken[-1].high, taken[-1].statement) == (
            delta.low,
            delta.high,
            delta.statement,
        )
        if delta.high > current:
            if ids.any_valid(current + 1, delta.high):
                taken.append(delta)
                current, last_statement = delta.high, delta.statement
        elif (delta.high == current and last_statement >= 0) or twin:
            taken.append(delta)
        else:
            covered.append(delta.path)
    return taken, covered
