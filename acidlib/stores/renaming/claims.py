"""The claim on a place, made and taken over by renames: one compactor at a time, whatever queue it came from.

A claim is a directory in the place that is changed by renames only, because local disks, mounts and HDFS do a rename
atomically for one of several callers:

    _acidlib_claim/<number>.<token>/   empty; the ticket: the run with this token holds the claim
    _acidlib_claim/<token>.json        its record: the owner, since when, and in which process

It is made whole beside its place, as `_acidlib_claim.<token>/_acidlib_claim`, and renamed there: every store refuses a
rename into a directory above, under the same name, where that is taken. Renewing renames the ticket to the next number,
taking over renames it to the next number with the taker's token. Both name the ticket that they have seen,
so of two takers exactly one wins, and an owner that was taken over while it was paused can neither renew nor release
the claim of its successor. A ticket comes into the directory only with the directory itself: one that has none is an
orphan for ever, and any run may remove it. A ticket is a directory and no file, because a rename of a file has to
reserve the new name where a mount knows no rename that never replaces, and then there would be two.

The last sign of life is the time of modification of the directory, which every rename in it moves, or of the record
of the holder, which it moves before it renames (`show_life`) where renames do not. The taker reads the present time off
a directory that it has just made. So the clock of the file system alone decides which claim is stale,
not those of the machines. An owner counts as dead after `STALE_SECONDS` without a sign of life, and at once when it ran
on this machine and its process has ended.

Nothing of a claim is synced to disk. A loss of power ends its owner as well; or, where the disk is another machine's,
it undoes a rename, and the run that had renamed finds its ticket missing when it renews the claim the next time.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from acidlib.errors import WHEN_FREE, AcidError, BusyError, ConflictError, CorruptError, RefusedError
from acidlib.location import Location
from acidlib.processes import has_ended, process_identity
from acidlib.stores.control_files import read_document
from acidlib.stores.filesystem import FileSystem, RenameFileSystem, try_to_rename
from acidlib.stores.store import CLAIM, STALE_SECONDS, Claim, utc_time

TRIES_TO_CLAIM = 5
"""How often a run makes its own directory before it leaves the place to others."""

_TICKET = re.compile(r"(\d+)\.(.+)")
_FIRST = 1
_LOOKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """The owner of a claim, by the claim's record.

    `start` and `beat`, the last sign of life, are seconds since the epoch by the clock of the file system; `token` is
    unique to one claim; `process` is the identity of the owner's process, empty when it is not known (see `processes`).
    """

    owner: str
    token: str
    start: float
    beat: float
    process: str = ""

    def is_stale(self, now: float) -> bool:
        """Tell whether the owner counts as dead; so does one with a last sign of life in the future: a reset clock."""
        return abs(now - self.beat) > STALE_SECONDS or has_ended(self.process)

    def encode(self) -> bytes:
        """Return the contents of its file."""
        return json.dumps(
            {"owner": self.owner, "token": self.token, "start": self.start, "process": self.process}
        ).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeenClaim:
    """A claim directory with the number of its ticket, and the files in it.

    Without a holder there is no ticket: the claim is an orphan.
    """

    holder: ClaimRecord | None
    number: int
    names: tuple[str, ...]


def claim(fs: RenameFileSystem, location: Location, *, owner: str, token: str) -> RenameClaim:
    """Claim a place for `owner` (a name for people) under the unique `token`.

    Raises `ConflictError` naming the holder while its claim is alive, or when other runs are always faster;
    `RefusedError` for a location that is no directory or a symbolic link, and where the claim's name is not that of a
    claim; `CorruptError` without a location.
    """
    if not fs.is_directory(str(location)) and fs.exists(str(location)):
        raise RefusedError(f"Cannot claim {location}: it is a file or a symbolic link")
    for _ in range(TRIES_TO_CLAIM):
        number = _try_to_claim(fs, location, owner, token)
        if number is not None:
            return RenameClaim(fs, location, token, number)
    raise BusyError(f"Cannot claim {location}: other runs have just worked there; {WHEN_FREE}")


def _try_to_claim(fs: RenameFileSystem, location: Location, owner: str, token: str) -> int | None:
    """Return the number of our ticket; None when another run was faster, so that it has to be looked at again."""
    path = f"{location}/{CLAIM}"
    seen = _look(fs, path)
    own = f"{path}.{token}"
    fs.make_directory(own)
    try:
        now = fs.entry(own).modified  # made after the look: a claim that was renewed since has another number
        if seen is not None and seen.holder is not None and not seen.holder.is_stale(now):
            raise BusyError(
                f"Cannot claim {location}: {seen.holder.owner} has worked on it since {utc_time(seen.holder.start)} "
                f"(last sign of life {utc_time(seen.holder.beat)}); {WHEN_FREE}"
            )
        record = ClaimRecord(owner=owner, token=token, start=now, beat=now, process=process_identity())
        is_held = seen is not None and seen.holder is not None
        new = own if is_held else f"{own}/{CLAIM}"
        if not is_held:
            fs.make_directory(new)
        fs.create(f"{new}/{token}.json", record.encode(), durable=False)
        if seen is not None:
            _require_ours(fs, path)  # now it is known to whom our files belong there
        if seen is not None and seen.holder is not None:
            return _take_over(fs, path, token, seen.number, seen.holder.token)
        if seen is not None:
            _clear(fs, path, seen.names)
        fs.make_directory(_ticket_path(new, _FIRST, token))
        proof = _ticket_path(path, _FIRST, token)
        return _FIRST if try_to_rename(fs, new, path, proof=proof, durable=False) else None
    finally:
        with suppress(AcidError):  # hidden and harmless, and removed by a cleaner
            if fs.exists(own):
                fs.remove_tree(str(location), f"{CLAIM}.{token}")


def _require_ours(fs: FileSystem, path: str) -> None:
    """Raise RefusedError for a claim of another user, who may live or have forged it: this one can tell neither."""
    try:
        is_ours = fs.entry(path, missing=ConflictError).is_ours
    except ConflictError:
        return  # it has been released since
    if not is_ours:
        raise RefusedError(
            f"Cannot claim {path.rpartition('/')[0]}: {CLAIM} there belongs to another user. All runs on a table have "
            "to be of one user; remove it if no run of that user works there"
        )


def _take_over(fs: RenameFileSystem, path: str, token: str, stale: int, stale_token: str) -> int | None:
    """Rename a stale ticket to our own; None when it was renewed, released or taken meanwhile."""
    our_record = f"{path}/{token}.json"
    if not try_to_rename(fs, f"{path}.{token}/{token}.json", our_record, durable=False):
        return None
    ours = _ticket_path(path, stale + 1, token)
    is_taken = False
    try:
        is_taken = try_to_rename(fs, _ticket_path(path, stale, stale_token), ours, durable=False)
    finally:
        with suppress(AcidError):
            fs.remove_file(f"{path}/{stale_token}.json" if is_taken else our_record, missing=ConflictError)
    return stale + 1 if is_taken else None


class RenameClaim(Claim):
    """A claim that is a directory, see above."""

    def __init__(self, fs: RenameFileSystem, location: Location, token: str, number: int) -> None:
        self._fs = fs
        self._path = f"{location}/{CLAIM}"
        self._number = number
        super().__init__(location, token)

    def renew(self) -> bool:
        """Rename the ticket to the next number.

        Where a loss of power undoes that, the claim looks older than it is: a run that takes it over by the number
        before leaves us none to rename.
        """
        following = _ticket_path(self._path, self._number + 1, self.token)
        with suppress(ConflictError):  # without its record the claim is damaged; its ticket decides
            self._fs.show_life(f"{self._path}/{self.token}.json")
        if not try_to_rename(self._fs, self._own_path, following, durable=False):
            return False
        self._number += 1
        return True

    def give_up(self) -> None:
        """Remove our ticket, whose name no other claim has, and then the rest if it is an orphan."""
        fs, path, own = self._fs, self._path, self._own_path
        is_removed = False
        try:
            is_removed = fs.remove_empty_directory(own)
        except AcidError:
            if fs.exists(own):
                raise
        with suppress(AcidError):  # it is free: the next run removes the rest
            if is_removed and _clear(fs, path, (f"{self.token}.json",)):
                return
            seen = _look(fs, path, looks=1)
            if seen is not None and seen.holder is not None and seen.holder.token == self.token:
                # a renewal whose answer was lost has been carried out since
                fs.remove_empty_directory(_ticket_path(path, seen.number, self.token))
                seen = _look(fs, path, looks=1)
            if seen is not None and seen.holder is None:
                _clear(fs, path, seen.names)

    @property
    def _own_path(self) -> str:
        return _ticket_path(self._path, self._number, self.token)


def read_claim(fs: FileSystem, location: Location) -> ClaimRecord | None:
    """Return the holder of the claim on a place, alive or not; None without one.

    An owner whose record is missing or damaged is not known, but lives as long as the claim is renewed. Raises
    `RefusedError` for a link, a file, or two tickets, which no run leaves.
    """
    seen = _look(fs, f"{location}/{CLAIM}")
    return None if seen is None else seen.holder


def _look(fs: FileSystem, path: str, *, looks: int = _LOOKS) -> _SeenClaim | None:
    """Return the directory with the name of the claim; ConflictError when it changes during each look.

    A listing may miss a directory that is renamed meanwhile, or show it twice: so a state that no run leaves is looked
    at again.
    """
    for again in reversed(range(looks)):
        try:
            entry = fs.entry(path, missing=ConflictError)
        except ConflictError:
            return None
        if entry.is_symlink:
            raise RefusedError(f"Cannot look at the claim {path}: it is a symbolic link")
        if not entry.is_directory:
            raise RefusedError(
                f"Cannot look at the claim {path}: it is a file, which no run leaves. Remove it if no run works there"
            )
        try:
            entries = fs.list_directory(path, missing=ConflictError)
            # after the ticket: a claim renewed in between is fresh, one renewed later has another number
            beat = fs.names_renamed(path, missing=ConflictError)
        except ConflictError as error:
            if again:
                continue
            raise BusyError(f"Cannot look at the claim {path}: other runs work there just now; {WHEN_FREE}") from error
        files = {entry.name: entry.modified for entry in entries if not entry.is_directory}
        tickets = [entry.name for entry in entries if entry.is_directory]
        parsed = _TICKET.fullmatch(tickets[0]) if len(tickets) == 1 else None
        if parsed is not None:
            beat = beat or files.get(f"{parsed[2]}.json", entry.modified)
            holder = _read_record(fs, path, parsed[2], beat)
            if holder is None and again:
                continue  # it may have been released or taken over since it was listed
            holder = holder or _unknown("its claim has no record", parsed[2], beat)
            return _SeenClaim(holder=holder, number=int(parsed[1]), names=tuple(files))
        if again:
            continue
        if tickets:
            raise RefusedError(
                f"Cannot look at the claim {path}: it holds {' and '.join(tickets)}, which no run leaves. "
                "Remove it if no run works there"
            )
        return _SeenClaim(holder=None, number=0, names=tuple(files))
    raise ValueError("a claim is looked at once at least")


def _read_record(fs: FileSystem, path: str, token: str, beat: float) -> ClaimRecord | None:
    """Return the record of a claim, one of an unknown run where it cannot be read; None where there is none."""
    try:
        document = read_document(fs, f"{path}/{token}.json", missing=ConflictError)
        return msgspec.convert(document | {"token": token, "beat": beat}, ClaimRecord)
    except ConflictError:
        return None
    except (CorruptError, TypeError, msgspec.ValidationError):
        return _unknown("its claim is damaged", token, beat)
    except AcidError as error:
        return _unknown(f"the record of its claim cannot be read: {error.reason}", token, beat)


def _unknown(why: str, token: str, beat: float) -> ClaimRecord:
    return ClaimRecord(owner=f"an unknown run ({why})", token=token, start=beat, beat=beat)


def _clear(fs: RenameFileSystem, path: str, names: tuple[str, ...]) -> bool:
    """Remove a claim directory that had no ticket; return whether it went.

    Its files are removed by their names: those of a claim that has taken its place meanwhile have others, and the
    removal of the directory spares one that is not empty.
    """
    for name in names:
        with suppress(ConflictError):
            fs.remove_file(f"{path}/{name}", missing=ConflictError)
    return fs.remove_empty_directory(path)


def _ticket_path(directory: str, number: int, token: str) -> str:
    return f"{directory}/{number}.{token}"
