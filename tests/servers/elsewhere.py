"""A metastore of Hive 4.0.1 whose database is none of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from acidlib.acid.names import Generation
from servers.jars import CACHE, locked
from servers.maven import run_maven
from servers.metastore import Metastore
from servers.postgres import Postgres

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_RELEASE = "org.apache.hive:hive-standalone-metastore-server:4.0.1:tar.gz:bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A server of databases: how Java and SQLAlchemy reach one of a name; `new` makes one with a metastore's tables.

    direct_sql  whether the metastore reads its own tables by SQL
    """

    driver: str
    jar: Path
    user: str
    password: str
    new: Callable[[], str]
    jdbc: Callable[[str], str]
    url: Callable[[str], str]
    direct_sql: bool = True


class MetastoreElsewhere(Metastore):
    """A metastore on a database of such a server, which goes with that."""

    def __init__(self, where: Elsewhere, *, postgres: Postgres, directory: Path) -> None:
        """``postgres`` is not asked for anything."""
        self._where = where
        super().__init__(Generation.HIVE4, postgres=postgres, directory=directory, txn_timeout_seconds=3600)

    @property
    def database_url(self) -> str:
        """Its database for SQLAlchemy; only after the first start."""
        return self._where.url(self.database)

    @property
    def properties(self) -> dict[str, str]:
        """What its hive-site.xml says; only after the first start."""
        return super().properties | {
            "javax.jdo.option.ConnectionURL": self._where.jdbc(self.database),
            "javax.jdo.option.ConnectionDriverName": self._where.driver,
            "javax.jdo.option.ConnectionUserName": self._where.user,
            "javax.jdo.option.ConnectionPassword": self._where.password,
            "hive.metastore.try.direct.sql": str(self._where.direct_sql).lower(),
        }

    def remove(self) -> None:
        """Stops it; its database goes with the server."""
        self.stop()

    def _jars(self) -> list[str]:
        return [*super()._jars(), str(self._where.jar)]

    def _prepare(self) -> None:
        if not self.database:
            self.database = self._where.new()
        super()._prepare()


def schema_script(kind: str) -> Path:
    """The script that makes the tables of a metastore of Hive 4.0.1 in a kind of database."""
    return brought_file("unpack", _RELEASE, f"hive-schema-4.0.0.{kind}.sql")


def brought_file(goal: str, artifact: str, name: str) -> Path:
    """A file that is an artifact, or is in one, brought once per checkout. Raises ServerError as `run_maven` does."""
    place = CACHE / "elsewhere"
    with locked(CACHE / "elsewhere.lock"):
        if not list(place.rglob(name)):
            place.mkdir(exist_ok=True)
            options = [f"-Dartifact={artifact}", f"-DoutputDirectory={place}", f"-Dmdep.unpack.includes=**/{name}"]
            run_maven(name, [f"{_PLUGIN}:{goal}", *options], directory=place)
    return next(place.rglob(name))
