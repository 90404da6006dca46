"""What a run is given: its settings, where requests and tables are, who runs it and where."""

from __future__ import annotations

import getpass
import os
import random
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acidlib.config.files import read_hadoop_configuration
from acidlib.config.settings import Layer, Settings, load_settings, site_values
from acidlib.errors import RefusedError
from acidlib.installed import conf_file
from acidlib.metastore.discovery import ensemble_of
from acidlib.metastore.options import (
    CATALOG,
    PROTECTION,
    TOKEN_VARIABLE,
    ConnectionOptions,
    KerberosLogin,
    catalog_from_settings,
    options_from_settings,
    parse_endpoints,
    uris_from_settings,
    zookeeper_tls,
)
from acidlib.stores.hadoop.secrets import JavaSecrets, about_providers

if TYPE_CHECKING:
    from acidlib.metastore.hms import Hms
    from acidlib.queue.metastore_database import MetastoreDatabase
    from acidlib.queue.sql import SqlQueue


# --- placed -----------------------------------------------------------------------------------------------------------
# What differs for a driver whose machine Spark chose (`--deploy-mode cluster`).

QUEUE_IN_A_FILE = (
    "Cannot use the queue in a file of the driver's machine: because Spark chooses that machine anew for each run "
    "(--deploy-mode cluster); --queue-url names a database that each of them reaches"
)


def other_queue(name: str) -> str:
    """Why a driver does not go on that YARN has started in a queue that nobody chose."""
    return (
        f"Cannot use the queue {name} of YARN (hive.compactor.job.queue): because spark-submit has started this driver "
        "in another one (--deploy-mode cluster); start it with the command acidlib or ./spark-submit.sh, or give "
        f"spark-submit --queue {name}"
    )


# --- environment ------------------------------------------------------------------------------------------------------

_WITH_TICKET = KerberosLogin()
SHIPPED_BY_YARN = Path("__spark_conf__", "__hadoop_conf__")
"""Where a driver that YARN started finds what was in HADOOP_CONF_DIR and YARN_CONF_DIR of spark-submit.

Source: Spark `org.apache.spark.deploy.yarn.Client` (LOCALIZED_CONF_DIR, LOCALIZED_HADOOP_CONF_DIR).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What a run is given.

    queue_url        of our own queue, or of the one in a metastore's database
    is_queue_named   somebody chose it
    is_placed        Spark chose the machine on which this runs
    metastore        URIs of the metastore to work with; empty: without one
    names_metastore  it was given on the command line
    site             what hive-site.xml and metastore-site.xml say, as text
    hadoop           what core-site.xml and hdfs-site.xml say about stores
    token            a JWT for the metastore
    jvm              py4j's view of the JVM of Spark, and the configuration of Hadoop in it
    secrets          what Java keeps: Hadoop's credential providers, truststores
    login            who logs in where Kerberos is asked for
    user, host       who runs this, and where
    pool             of the metastore's requests (Hive 4); None = as settings say
    output           "text" or "json"
    report           where the result is also drawn as a page; None = nowhere
    warnings         about the settings
    """

    settings: Settings
    queue_url: str
    is_queue_named: bool = True
    is_placed: bool = False
    metastore: tuple[str, ...] = ()
    names_metastore: bool = False
    site: Mapping[str, str] = field(default_factory=dict)
    hadoop: dict[str, str] = field(default_factory=dict)
    token: str | None = field(default=None, repr=False)
    jvm: Callable[[], tuple[Any, Any]] | None = field(default=None, compare=False, repr=False)
    secrets: JavaSecrets = field(default_factory=JavaSecrets, compare=False, repr=False)
    login: KerberosLogin = _WITH_TICKET
    user: str = field(default_factory=getpass.getuser)
    host: str = field(default_factory=socket.gethostname)
    pool: str | None = None
    output: str = "text"
    report: Path | None = None
    warnings: tuple[str, ...] = ()

    @property
    def json(self) -> bool:
        """Whether standard output is to be one JSON document."""
        return self.output == "json"

    @property
    def metastore_name(self) -> str:
        """The metastore as our own queue knows it: the same URIs in any order are the same metastore.

        A catalog other than the usual one is part of it, for the queue knows databases and tables only.
        """
        catalog = catalog_from_settings(self.site)
        return ",".join(sorted(self.metastore)) + (f"#{catalog}" if catalog != CATALOG else "")

    def queue(self) -> SqlQueue:
        """The queue in a SQL database.

        Raises `RefusedError` for the file that is used by default, if Spark chose the machine: the next run would be on
        another one, and not find what this one queued; and what `JavaSecrets.password` raises.
        """
        if self.is_placed and not self.is_queue_named:
            raise RefusedError(QUEUE_IN_A_FILE)
        from acidlib.queue.sql import SqlQueue

        return SqlQueue(self._whole_queue_url())

    def connect(self) -> Hms:
        """A connection to the metastore; RetryError when none of its URIs answers."""
        return self.connect_with(self.connection_options())

    @contextmanager
    def metastore_database(self) -> Iterator[MetastoreDatabase | None]:
        """Open the database that was chosen for the queue, which may be the metastore's; None where none was chosen."""
        if not self.is_queue_named:
            yield None
            return
        from acidlib.queue.metastore_database import MetastoreDatabase

        with closing(MetastoreDatabase(self._whole_queue_url(), self._java)) as database:
            yield database

    def _java(self) -> Any:
        """Py4j's view of the JVM of Spark, which is started if need be."""
        if self.jvm is None:
            raise RefusedError("Cannot open the metastore's database: only the driver, with Spark's JVM, can do so")
        return self.jvm()[0]

    def _whole_queue_url(self) -> str:
        """With the password, wherever that is kept."""
        from acidlib.queue.database import with_password

        return with_password(self.queue_url, self.site, self.secrets.password)

    def connect_with(self, options: ConnectionOptions) -> Hms:
        """A connection to the metastore with these options; see `connect`."""
        from acidlib.metastore.hms import connect

        return connect(self.metastore, options, user=self.user, host=self.host, shuffle=random.shuffle)

    def connection_options(self) -> ConnectionOptions:
        """How the metastore is spoken to, by its settings; RefusedError where that cannot be."""
        stated = {key: value for key, value in self.hadoop.items() if key == PROTECTION}
        options = options_from_settings(
            stated | dict(self.site), token=self.token, secrets=self.secrets, login=self.login
        )
        if ensemble_of(self.metastore) is None:
            return options
        return replace(options, zookeeper_tls=zookeeper_tls(self.site, self.secrets))

    def with_setting(self, key: str, value: str) -> Environment:
        """The same with a setting that an option of its own stands for; RefusedError for a value that is none."""
        return replace(self, settings=self.settings.with_layer(Layer.COMMAND_LINE, {key: value})[0])

    def without_metastore(self) -> Environment:
        """The same, for directories alone."""
        return replace(self, metastore=())


