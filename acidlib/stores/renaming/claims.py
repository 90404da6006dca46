"""The claim on a place, made and taken over by renames: one compactor at a time, whatever queue it came from."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from acidlib.errors import WHEN_FREE, AcidError, BusyError, ConflictError, RefusedError
from acidlib.model.location import Location
from acidlib.processes import has_ended, process_identity
from acidlib.stores.filesystem import FileSystem, RenameFileSystem
from acidlib.stores.held import BEAT_SECONDS, Claim

# --- renames ----------------------------------------------------------------------------------------------------------
# Renames whose answer may be lost on its way: an error is raised, and yet it was done. Looking decides it.


def renamed(fs: RenameFileSystem, source: str, target: str, *, proof: str | None = None, durable: bool = True) -> bool:
    """Renames; False when the source is gone, or something else has the target.

    After an error it counts as done if the source is gone and `proof` is there, by default the target: so nobody else
    may make that. Then it is made durable once more, if it is to be.
    """
    try:
        fs.rename_noreplace(source, target, missing=ConflictError, durable=durable)
    except AcidError as error:
        if not fs.exists(source) and fs.exists(proof or target):
            if durable:
                fs.sync(target.rpartition("/")[0])
            return True
        if isinstance(error, ConflictError):
            return False
        raise
    return True


# --- claims -----------------------------------------------------------------------------------------------------------
# The claim on a partition: one compactor at a time, whatever queue it came from.
#
# A claim is a directory in the partition that is changed by renames only, because these are what local disks, mounts
# and HDFS do atomically for one of several callers:
#
#     _acidlib_claim/<generation>.<token>/   empty; whose token it bears holds the claim
#     _acidlib_claim/<token>.json            who that is, since when, and in which process
#
# It is made whole beside its place, as `_acidlib_claim.<token>`, and renamed there. Renewing renames the generation to
# the next one, taking over renames it to the next one with the taker's token. Both name the generation that they have
# seen, so of two takers exactly one wins, and an owner that was taken over while it slept can neither renew nor release
# the claim of its successor. Generations come into the directory only with the directory itself: one that has none is
# nobody's for ever, and anybody may remove it. A generation is a directory and no file, because a rename of a file has
# to reserve the new name where a mount knows no rename that never replaces, and then there would be two.
#
# The last sign of life is the time of modification of the directory, which every rename in it moves. What time it is
# now the taker reads off a directory that it has just made. So the clock of the file system alone decides what is
# stale, not those of the machines. An owner counts as dead after `STALE_SECONDS` without a sign of life, and at once
# when it ran on this machine and its process has ended.
#
# Nothing of a claim is synced to disk. A loss of power ends its owner as well; or, where the disk is another machine's,
# it undoes a rename, and whose rename that was finds its generation missing when it renews the claim the next time.

CLAIM_DIRECTORY = "_acidlib_claim"
STALE_SECONDS = 600.0
TRIES_TO_CLAIM = 5
"""How often a run makes its own directory before it leaves the place to others."""

_GENERATION = re.compile(r"(\d+)\.(.+)")
_FIRST_GENERATION = 1
_LOOKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimInfo:
    """Who holds a claim. `start` and `beat`, the last sign of life, are seconds since the epoch by the clock of the
    file system; `token` is unique to one claim.

    `process` is the identity of the owner's process, empty when it is not known (see `processes`).
    """

    owner: str
    token: str
    start: float
    beat: float
    process: str = ""

    def is_stale(self, now: float, stale_seconds: float = STALE_SECONDS) -> bool:
        """Whether its owner counts as dead. So does one that was last alive in the future: the clock was set back."""
        return abs(now - self.beat) > stale_seconds or has_ended(self.process)

    def encode(self) -> bytes:
        """The contents of its file."""
        return json.dumps(
            {"owner": self.owner, "token": self.token, "start": self.start, "process": self.process}
        ).encode()


class RenameClaim(Claim):
    """A claim that is a directory, see above."""

    def __init__(
        self, fs: RenameFileSystem, location: Location, info: ClaimInfo, generation: int, beat_seconds: float
    ) -> None:
        self._fs = fs
        self._path = f"{location}/{CLAIM_DIRECTORY}"
        self._generation = generation
        super().__init__(location, info.token, beat_seconds)

    def renew(self) -> bool:
        """Rename the generation to the next one.

        Where a loss of power undoes that, the claim looks older than it is: who takes it over by the generation before
        leaves us none to rename.
        """
        mine, following = (
            _generation_path(self._path, number, self.token) for number in (self._generation, self._generation + 1)
        )
        if not renamed(self._fs, mine, following, durable=False):
            return False
        self._generation += 1
        return True

    def give_up(self) -> None:
        """Remove it."""
        _release(self._fs, self._path, self._generation, self.token)


def read_claim(fs: FileSystem, location: Location) -> ClaimInfo | None:
    """The claim on a partition, whoever holds it; None without one.

    An owner whose file is missing or damaged is not known, but lives as long as the claim is renewed. Raises
    `RefusedError` for what no run leaves: a link, a file, or two generations.
    """
    found = _look(fs, f"{location}/{CLAIM_DIRECTORY}")
    return None if found is None or isinstance(found, _Nobodys) else found.holder


def claim(
    fs: RenameFileSystem,
    location: Location,
    *,
    owner: str,
    token: str,
    beat_seconds: float = BEAT_SECONDS,
    stale_seconds: float = STALE_SECONDS,
) -> RenameClaim:
    """Claims a partition for `owner` (a name for people) under the unique `token`.

    Raises `ConflictError` naming the holder while its claim is alive, or when other runs are always faster;
    `RefusedError` for a location that is no directory or a symbolic link, and for what is no claim under its name;
    `CorruptError` without a location.
    """
    if fs.exists(str(location)) and not fs.is_directory(str(location)):
        raise RefusedError(f"Cannot claim {location}: because it is a file or a symbolic link")
    info = ClaimInfo(owner=owner, token=token, start=0.0, beat=0.0, process=process_identity())
    for _ in range(TRIES_TO_CLAIM):
        held = _try_to_claim(fs, location, info, beat_seconds, stale_seconds)
        if held is not None:
            return held
    raise BusyError(f"Cannot claim {location}: other runs have just worked there; {WHEN_FREE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A claim, in the generation that was seen."""

    holder: ClaimInfo
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nobodys:
    """A claim directory without a generation, and the files in it."""

    names: tuple[str, ...]


