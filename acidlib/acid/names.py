"""Names of ACID directories and of the files in them, parsed and written, and the Hive that names and reads them.

Source of the forms: Hive `AcidUtils` (`baseDir`, `deltaSubdir`, `deleteDeltaSubdir`, `ParsedBaseLight`,
`ParsedDeltaLight`, `parseBucketId`) and `OrcAcidUtils.getSideFile`. Ids are printed with at least seven digits, longer
ones are simply longer; readers accept any number of digits, so names are never compared as text.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NewType

from acidlib.errors import CorruptError, RefusedError


class Generation(enum.IntEnum):
    """A generation of Apache Hive: 3 (3.0 and 3.1) or 4. A rule asks it of one fact: `Calls`, `Names` or `Reader`.

    The three are of one generation in Apache's releases, and not in forks; so each is a type of its own.
    """

    HIVE3 = 3
    HIVE4 = 4


Calls = NewType("Calls", Generation)
"""The generation of a metastore's calls, of its queue, and of the words and rules of that queue."""
OWN_QUEUE = Calls(Generation.HIVE4)
"""The queue of this engine has the words and rules of Hive 4's."""

Names = NewType("Names", Generation)
"""The generation of names and of the rules that go by them: the state of a place (`AcidUtils`), and what a compactor
makes of it. Hive 3.1 has no visibility suffix and no attempt suffix, Hive 4 has both."""

Reader = NewType("Reader", Generation)
"""The generation of what reads the files: how it finds columns (by name or by position), converts and compares values,
its ORC library (1.5 or 1.8), and which statistics it believes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hive:
    """The Hive of a place: whose names and rules hold there, and who reads it.

    Apache's two are `HIVE_OF`; a fork is another pair, such as names of Hive 4 that are read as in Hive 3.1.
    """

    names: Names
    reader: Reader


HIVE_OF = {generation: Hive(names=Names(generation), reader=Reader(generation)) for generation in Generation}
ANY_NAMES = Names(Generation.HIVE4)
"""For names of either generation: the rules of Hive 4 read all of Hive 3.1's names."""


LONG_MIN = -(2**63)
LONG_MAX = 2**63 - 1

ORC_ACID_VERSION_FILE = "_orc_acid_version"
METADATA_ACID_FILE = "_metadata_acid"
SIDE_FILE_SUFFIX = "_flush_length"

BASE_PREFIX = "base_"
DELTA_PREFIX = "delta_"
DELETE_DELTA_PREFIX = "delete_delta_"

