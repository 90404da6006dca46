"""The environment of a run: settings, the addresses of queue and metastore, user and host. Nothing is opened here."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from acidlib.arguments import METASTORE_DB, QUEUE_URL
from acidlib.config.files import METASTORE_DB_VARIABLE, absolute_path, conf_file
from acidlib.config.settings import Settings, load_settings
from acidlib.errors import RefusedError, UsageError
from acidlib.execute.spark_options import SparkOptions
from acidlib.metastore.options import (
    CATALOG,
    PROTECTION,
    TOKEN_VARIABLE,
    ConnectionOptions,
    KerberosLogin,
    catalog_from_settings,
    names_zookeeper,
    options_from_settings,
    parse_endpoints,
    uris_from_settings,
    zookeeper_tls,
)
from acidlib.places.place import stated_reader
from acidlib.processes import user_name
from acidlib.stores.hadoop import JavaSecrets

_WITH_TICKET, _NOTHING = KerberosLogin(), SparkOptions(())
SHIPPED_BY_YARN = Path("__spark_conf__", "__hadoop_conf__")
"""The directory in which a driver on YARN finds the files of HADOOP_CONF_DIR and YARN_CONF_DIR of spark-submit.

Source: Spark `org.apache.spark.deploy.yarn.Client` (LOCALIZED_CONF_DIR, LOCALIZED_HADOOP_CONF_DIR).
"""
QUEUE_IN_A_FILE = (
    "Cannot use the queue in a file of the driver's machine: Spark chooses that machine anew for each run "
    f"(--deploy-mode cluster); {QUEUE_URL} names a database that each of them reaches"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The environment of a run.

    queue_url        of our own queue, or of the one in a metastore's database; empty if there is no place for a file
    is_queue_named   an option or a variable names it
    has_metastore_db  it is stated to be the metastore's database
    is_placed        Spark chose the machine of this driver
    metastore        URIs of the metastore; empty = without a metastore
    names_metastore  it is stated on the command line
    conf_dir, hadoop_dir  the folders of the site files of Hive and of Hadoop
    token            a JWT for the metastore
    secrets          in Hadoop's credential providers and in truststores
    login            the principal for Kerberos
    user, host       of this process
    pool             of the metastore's requests (Hive 4); None = as settings say
    """

    settings: Settings
    queue_url: str = field(repr=False)
    is_queue_named: bool = True
    has_metastore_db: bool = False
    is_placed: bool = False
    metastore: tuple[str, ...] = field(default=(), repr=False)
    names_metastore: bool = False
    conf_dir: Path | None = field(default=None, compare=False)
    hadoop_dir: Path | None = field(default=None, compare=False)
    token: str | None = field(default=None, repr=False)
    secrets: JavaSecrets = field(default_factory=JavaSecrets, compare=False, repr=False)
    login: KerberosLogin = _WITH_TICKET
    user: str = field(default_factory=user_name)
    host: str = field(default_factory=socket.gethostname)
    pool: str | None = None

    @property
    def metastore_words(self) -> str:
        """The URIs of the metastore, and what names them if no argument does; empty without a metastore."""
        uris = ", ".join(self.metastore)
        return uris if not uris or self.names_metastore else f"{uris} of {self.hive_source}"

    @property
    def hive_source(self) -> str:
        """Where the site files of Hive are looked for, for messages."""
        return _source("HIVE_CONF_DIR", self.conf_dir)

    @property
    def hadoop_source(self) -> str:
        """Where the site files of Hadoop are looked for, for messages."""
        return _source("HADOOP_CONF_DIR", self.hadoop_dir)

    @property
    def metastore_name(self) -> str:
        """The name of the metastore in our own queue: the same URIs in any order are the same metastore.

        A catalog other than the default is part of it, as the queue has only databases and tables.
        """
        catalog = catalog_from_settings(self.settings.site)
        return ",".join(sorted(self.metastore)) + (f"#{catalog}" if catalog != CATALOG else "")

    def connection_options(self) -> ConnectionOptions:
        """Return the options of connections to the metastore; RefusedError if its settings contradict each other
        or state no reader."""
        site = self.settings.site
        stated = {key: value for key, value in self.settings.hadoop.items() if key == PROTECTION}
        options = options_from_settings(stated | dict(site), token=self.token, secrets=self.secrets, login=self.login)
        options = replace(options, reader=stated_reader(self.settings))
        if names_zookeeper(self.metastore):
            return replace(options, zookeeper_tls=zookeeper_tls(site, self.secrets))
        return options