_Found = _Held | _Nobodys


def _try_to_claim(
    fs: RenameFileSystem, location: Location, info: ClaimInfo, beat_seconds: float, stale_seconds: float
) -> RenameClaim | None:
    """None when somebody else was faster: then it has to be looked at again."""
    path = f"{location}/{CLAIM_DIRECTORY}"
    found = _look(fs, path)
    own = f"{path}.{info.token}"
    fs.make_directory(own)
    try:
        now = fs.entry(own).modified  # made after the look: a claim that was renewed since has another generation
        info = replace(info, start=now, beat=now)
        if isinstance(found, _Held) and not found.holder.is_stale(now, stale_seconds):
            raise BusyError(
                f"Cannot claim {location}: {found.holder.owner} has worked on it since "
                f"{_instant(found.holder.start)} (last sign of life {_instant(found.holder.beat)}); {WHEN_FREE}"
            )
        fs.create(f"{own}/{info.token}.json", info.encode(), durable=False)
        if isinstance(found, _Held):
            generation = _take_over(fs, path, own, info.token, found)
        else:
            generation = _make(fs, location, own, info.token, found)
    finally:
        with suppress(AcidError):  # hidden and harmless, and removed by a cleaner
            if fs.exists(own):
                fs.remove_tree(str(location), f"{CLAIM_DIRECTORY}.{info.token}")
    return None if generation is None else RenameClaim(fs, location, info, generation, beat_seconds)


def _make(fs: RenameFileSystem, location: Location, own: str, token: str, found: _Nobodys | None) -> int | None:
    """Gives our own directory the name of the claim; the generation, or None when another one has that name now."""
    path = f"{location}/{CLAIM_DIRECTORY}"
    if found is not None:
        _clear(fs, path, found.names)
    fs.make_directory(_generation_path(own, _FIRST_GENERATION, token))
    fs.inherit(own, str(location))  # others who may write there can take it over
    made = renamed(fs, own, path, proof=_generation_path(path, _FIRST_GENERATION, token), durable=False)
    return _FIRST_GENERATION if made else None


