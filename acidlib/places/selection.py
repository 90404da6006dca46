"""Which tables and partitions a job is asked for, and which of them it works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from acidlib.arguments import IF_EXISTS
from acidlib.errors import AcidError, MissingError
from acidlib.location import Location
from acidlib.model.tables import PartitionName, TableRef, matches
from acidlib.places.place import Place
from acidlib.wording import closest


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The options of the command line that select tables and partitions; the job's help describes them."""

    location: Location | None = None
    warehouse: Location | None = None
    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    idle_seconds: float | None = None
    if_exists: bool = False

    def wants_table(self, ref: TableRef) -> bool:
        """Return whether --table selects a table (its names in lower case) and --exclude does not."""
        name = str(ref.whole_table)
        return not _any_matches(self.exclude, name) and (not self.tables or _any_matches(self.tables, name))

    def wants(self, ref: TableRef) -> bool:
        """Return whether --table and --partition select a table (its names in lower case) or partition."""
        if not self.wants_table(ref):  # first: another table need not have the keys that are named
            return False
        name = ref.partition
        return not self.partitions or (name is not None and matches(PartitionName.parse(name), self.partitions))

    def may_want_of(self, database: str) -> bool:
        """Return whether --table may select a table of a database (in lower case) whose tables are not known."""
        databases = [pattern.partition(".")[0] for pattern in self.tables]
        return f"{database}.*" not in self.exclude and (not databases or _any_matches(databases, database))

    def names_table(self, full_name: str) -> bool:
        """Return whether --table has this very name, not only a glob that matches it."""
        return any(name.lower() == full_name for name in self.tables if not is_glob(name))

    def missing_table_notes(
        self, tables: Iterable[TableRef], where: str, alike: Callable[[str], Iterable[str]]
    ) -> list[str]:
        """Return a note about the patterns of --table that match no table; MissingError unless --if-exists is given.

        alike  returns the names among which that of a missing table may be meant
        """
        names = [str(ref.whole_table) for ref in tables]
        missing = [pattern for pattern in self.tables if not any(_any_matches([pattern], name) for name in names)]
        if not missing:
            return []
        meant = [closest(name.lower(), alike(name)) for name in missing if not is_glob(name)]
        hint = ", ".join(filter(None, meant))
        named = [name.split(".", 2) for name in missing if "=" in name]
        hint = hint or next((f"{parts[0]}.{parts[1]}/{parts[2]}" for parts in named if len(parts) > 2), "")
        text = f"Cannot find {', '.join(missing)}: {where} has such a name{hint and f'; did you mean {hint}?'}"
        return [self.missing_note(MissingError(text))]

    def missing_partitions_note(self, tables: Sequence[TableRef]) -> str:
        """Return a note that no partition of the tables matches; MissingError unless --if-exists is given."""
        owner = str(tables[0]) if len(tables) == 1 else f"{len(tables)} tables"
        patterns = ", ".join(self.partitions)
        return self.missing_note(MissingError(f"Cannot find partitions of {owner}: none matches {patterns}"))

    def missing_note(self, error: MissingError) -> str:
        """Return the error as a note if --if-exists is given; else raise it."""
        if not self.if_exists:
            raise error
        return f"{error}; nothing is done there, as {IF_EXISTS} says"


def is_glob(pattern: str) -> bool:
    """Return whether a pattern may match several names."""
    return bool(set(pattern) & set("*?["))


def _any_matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern.lower()) for pattern in patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerOptions:
    """The options of a cleaner's run.

    retention_seconds  how long obsolete directories stay; None = as settings say
    selection          only these tables and partitions; without a metastore only those at or below a named directory
    force              clean also where Hive's own cleaner is on
    dry_run            report what would be removed, and change nothing
    trash              move to the trash instead of removing
    """

    retention_seconds: float | None = None
    selection: Selection = field(default_factory=Selection)
    force: bool = False
    dry_run: bool = False
    trash: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """A selected place that the job leaves alone, and the reason.

    is_refused  no compaction of it is possible
    error       why its directory cannot be read: what lies there is not known. A database's has no name of a table
    """

    place: Place
    reason: str
    is_refused: bool = False
    error: AcidError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The places that a job works on, the selected ones that it leaves alone, and notes about the rest."""

    places: tuple[Place, ...]
    passed_over: tuple[PassedOver, ...] = ()
    notes: tuple[str, ...] = ()
