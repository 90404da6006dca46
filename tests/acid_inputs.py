"""Unit inputs for tests: ACID and original files on disk as planning names them, and write-id lists.

Their location is the root of the file system, so that any path below it may be one of a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from judges import mutants, tables
from judges import orc_tail as o

from acidlib.acid.names import Generation
from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.datafiles import DataFiles, SourceFile
from acidlib.location import Location
from acidlib.model.units import ColumnMatching, DataFile, FileForm
from acidlib.orc.alignment import align
from acidlib.orc.schema import TypeNode
from acidlib.rows.files import InputFiles, OpenInput, OpenInputs, open_inputs
from acidlib.rows.row_ids import StripeKeys
from acidlib.stores.renaming.local import LocalDataFiles
from acidlib.stores.stores import Stores

COLUMNS = "struct<a:int,s:string>"
STRIPES = tables.Layout(compression="none", stripe_size=1, stride=5, batch=10)
"""A stripe of ten rows each, two row groups in it."""

B0, B1, B3 = (tables.bucket_property(number, 0) for number in (0, 1, 3))


@dataclass(slots=True)
class CountedFiles:
    """Local files: the names of those that are open, how often each was opened, and how often its end was read.

    The end of an ORC file is its tail, and nothing else is read up to there.
    """

    opened: list[str] = field(default_factory=list)
    opens: Counter[str] = field(default_factory=Counter)
    tails: Counter[str] = field(default_factory=Counter)

    def open(self, path: str, length: int) -> SourceFile:
        source = LocalDataFiles().open(path, length)
        self.opened.append(path)
        self.opens[path] += 1
        return _Counted(source, self)

    def create(self, path: str) -> Any:
        return LocalDataFiles().create(path)

    def tails_below(self, location: Path) -> dict[str, int]:
        """How often the tail of each file was read, by its path below a location."""
        return {str(Path(path).relative_to(location)): count for path, count in self.tails.items()}


class _Counted:
    def __init__(self, source: SourceFile, files: CountedFiles) -> None:
        self._source, self._files = source, files
        self.name, self.length, self.memory = source.name, source.length, source.memory

    def read(self, offset: int, size: int) -> bytes:
        if offset + size == self.length:
            self._files.tails[self.name] += 1
        return self._source.read(offset, size)

    def close(self) -> None:
        self._files.opened.remove(self.name)
        self._source.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenedBy(Stores):
    files: CountedFiles

    def data(self, location: Location) -> CountedFiles:
        return self.files


def opened_by(files: CountedFiles) -> Stores:
    """Stores that open every data file by these."""
    return _OpenedBy(files=files)


def at_root(data: DataFiles | None = None) -> InputFiles:
    """The files of the root, as one task reads them."""
    return InputFiles("", data or LocalDataFiles())


def full(file: DataFile) -> str:
    """Where a file of the root is."""
    return f"/{file.path}"


def at(path: Path, **values: Any) -> DataFile:
    """The data file at a path; its directory is the one it lies in."""
    values = {"directory": path.parent.name, "length": path.stat().st_size, "bucket": 0, **values}
    return DataFile(path=str(path.relative_to("/")), **values)


def write(path: Path, data: bytes, *, bucket: int = 0, **changes: Any) -> DataFile:
    """A data file with this content; its directory is the one it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return at(path, bucket=bucket, **changes)


def aligned(target_row: TypeNode, file: OpenInput) -> OpenInput:
    """An input whose columns fill a table's as Hive 3.1 would."""
    matching = ColumnMatching.of(Generation.HIVE3)
    alignment = align(target_row, file.row, where=file.tail.name, reader=Generation.HIVE3, matching=matching)
    return replace(file, aligned=alignment)


def events(
    path: Path, found: Sequence[tables.Event], layout: tables.Layout = STRIPES, *, bucket: int = 0, **changes: Any
) -> DataFile:
    """A file of ACID events."""
    return write(path, tables.acid_bytes(COLUMNS, found, layout), bucket=bucket, **changes)


def original(path: Path, rows: Sequence[Any], *, bucket: int = 0, **changes: Any) -> DataFile:
    """A file of rows without ACID columns."""
    data = tables.orc_bytes(COLUMNS, rows, STRIPES)
    return write(path, data, bucket=bucket, **{"form": FileForm.ORIGINAL, "directory": "", **changes})


def delta(location: Path, count: int = 30, write_id: int = 7, **changes: Any) -> DataFile:
    """A delta of rows in stripes of ten."""
    name = tables.delta_name(write_id, write_id)
    return events(location / name / "bucket_00000", tables.inserts(write_id, rows(count)), **changes)


def all_keys(stripe: StripeKeys) -> list[tuple[int, int, int]]:
    """The keys of a stripe's rows."""
    found, _ = stripe.ids()
    return [found.key(index) for index in range(len(found))]


def rows(count: int, first: int = 0) -> list[tuple[int, str]]:
    return [(first + number, f"row {first + number}") for number in range(count)]


def without_key_index(data: bytes) -> bytes:
    return mutants.with_user_metadata(o.read_orc(data), {"hive.acid.key.index": None})


def with_key_index(data: bytes, entries: str) -> bytes:
    return mutants.with_user_metadata(o.read_orc(data), {"hive.acid.key.index": entries.encode()})


def without_stride(data: bytes) -> bytes:
    """The same file whose footer says that it has no row index: its statistics may not be believed then."""
    orc = o.read_orc(data)
    return o.with_tail(orc, {**orc.footer, 8: [0]})


def ids(mark: int = 1000, aborted: str = "") -> ValidWriteIdList:
    return ValidWriteIdList.parse(f"default.t:{mark}:9223372036854775807::{aborted}").for_compactor()


@contextmanager
def opened(*files: DataFile) -> Iterator[tuple[OpenInput, ...]]:
    with open_all(files) as inputs:
        yield inputs.files


def open_all(files: tuple[DataFile, ...], data: DataFiles | None = None) -> AbstractContextManager[OpenInputs]:
    return open_inputs(files, at_root(data))