def stated_uris(option: str | None) -> tuple[str, ...] | None:
    """Return the URIs of --metastore-uri: an empty tuple for `none`, None without the option.

    RefusedError for an invalid URI.
    """
    if option is None:
        return None
    if option.strip().lower() == "none":
        return ()
    parse_endpoints([option])
    return uris_from_settings({"hive.metastore.uris": option})


def read_environment(
    *,
    metastore: tuple[str, ...] | None,
    metastore_db: str | None = None,
    queue_url: str | None,
    assignments: Sequence[str],
    spark: SparkOptions = _NOTHING,
    is_placed: bool = False,
    jvm: Callable[[], tuple[Any, Any]] | None = None,
) -> Environment:
    """Return the environment of a run, by its options and by the variables of this process.

    metastore  as `stated_uris` returns it; None = the one of hive-site.xml, by either of Hive's names
    metastore_db, queue_url  of the metastore's database, which wins, and of a queue, which may be that one, too; None
                             for both: ACIDLIB_METASTORE_DB
    spark      the options of Spark, with properties of Hadoop and the principal for Kerberos
    jvm        py4j's view of the JVM of Spark, and the configuration of Hadoop in it

    Raises as `read_settings` does.
    """
    settings = read_settings(assignments, is_placed=is_placed)
    if metastore is None:
        metastore, names_metastore = uris_from_settings(settings.site), False
    else:
        names_metastore = bool(metastore)
    if metastore_db and not metastore:
        raise UsageError(f"{METASTORE_DB} needs a metastore")
    if metastore and not queue_url:
        metastore_db = metastore_db or os.environ.get(METASTORE_DB_VARIABLE)
    return Environment(
        settings=settings,
        queue_url=metastore_db or queue_url or _own_queue(),
        is_queue_named=bool(metastore_db or queue_url),
        has_metastore_db=bool(metastore_db),
        is_placed=is_placed,
        metastore=metastore,
        names_metastore=names_metastore,
        conf_dir=_path_of("HIVE_CONF_DIR"),
        hadoop_dir=_hadoop_dir(is_placed=is_placed),
        secrets=JavaSecrets(jvm, {**settings.hadoop, **spark.hadoop, **settings.site}),
        token=os.environ.get(TOKEN_VARIABLE, "").strip() or None,
        login=replace(spark.login, cache=os.environ.get("KRB5CCNAME") or None),
    )


def read_settings(assignments: Sequence[str], *, is_placed: bool) -> Settings:
    """Read the settings of a run from the files that variables such as `HIVE_CONF_DIR` name, and from `--set`.

    Raises `RefusedError` if `ACIDLIB_CONF_DIR` is no directory, as its settings would be missing; and as
    `load_settings` does.
    """
    own_dir = _path_of("ACIDLIB_CONF_DIR")
    if own_dir is not None and not own_dir.is_dir():
        raise RefusedError(f"Cannot read settings from {own_dir}: ACIDLIB_CONF_DIR names no directory there")
    java = {"user.dir": str(Path.cwd()), "java.io.tmpdir": "/tmp", "file.separator": "/"}  # noqa: S108 - Java's default
    with suppress(KeyError):  # a user without a name, as in some containers
        user = pwd.getpwuid(os.getuid())
        java |= {"user.name": user.pw_name, "user.home": user.pw_dir}
    return load_settings(
        conf_dir=_path_of("HIVE_CONF_DIR"),
        hadoop_dir=_hadoop_dir(is_placed=is_placed),
        toml=conf_file("acidlib.toml", os.environ),
        assignments=assignments,
        variables=os.environ,
        java=java,
    )


def _hadoop_dir(*, is_placed: bool) -> Path | None:
    shipped = SHIPPED_BY_YARN if is_placed and SHIPPED_BY_YARN.is_dir() else None
    return _path_of("HADOOP_CONF_DIR") or shipped


def _source(variable: str, folder: Path | None) -> str:
    return variable if folder is None else f"{variable} ({folder})"


def _path_of(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return absolute_path(value) if value else None


def _own_queue() -> str:
    """Return the URL of the queue in a file; empty without `ACIDLIB_HOME` for a user without a home directory."""
    home = _path_of("ACIDLIB_HOME")
    try:
        home = home or Path.home() / ".local" / "state" / "acidlib"
    except RuntimeError:
        return ""
    return f"sqlite:///{home / 'queue.db'}"
