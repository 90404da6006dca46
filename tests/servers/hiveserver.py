"""HiveServer2 4.0.1 on a metastore: Tez inside the one process, without a network."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

from acidlib.acid.names import Generation
from servers.daemon import Daemon
from servers.jars import compiled
from servers.metastore import Metastore
from servers.settings import write_site
from servers.sql import Hive

HEAP = "1500m"
MAIN = "org.apache.hive.service.server.HiveServer2"
LOCAL_FILES = Path(__file__).parent / "java_classes" / "LocalFilesWithoutCommands.java"


class HiveServer(Daemon):
    """One HiveServer2, without authentication. It may run several threads of Hive's own compactor."""

    def __init__(
        self,
        metastore: Metastore,
        *,
        directory: Path,
        worker_threads: int = 0,
        query_based: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Starts nothing yet; ``directory`` is its own and gets the settings, the scratch files and the log.

        ``worker_threads`` compact what is queued, by queries or (``query_based`` off) by MapReduce. ``properties`` are
        added to hive-site.xml and win over all else.
        """
        if metastore.generation is not Generation.HIVE4:
            raise ValueError("HiveServer2 is of Hive 4 and needs a metastore of Hive 4")
        super().__init__(
            "HiveServer2",
            version=metastore.version,
            directory=directory,
            main=[MAIN],
            heap=HEAP,
            properties={
                "hive.metastore.runworker.in": "hs2",
                "hive.compactor.worker.threads": str(worker_threads),
                "hive.compactor.crud.query.based": "true" if query_based else "false",
                **(properties or {}),
            },
        )
        self.metastore = metastore

    @property
    def hive(self) -> Hive:
        """A client of this server."""
        return Hive(self.port)

    @property
    def properties(self) -> dict[str, str]:
        """What its hive-site.xml says; only after its metastore was started."""
        own = {
            "hive.server2.thrift.port": str(self.port),
            "hive.server2.thrift.bind.host": "127.0.0.1",
            "hive.server2.authentication": "NOSASL",
            "hive.server2.enable.doAs": "false",
            "hive.server2.webui.port": "0",  # none
            "hive.server2.logging.operation.enabled": "false",
            "hive.server2.tez.initialize.default.sessions": "false",
            "hive.server2.materializedviews.registry.impl": "DUMMY",
            "hive.notification.event.poll.interval": "0s",
        }
        return self.metastore.properties | query_settings(self.work_dir) | own | self._given

    def _jars(self) -> list[str]:
        """Before all others our own class for local files, and a small jar, which holds the class `DagUtils` of Hive.

        The jar that this class came from is copied for every task (DagUtils.getExecJarPathLocal, TezLocalCacheManager):
        that of Hive has 83 MB, and its copies took as long as the queries.
        """
        jars = super()._jars()
        whole = Path(next(jar for jar in jars if Path(jar).name.startswith("hive-exec-")))
        small = whole.parents[1] / "dag-utils.jar"
        if not small.is_file():
            half = self.work_dir / small.name
            with zipfile.ZipFile(whole) as source, zipfile.ZipFile(half, "w") as target:
                for name in source.namelist():
                    if name.startswith("org/apache/hadoop/hive/ql/exec/tez/DagUtils"):
                        target.writestr(name, source.read(name))
            copy = small.with_name(f"{small.name}.{os.getpid()}")
            shutil.copy(half, copy)
            copy.rename(small)
        hadoop = [jar for jar in jars if Path(jar).name.startswith("hadoop-common-")]
        return [str(small), str(compiled(LOCAL_FILES, hadoop)), *jars]

    def _prepare(self) -> None:
        self.metastore.start()
        # what makes settings of its own, such as the cache of Tez, reads no hive-site.xml
        local_files = {
            "fs.file.impl": LOCAL_FILES.stem,
            "fs.AbstractFileSystem.file.impl": f"{LOCAL_FILES.stem}$Abstract",
        }
        self.conf_dir.mkdir(parents=True)
        write_site(self.conf_dir / "core-site.xml", local_files)
        scratch = self.work_dir / "scratch"
        scratch.mkdir(exist_ok=True)
        scratch.chmod(0o733)  # HiveServer2 refuses one that others cannot write to


def query_settings(work: Path) -> dict[str, str]:
    """What runs queries inside the process, which may write to `work`."""
    return {
        "hadoop.tmp.dir": str(work),
        "hive.exec.scratchdir": (work / "scratch").as_uri(),
        "hive.exec.local.scratchdir": str(work / "local"),
        "hive.downloaded.resources.dir": str(work / "resources"),
        "hive.user.install.directory": (work / "install").as_uri(),
        "hive.querylog.location": str(work / "queries"),
        # what a test reads comes from the files, never from statistics or an earlier answer
        "hive.execution.engine": "tez",
        "hive.query.results.cache.enabled": "false",
        "hive.exec.dynamic.partition.mode": "nonstrict",
        "hive.stats.autogather": "false",
        "hive.stats.column.autogather": "false",
        "hive.compactor.gather.stats": "false",
        # by default tasks do not get keys of S3
        "hive.conf.hidden.list": "javax.jdo.option.ConnectionPassword",
        # Tez
        "tez.local.mode": "true",
        "tez.local.mode.without.network": "true",
        "tez.ignore.lib.uris": "true",
        "tez.staging-dir": str(work / "tez"),
        "tez.am.inline.task.execution.max-tasks": "1",
        "tez.runtime.io.sort.mb": "64",
        "tez.runtime.optimize.local.fetch": "true",
        # tables of such joins are loaded by the threads of the container that began last, which may have ended
        # (hive.ql.exec.tez.ObjectCache is one per process)
        "hive.auto.convert.join": "false",
        "hive.tez.container.size": "512",
        # MapReduce, for the compactor that is not query-based
        "mapreduce.cluster.local.dir": str(work / "mapreduce"),
        "mapreduce.jobtracker.staging.root.dir": str(work / "staging"),
        "mapreduce.task.io.sort.mb": "64",
        "hive.exec.submitviachild": "false",
        "hive.exec.submit.local.task.via.child": "false",
    }
