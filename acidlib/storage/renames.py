"""Renames whose answer may be lost on its way: an error is raised, and yet it was done. Looking decides it."""

from acidlib.errors import AcidError, ConflictError
from acidlib.storage.filesystem import RenameFileSystem


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