def _take_over(fs: RenameFileSystem, path: str, own: str, token: str, found: _Held) -> int | None:
    """Renames a stale generation to our own; the new one, or None when it was renewed, released or taken meanwhile."""
    following = found.generation + 1
    about_us = f"{path}/{token}.json"
    if not renamed(fs, f"{own}/{token}.json", about_us, durable=False):
        return None
    stale = _generation_path(path, found.generation, found.holder.token)
    taken = False
    try:
        taken = renamed(fs, stale, _generation_path(path, following, token), durable=False)
    finally:
        with suppress(AcidError):
            fs.remove_file(f"{path}/{found.holder.token}.json" if taken else about_us, missing=ConflictError)
    return following if taken else None


def _release(fs: RenameFileSystem, path: str, generation: int, token: str) -> None:
    """Removes our generation, whose name no other claim has, and then what is left if it is nobody's."""
    mine = _generation_path(path, generation, token)
    removed = False
    try:
        removed = fs.remove_empty_directory(mine)
    except AcidError:
        if fs.exists(mine):
            raise
    with suppress(AcidError):  # nobody holds it any more: whoever comes next removes the rest
        if removed and _clear(fs, path, (f"{token}.json",)):
            return
        found = _look(fs, path, looks=1)
        if isinstance(found, _Held) and found.holder.token == token:
            # a renewal whose answer was lost has been carried out since
            fs.remove_empty_directory(_generation_path(path, found.generation, token))
            found = _look(fs, path, looks=1)
        if isinstance(found, _Nobodys):
            _clear(fs, path, found.names)


def _clear(fs: RenameFileSystem, path: str, names: tuple[str, ...]) -> bool:
    """Removes a claim directory that had no generation; whether it did.

    Its files go by their names: those of a claim that has taken its place meanwhile have others, and the removal of the
    directory spares one that holds something.
    """
    for name in names:
        with suppress(ConflictError):
            fs.remove_file(f"{path}/{name}", missing=ConflictError)
    return fs.remove_empty_directory(path)


def _generation_path(directory: str, number: int, token: str) -> str:
    return f"{directory}/{number}.{token}"


def _look(fs: FileSystem, path: str, *, looks: int = _LOOKS) -> _Found | None:
    """What has the name of the claim; ConflictError when it always changes while it is looked at.

    A listing may miss what is renamed meanwhile, or show it twice: so what no run leaves is looked at again.
    """
    for again in reversed(range(looks)):
        try:
            entry = fs.entry(path, missing=ConflictError)
        except ConflictError:
            return None
        if entry.is_symlink:
            raise RefusedError(f"Cannot look at the claim {path}: because it is a symbolic link")
        if not entry.is_directory:
            raise RefusedError(
                f"Cannot look at the claim {path}: it is a file, which no run leaves. Remove it if nobody works there"
            )
        try:
            entries = fs.list_directory(path, missing=ConflictError)
            # after the generation: what is renewed in between is fresh, what is renewed later has another generation
            beat = fs.entry(path, missing=ConflictError).modified
        except ConflictError as error:
            if again:
                continue
            raise BusyError(f"Cannot look at the claim {path}: other runs work there just now; {WHEN_FREE}") from error
        names = tuple(entry.name for entry in entries if not entry.is_directory)
        generations = [entry.name for entry in entries if entry.is_directory]
        parsed = _GENERATION.fullmatch(generations[0]) if len(generations) == 1 else None
        if parsed is not None:
            return _Held(holder=_holder(fs, path, parsed[2], beat), generation=int(parsed[1]))
        if again:
            continue
        if generations:
            raise RefusedError(
                f"Cannot look at the claim {path}: because it holds {' and '.join(generations)}, which no run leaves. "
                "Remove it if nobody works there"
            )
        return _Nobodys(names=names)
    raise ValueError("a claim is looked at once at least")


def _holder(fs: FileSystem, path: str, token: str, beat: float) -> ClaimInfo:
    """What its file says of the owner of a claim."""
    try:
        document = json.loads(fs.read(f"{path}/{token}.json", missing=ConflictError))
        return ClaimInfo(
            owner=str(document["owner"]),
            token=token,
            start=float(document["start"]),
            beat=beat,
            process=str(document["process"]),
        )
    except (AcidError, ValueError, KeyError, TypeError):
        return ClaimInfo(owner="an unknown run (its claim is damaged)", token=token, start=beat, beat=beat)


def _instant(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{seconds} s"
