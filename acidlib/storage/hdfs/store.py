"""HDFS as a `Store`: publication by renames, and the trash that its name node keeps for each user."""

from __future__ import annotations

from dataclasses import dataclass

from acidlib.model.location import Location
from acidlib.storage.filesystem import safe_parts
from acidlib.storage.hdfs.filesystem import HdfsFileSystem
from acidlib.storage.removing import Trash
from acidlib.storage.rename_store import RenameStore


class HdfsStore(RenameStore):
    """`Store` of one name node or name service."""

    def __init__(self, fs: HdfsFileSystem) -> None:
        super().__init__(fs)
        self._hdfs = fs

    def trash(self, location: Location, name: str) -> Trash:
        """The user's where the name node keeps one, so that it is emptied; else a directory in the place."""
        if self._hdfs.keeps_trash(str(location)):
            return UsersTrash(fs=self._hdfs, location=location)
        return super().trash(location, name)

    def trash_place(self, location: Location) -> str:
        """In words: where the home directory is, the name node alone knows."""
        if self._hdfs.keeps_trash(str(location)):
            return f"the trash of this user on hdfs://{location.authority}"
        return super().trash_place(location)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersTrash:
    """`Trash` in the home directory of the user who asks for it, from where the name node removes it in time."""

    fs: HdfsFileSystem
    location: Location

    def move(self, relative: str) -> str:
        """See `HdfsFileSystem.move_to_trash`."""
        return self.fs.move_to_trash("/".join((str(self.location), *safe_parts(str(self.location), relative))))