_NAMES_KEPT = 4096
"""Names in the caches of parsed names: the places of a table have the same names, and each is parsed several times."""
_NUMBER = r"[0-9]{1,19}"
_BASE = re.compile(rf"base_(-9223372036854775808|{_NUMBER})(?:_v({_NUMBER}))?")
_DELTA = re.compile(rf"(delete_)?delta_({_NUMBER})_({_NUMBER})(?:_([0-9]{{1,9}}))?(?:_v({_NUMBER}))?")
_BUCKET = re.compile(r"bucket_([0-9]{1,9})(?:_([0-9]{1,9}))?")
_SIDE = re.compile(r"bucket_[0-9]{1,9}(?:_[0-9]{1,9})?_flush_length")
_ORIGINAL = re.compile(r"([0-9]{1,9})_([0-9]{1,9})(?:_copy_([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseDir:
    """`base_W` or `base_W_vT`: replaces every row with a write id of at most W.

    `write_id` is `LONG_MIN` for the base that holds nothing but converted original files (Hive's
    `base_-9223372036854775808`). `visibility_txn` 0 means no suffix, visible at once.
    """

    write_id: int
    visibility_txn: int = 0

    @property
    def name(self) -> str:
        """The canonical directory name."""
        number = str(LONG_MIN) if self.write_id == LONG_MIN else f"{self.write_id:07d}"
        return f"{BASE_PREFIX}{number}{_visibility(self.visibility_txn)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaDir:
    """`delta_A_B[_S][_vT]` or `delete_delta_A_B[_S][_vT]`: the events of write ids A to B, both included.

    `statement_id` -1 means that the name has no statement part. `visibility_txn` 0 means no suffix.
    """

    min_write_id: int
    max_write_id: int
    statement_id: int = -1
    visibility_txn: int = 0
    is_delete: bool = False

    @property
    def name(self) -> str:
        """The canonical directory name."""
        prefix = DELETE_DELTA_PREFIX if self.is_delete else DELTA_PREFIX
        statement = f"_{self.statement_id:04d}" if self.statement_id >= 0 else ""
        return f"{prefix}{self.min_write_id:07d}_{self.max_write_id:07d}{statement}{_visibility(self.visibility_txn)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFile:
    """`bucket_NNNNN` or `bucket_NNNNN_K` (K = task attempt, written by Hive 4's direct insert): an ACID ORC file."""

    bucket: int
    attempt: int | None = None

    @property
    def name(self) -> str:
        """The canonical file name."""
        return f"bucket_{self.bucket:05d}" + ("" if self.attempt is None else f"_{self.attempt}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalFile:
    """`NNNNNN_S` or `NNNNNN_S_copy_C`: a file without ACID columns; `copy` is None without the copy part."""

    bucket: int
    writer_suffix: int = 0
    copy: int | None = None

    @property
    def name(self) -> str:
        """The canonical file name."""
        return f"{self.bucket:06d}_{self.writer_suffix}" + ("" if self.copy is None else f"_copy_{self.copy}")


def is_hidden(name: str) -> bool:
    """Return whether every reader skips a name: `_` or `.` is first (Hive `FileUtils.HIDDEN_FILES_PATH_FILTER`)."""
    return name.startswith(("_", "."))


def is_acid_directory_name(name: str) -> bool:
    """Return whether a name has the prefix of an ACID directory, valid or not; a partition's `base_id=1` has not."""
    return name.startswith((BASE_PREFIX, DELTA_PREFIX, DELETE_DELTA_PREFIX)) and "=" not in name


def has_visibility_suffix(name: str) -> bool:
    """Return whether an ACID directory name carries `_v`, which Hive 4 alone writes and reads."""
    return is_acid_directory_name(name) and "_v" in name


@lru_cache(_NAMES_KEPT)
def parse_directory(name: str, names: Names) -> BaseDir | DeltaDir | None:
    """Return the parsed name of a directory (last path component), or None when it is not an ACID directory name.

    Raises CorruptError when it begins as one and does not parse (Hive throws, too: taking it for a directory of
    original files would bring its rows back under new keys), and RefusedError when Hive 3.1 could not read a `_v` name.
    """
    if not is_acid_directory_name(name):
        return None
    parsed: BaseDir | DeltaDir | None = None
    if match := _BASE.fullmatch(name):
        write_id, visibility = int(match[1]), int(match[2] or 0)
        if max(write_id, visibility) <= LONG_MAX:
            parsed = BaseDir(write_id=write_id, visibility_txn=visibility)
    elif match := _DELTA.fullmatch(name):
        low, high, visibility = int(match[2]), int(match[3]), int(match[5] or 0)
        if low <= high and max(high, visibility) <= LONG_MAX:
            parsed = DeltaDir(
                min_write_id=low,
                max_write_id=high,
                statement_id=int(match[4] or -1),
                visibility_txn=visibility,
                is_delete=match[1] is not None,
            )
    if parsed is None:
        raise CorruptError(f"Cannot take {name!r} for an ACID directory: its name does not parse")
    if names == Generation.HIVE3 and has_visibility_suffix(name):
        raise RefusedError(f"Cannot use {name!r} by the rules of Hive 3: Hive 3 reads no name with a visibility suffix")
    return parsed


@lru_cache(_NAMES_KEPT)
def parse_file(name: str) -> BucketFile | OriginalFile | None:
    """Return the parsed name of a data file (last path component); None for one without a bucket number."""
    if match := _BUCKET.fullmatch(name):
        return BucketFile(bucket=int(match[1]), attempt=_optional(match[2]))
    if match := _ORIGINAL.fullmatch(name):
        return OriginalFile(bucket=int(match[1]), writer_suffix=int(match[2]), copy=_optional(match[3]))
    return None


def is_side_file(name: str) -> bool:
    """Return whether a file (last path component) holds the readable length of the bucket file beside it."""
    return name.endswith(SIDE_FILE_SUFFIX) and _SIDE.fullmatch(name) is not None


def side_file_name(data_file: str) -> str:
    """Return the name (or path) of the side file of a data file name (or path)."""
    return data_file + SIDE_FILE_SUFFIX


def may_have_side_files(name: BaseDir | DeltaDir | None, names: Names) -> bool:
    """Return whether readers look for side files in a directory (None: that of original files).

    Hive 3.1 does in each (`AcidUtils.getLogicalLength`); Hive 4 only in a delta of rows, of several write ids, that no
    compactor made (`ParsedDeltaLight.mayContainSideFile`), and reads other files to their end.
    """
    if names is Generation.HIVE3:
        return True
    if not isinstance(name, DeltaDir):
        return False
    return name.min_write_id != name.max_write_id and not name.is_delete and name.visibility_txn <= 0


def _visibility(txn: int) -> str:
    return f"_v{txn:07d}" if txn > 0 else ""


def _optional(digits: str | None) -> int | None:
    return None if digits is None else int(digits)
