"""What is in a place as its readers see it: which directories and files count, which do not, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from acidlib.model.generation import Generation
from acidlib.model.listing import ListedFile, Listing, has_hidden_part
from acidlib.model.names import BaseDir, DeltaDir, SideFile, is_hidden, parse_directory, parse_file
from acidlib.planning.state import AcidState


class Role(Enum):
    """What readers do with a directory or file."""

    READ = "read"
    OBSOLETE = "obsolete"
    ABORTED = "aborted"
    NOT_READ = "not read"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPart:
    """A directory at the top of a place, or a file there.

    path       relative to the place
    kind       base, delta, delete delta, original file, other directory, hidden directory, hidden file
    write_ids  the first and the last that its name covers; None for what has none in its name
    why        the reason, in words
    files      paths of the files that readers take for data, hidden ones (markers, side files) left out
    bytes      of all files in it, which are not looked at where readers do not see the directory
    """

    path: str
    kind: str
    write_ids: tuple[int, int] | None
    role: Role
    why: str
    files: tuple[str, ...]
    bytes: int


_ORDER = tuple(Role)


def seen_parts(listing: Listing, state: AcidState, generation: Generation) -> tuple[SeenPart, ...]:
    """Everything at the top of a listed place, what is read first, else by name.

    state  of the same listing, for the write ids of a reader (not those of a compactor, which stop at the first open
           one)
    """
    return tuple(sorted(_parts(listing, state, generation), key=lambda part: (_ORDER.index(part.role), part.path)))


def _parts(listing: Listing, state: AcidState, generation: Generation) -> Iterator[SeenPart]:
    roles = _roles(state)
    for path in listing.top_directories():
        files = listing.files_under(path)
        name = parse_directory(path, generation)
        # Hive reads what is in other directories as original files, one by one
        inside = next((roles[file.path] for file in files if file.path in roles), None)
        role, why = roles.get(path) or inside or (Role.NOT_READ, "it holds no file that readers see")
        yield SeenPart(
            path=path,
            kind=_kind(name),
            write_ids=_write_ids(name),
            role=role,
            why=why,
            files=tuple(file.path for file in files if not has_hidden_part(file.path) and not _is_side_file(file)),
            bytes=sum(file.length for file in files),
        )
    for file in listing.files_in(""):
        if is_hidden(file.path):
            yield _hidden(file.path, "hidden file", file.length)
            continue
        role, why = roles.get(file.path, (Role.NOT_READ, "it is empty"))
        yield SeenPart(
            path=file.path,
            kind="original file",
            write_ids=None,
            role=role,
            why=why,
            files=(file.path,),
            bytes=file.length,
        )
    for path in {path.partition("/")[0] for path in listing.directories}:
        if is_hidden(path):
            yield _hidden(path, "hidden directory", 0)


def _roles(state: AcidState) -> dict[str, tuple[Role, str]]:
    """What becomes of each path, and why, by the state's own words."""
    found: dict[str, tuple[Role, str]] = {}
    if state.base is not None:
        found[state.base.path] = (Role.READ, "the newest base whose write ids are all decided")
    for path in state.originals:
        found[path] = (Role.READ, "no base replaces it")
    for delta in state.deltas:
        why = "all its write ids were rolled back, and Hive 3.1 opens it" if delta.wholly_aborted else ""
        found[delta.path] = (Role.READ, why or "no base and no wider delta covers it")
    for one in state.obsolete:
        found[one.path] = (Role.OBSOLETE, f"replaced by {', '.join(one.covered_by)}" if one.covered_by else "replaced")
    for path in state.aborted:
        found[path] = (Role.ABORTED, "all its transactions were rolled back")
    for ignored in state.ignored:
        found[ignored.path] = (Role.NOT_READ, ignored.reason.value)
    return found


def _hidden(path: str, kind: str, size: int) -> SeenPart:
    return SeenPart(
        path=path,
        kind=kind,
        write_ids=None,
        role=Role.HIDDEN,
        why="readers pass over names that begin with _ or a dot",
        files=(),
        bytes=size,
    )


def _kind(name: BaseDir | DeltaDir | None) -> str:
    if name is None:
        return "other directory"
    if isinstance(name, BaseDir):
        return "base"
    return "delete delta" if name.is_delete else "delta"


def _write_ids(name: BaseDir | DeltaDir | None) -> tuple[int, int] | None:
    if name is None:
        return None
    if isinstance(name, BaseDir):
        return 0, max(name.write_id, 0)  # a base of nothing but converted original files
    return name.min_write_id, name.max_write_id


def _is_side_file(file: ListedFile) -> bool:
    return isinstance(parse_file(file.name), SideFile)