def stated_uris(option: str | None) -> tuple[str, ...] | None:
    """The URIs of --metastore-uri: none of them where it is `none`; None where it is not given.

    RefusedError for one that is no URI.
    """
    if option is None:
        return None
    if option.strip().lower() == "none":
        return ()
    if ensemble_of([option]) is None:
        parse_endpoints([option])
    return uris_from_settings({"hive.metastore.uris": option})


def read_environment(
    *,
    metastore: tuple[str, ...] | None,
    queue_url: str | None,
    assignments: Sequence[str],
    output: str,
    is_placed: bool = False,
    jvm: Callable[[], tuple[Any, Any]] | None = None,
    spark_hadoop: Callable[[], Mapping[str, str]] = dict,
    login: KerberosLogin = _WITH_TICKET,
) -> Environment:
    """The environment of a run: its options, what variables such as `HIVE_CONF_DIR` lead to, and acidlib.toml.

    metastore     as `stated_uris` has it; None takes that of hive-site.xml, by either of Hive's names
    jvm           py4j's view of the JVM of Spark, and the configuration of Hadoop in it
    spark_hadoop  what Spark's configuration says of Hadoop
    login         who logs in where Kerberos is asked for, as Spark was told

    Raises as `read_settings` does.
    """
    settings, warnings = read_settings(assignments)
    conf_dir, hadoop_dir = _path_of("HIVE_CONF_DIR"), _path_of("HADOOP_CONF_DIR")
    if hadoop_dir is None and is_placed and SHIPPED_BY_YARN.is_dir():
        hadoop_dir = SHIPPED_BY_YARN
    site = {} if conf_dir is None else site_values(conf_dir)
    hadoop = {} if hadoop_dir is None else read_hadoop_configuration(hadoop_dir)
    return Environment(
        settings=settings,
        queue_url=queue_url or _default_queue_url(),
        is_queue_named=bool(queue_url),
        is_placed=is_placed,
        metastore=uris_from_settings(site) if metastore is None else metastore,
        names_metastore=bool(metastore),
        site=site,
        hadoop=hadoop,
        jvm=jvm,
        secrets=JavaSecrets(jvm, about_providers(hadoop) | about_providers(spark_hadoop()) | about_providers(site)),
        token=os.environ.get(TOKEN_VARIABLE, "").strip() or None,
        login=replace(login, cache=os.environ.get("KRB5CCNAME") or None),
        output=output,
        warnings=warnings,
    )


def read_settings(assignments: Sequence[str]) -> tuple[Settings, tuple[str, ...]]:
    """The settings of a run and the warnings about them, from what variables lead to and the texts of `--set`.

    Raises `RefusedError` where `ACIDLIB_CONF_DIR` is no directory: settings that are meant must not be missed.
    """
    own_dir = _path_of("ACIDLIB_CONF_DIR")
    if own_dir is not None and not own_dir.is_dir():
        raise RefusedError(f"Cannot read settings from {own_dir}: because ACIDLIB_CONF_DIR names no directory there")
    toml = conf_file("acidlib.toml", os.environ)
    return load_settings(conf_dir=_path_of("HIVE_CONF_DIR"), toml=toml, assignments=assignments)


def _default_queue_url() -> str:
    home = _path_of("ACIDLIB_HOME") or Path.home() / ".local" / "state" / "acidlib"
    return f"sqlite:///{home / 'queue.db'}"


def _path_of(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser().absolute() if value else None
