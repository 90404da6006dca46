"""A JVM with the jars of a release of Hive, which needs no server."""

from __future__ import annotations

from servers.daemon import OPENED
from servers.jars import hive_release

from judges.java_process import JavaProcess


class HiveProcess(JavaProcess):
    """The JVM of one generation, 3 or 4, in a time zone."""

    main: str

    def __init__(self, generation: int, zone: str = "UTC") -> None:
        jars = hive_release(f"hive{generation}").jars
        super().__init__(self.main, sources="java_hive", jars=jars, options=(*OPENED, f"-Duser.timezone={zone}"))
        self._generation = generation
