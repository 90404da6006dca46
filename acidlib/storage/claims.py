"""The claim on a partition: one compactor at a time, whatever queue it came from.

The file `_acidlib_claim` in the partition says who works there since when, and when that process was last alive. It is
created exclusively, renewed, taken over and removed by compare-and-swap only, so that of two takers exactly one wins,
and an owner that was taken over while it slept can neither renew nor remove the claim of its successor.

An owner counts as dead when it has not renewed its claim for `STALE_SECONDS`, and at once when it ran on this machine
and its process has ended.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from types import TracebackType

from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.model.location import Location, parse_location
from acidlib.processes import has_ended, process_identity
from acidlib.storage.filesystem import FileSystem

CLAIM_FILE = "_acidlib_claim"
BEAT_SECONDS = 30.0
STALE_SECONDS = 600.0

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimInfo:
    """What a claim file says. `start` and `beat` are seconds since the epoch; `token` is unique to one claim.

    `process` is the identity of the owner's process, empty when it is not known (see `processes`).
    """

    owner: str
    token: str
    start: float
    beat: float
    process: str = ""

    def is_stale(self, now: float, stale_seconds: float = STALE_SECONDS) -> bool:
        """Whether its owner counts as dead. So does one whose clock was far ahead of ours."""
        return abs(now - self.beat) > stale_seconds or has_ended(self.process)

    def encode(self) -> bytes:
        """The contents of the claim file."""
        return json.dumps(asdict(self)).encode()


class Claim:
    """A claim that this process holds; a thread renews it until it is released.

    Use it as a context manager. Call `assert_mine` right before anything becomes visible or is deleted.
    """

    def __init__(self, fs: FileSystem, path: str, info: ClaimInfo, clock: Clock, beat_seconds: float) -> None:
        self._fs = fs
        self._path = path
        self._info = info
        self._clock = clock
        self._beat_seconds = beat_seconds
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._lost: str | None = None
        self._thread = threading.Thread(target=self._beat_until_stopped, name="acidlib-claim", daemon=True)
        self._thread.start()

    @property
    def info(self) -> ClaimInfo:
        """What the file says now, as far as this process knows."""
        with self._lock:
            return self._info

    @property
    def location(self) -> Location:
        """The partition that is claimed."""
        return parse_location(self._path.removesuffix(f"/{CLAIM_FILE}"))

    def assert_mine(self) -> None:
        """Renews the claim; raises `ConflictError` if somebody else has taken it over or it is gone."""
        with self._lock:
            self._renew()

    def release(self) -> None:
        """Stops renewing and removes the claim file, unless it is no longer ours. May be called again."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            if self._lost is None:
                self._lost = "it was released"
                self._fs.remove_if(self._path, self._info.encode())

    def __enter__(self) -> "Claim":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except AcidError:
            if error is None:
                raise  # else the first error is the one to report; the claim goes stale by itself

    def _renew(self) -> None:
        if self._lost is None:
            renewed = replace(self._info, beat=self._clock())
            if self._fs.replace_if(self._path, self._info.encode(), renewed.encode()):
                self._info = renewed
                return
            self._lost = "somebody else has taken it over or removed it"
        raise ConflictError(f"Cannot go on in {self.location}: because our claim on it is lost, {self._lost}")

    def _beat_until_stopped(self) -> None:
        while not self._stopped.wait(self._beat_seconds):
            try:
                self.assert_mine()
            except ConflictError:
                return
            except AcidError:  # the disk may be full for a while: the next renewal, or assert_mine, will show it
                continue


def read_claim(fs: FileSystem, location: Location) -> ClaimInfo | None:
    """The claim on a partition, whoever holds it; None without one.

    A claim file that does not parse counts as last alive when it was modified, so that damage ends by itself.
    """
    found = _read(fs, f"{location}/{CLAIM_FILE}")
    return None if found is None else found[1]


def is_claimed(fs: FileSystem, location: Location, now: float, *, own_token: str | None = None) -> bool:
    """Whether the partition is held by an owner that is alive and is not the caller, who has `own_token`."""
    info = read_claim(fs, location)
    return info is not None and info.token != own_token and not info.is_stale(now)


def claim(
    fs: FileSystem,
    location: Location,
    *,
    owner: str,
    token: str,
    clock: Clock,
    beat_seconds: float = BEAT_SECONDS,
    stale_seconds: float = STALE_SECONDS,
) -> Claim:
    """Claims a partition for `owner` (a name for people) under the unique `token`.

    Raises `ConflictError` naming the holder while its claim is alive, or when another taker of a stale claim was
    faster; `RefusedError` for a location that is no directory or a symbolic link; `CorruptError` without one.
    """
    if fs.exists(str(location)) and not fs.is_directory(str(location)):
        raise RefusedError(f"Cannot claim {location}: because it is a file or a symbolic link")
    path = f"{location}/{CLAIM_FILE}"
    now = clock()
    info = ClaimInfo(owner=owner, token=token, start=now, beat=now, process=process_identity())
    if not fs.exists(path):
        try:
            fs.create(path, info.encode())
        except ConflictError:
            return _taken_over(fs, path, info, clock, beat_seconds, stale_seconds)
        return Claim(fs, path, info, clock, beat_seconds)
    return _taken_over(fs, path, info, clock, beat_seconds, stale_seconds)


def _taken_over(
    fs: FileSystem, path: str, info: ClaimInfo, clock: Clock, beat_seconds: float, stale_seconds: float
) -> Claim:
    location = path.removesuffix(f"/{CLAIM_FILE}")
    found = _read(fs, path)
    if found is None:
        raise ConflictError(f"Cannot claim {location}: because another run has just worked there")
    raw, holder = found
    if not holder.is_stale(info.beat, stale_seconds):
        raise ConflictError(
            f"Cannot claim {location}: because {holder.owner} has worked on it since {_instant(holder.start)} "
            f"(last sign of life {_instant(holder.beat)})"
        )
    if not fs.replace_if(path, raw, info.encode()):
        raise ConflictError(f"Cannot claim {location}: because another run took over its stale claim first")
    return Claim(fs, path, info, clock, beat_seconds)


def _read(fs: FileSystem, path: str) -> tuple[bytes, ClaimInfo] | None:
    if not fs.exists(path):
        return None
    try:
        raw = fs.read(path, missing=ConflictError)
        modified = fs.entry(path, missing=ConflictError).modified
    except ConflictError:
        return None
    return raw, _decode(raw, modified)


def _decode(raw: bytes, modified: float) -> ClaimInfo:
    try:
        document = json.loads(raw)
        return ClaimInfo(
            owner=str(document["owner"]),
            token=str(document["token"]),
            start=float(document["start"]),
            beat=float(document["beat"]),
            process=str(document.get("process", "")),
        )
    except (ValueError, KeyError, TypeError):
        return ClaimInfo(owner="an unknown run (its claim is damaged)", token="", start=modified, beat=modified)


def _instant(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{seconds} s"
