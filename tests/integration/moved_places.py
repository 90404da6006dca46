"""Tables and partitions of a metastore that lie in other stores than its warehouse, and copies of them to be judged.

They are made on local disks first, then copied and the metastore told, as if they had always been there. The metastore
itself reaches none of these stores: only its database says where things are.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import hdfs_tables
import psycopg
import s3_tables
from servers.hdfs import Hdfs
from servers.metastore import Metastore
from servers.s3 import S3Server

from acidlib.location import S3, VIEWFS, Location, local_location


class MovedPlaces:
    """Directories of the warehouse of a metastore that were moved; in the end the metastore is told their old places.

    A metastore removes the files of what is dropped, and cannot reach these.
    """

    def __init__(self, metastore: Metastore, hdfs: Hdfs, s3: S3Server, copies: Path) -> None:
        """`copies` is a directory for what is judged."""
        self._metastore = metastore
        self._hdfs = hdfs
        self._s3 = s3
        self._copies = copies
        self._moved: dict[Path, Location] = {}
        self._on_hdfs: dict[Path, Location] = {}
        self._before: dict[Path, str] = {}
        self._told: dict[Path, str] = {}

    def move(self, place: Path, kind: str) -> Location:
        """Moves a directory into a new one of HDFS, which a mount table may name, or into a new bucket."""
        if kind == S3:
            moved = s3_tables.uploaded(self._s3, place, place.name)
        else:
            moved = self._on_hdfs[place] = hdfs_tables.uploaded(self._hdfs, place, place.name)
        shutil.rmtree(place)
        self.tell(place, hdfs_tables.viewed(moved) if kind == VIEWFS else str(moved))
        self._moved[place] = moved
        return moved

    def tell(self, place: Path, uri: str) -> None:
        """Tells the metastore another location of what has, or had, its own in the warehouse."""
        if place not in self._before:
            ((self._before[place],),) = self._sql(
                'SELECT DISTINCT "LOCATION" FROM "SDS" WHERE "LOCATION" IN (%s, %s)', f"file:{place}", f"file://{place}"
            )
        self._change(self._told.get(place, self._before[place]), uri)
        self._told[place] = uri

    def again(self) -> None:
        """Tells the metastore all old locations."""
        for place, before in self._before.items():
            self.tell(place, before)

    def where(self, place: Path) -> Location:
        """Where lies what was made in a directory."""
        return self._moved.get(place, local_location(str(place)))

    def copy(self, root: Path, places: Iterable[Path]) -> Path:
        """A copy, at one place, of the directories that belong to the table of a directory, wherever they lie."""
        target = self._copies / root.name
        shutil.rmtree(target, ignore_errors=True)
        for place in places:
            self._download(place, target / place.relative_to(root))
        return target

    def names(self, place: Path) -> list[str]:
        """What readers see at the top of a directory."""
        copy = self._download(place, self._copies / "looked at")
        return sorted(path.name for path in copy.iterdir() if path.name[0] not in "_.")

    def hidden_names(self, place: Path) -> list[str]:
        """What jobs left there for themselves."""
        copy = self._download(place, self._copies / "looked at")
        return sorted(path.name for path in copy.iterdir() if path.name[0] in "_.")

    def _download(self, place: Path, target: Path) -> Path:
        where = self.where(place)
        if place in self._on_hdfs:
            return hdfs_tables.downloaded(self._hdfs, self._on_hdfs[place], target)
        if where.kind == S3:
            return s3_tables.downloaded(self._s3, where, target)
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(place, target))

    def _change(self, before: str, after: str) -> None:
        assert self._sql('UPDATE "SDS" SET "LOCATION" = %s WHERE "LOCATION" = %s RETURNING 1', after, before)

    def _sql(self, statement: str, *values: object) -> list[tuple[str, ...]]:
        url = self._metastore.database_url.replace("+psycopg", "")
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(statement.encode(), values).fetchall()
