"""Walking down a tree of directories, one listing each, on any file system."""

from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.storage.filesystem import FileSystem, TreeEntry


def walk_tree(fs: FileSystem, path: str, *, enter_hidden: bool, missing: type[AcidError]) -> tuple[TreeEntry, ...]:
    """What `FileSystem.list_tree` promises."""
    found: list[TreeEntry] = []
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        absent = ConflictError if prefix else missing
        for entry in fs.list_directory(f"{path}/{prefix}".rstrip("/") or "/", missing=absent):
            hidden = not enter_hidden and entry.name.startswith(("_", "."))
            if entry.is_symlink:
                if hidden:
                    continue
                raise RefusedError(
                    f"Cannot list {path}: {prefix}{entry.name} is a symbolic link, and what lies behind it is not part "
                    "of the table; have a metastore name its target, or remove it"
                )
            relative = prefix + entry.name
            found.append(
                TreeEntry(path=relative, is_directory=entry.is_directory, length=entry.length, modified=entry.modified)
            )
            if entry.is_directory and not hidden:
                waiting.append(f"{relative}/")
    return tuple(sorted(found, key=lambda item: item.path))
