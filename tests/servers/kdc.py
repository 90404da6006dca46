"""A Kerberos realm: Hadoop's small KDC, on 127.0.0.1, with principals and keytabs made while it runs."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

from servers.errors import ServerError
from servers.jars import brought, compiled
from servers.java import java_command
from servers.process import OneProcess, ServerProcess, free_port, listens

REALM = "ACID.TEST"
HOST = "localhost"
"""The host in the principals of services: how clients of the tests name 127.0.0.1."""
_MAIN = Path(__file__).parent / "java_classes" / "SmallKdc.java"
DAY_SECONDS = 86_400


class Kdc(OneProcess):
    """One realm. It keeps its port when it is started again, and forgets its principals."""

    def __init__(self, directory: Path, *, ticket_seconds: int = DAY_SECONDS) -> None:
        """Starts nothing yet; ``directory`` is its own. ``ticket_seconds`` is how long a ticket lives at most."""
        self.realm = REALM
        self.port = free_port()
        self.krb5_conf = directory / "krb5.conf"
        """For KRB5_CONFIG, and for Java's property java.security.krb5.conf."""
        self._directory = directory
        self._ticket_seconds = ticket_seconds
        self._requests = free_port()

    @property
    def java_options(self) -> tuple[str, ...]:
        """What a Java server or client of this realm needs on its command line."""
        return (
            f"-Djava.security.krb5.conf={self.krb5_conf}",
            # Hadoop 3.1 asks it for the realm
            "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        )

    def keytab(self, *principals: str) -> Path:
        """A keytab with the keys of principals: ``anna``, ``hive/localhost``; the realm is added.

        Asked for the same again, it is the same. Raises ServerError when one of them is in another keytab already.
        """
        keytab = self._directory / f"{'+'.join(principals).replace('/', '-')}.keytab"
        if keytab.exists():
            return keytab
        body = "\n".join([str(keytab), *principals]).encode()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self._requests}/", body).close()
        except urllib.error.HTTPError as error:
            raise ServerError(f"Cannot make the principals {principals}: {error.read().decode()}") from None
        return keytab

    def _new_process(self) -> ServerProcess:
        jars = sorted(str(jar) for jar in (brought("kdc") / "lib").glob("*.jar"))
        self.krb5_conf.write_text(self._krb5_conf())
        java = java_command(
            heap="64m",
            options=("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",),
            class_path=[str(compiled(_MAIN, jars)), *jars],
            arguments=self._directory / "class-path",
        )
        arguments = [*self.realm.split("."), str(self.port), str(self._requests), str(self._ticket_seconds)]
        return ServerProcess(
            "the KDC",
            command=[*java, "SmallKdc", str(self._directory), *arguments],
            log=self._directory / "log",
            ready=lambda: listens(self._requests),
            environment={**os.environ, "TZ": "UTC"},
            directory=self._directory,
        )

    def _krb5_conf(self) -> str:
        return (
            f"[libdefaults]\n  default_realm = {self.realm}\n  udp_preference_limit = 1\n"
            # names are taken as they are written
            "  dns_lookup_kdc = false\n  dns_lookup_realm = false\n"
            "  dns_canonicalize_hostname = false\n  rdns = false\n"
            f"[realms]\n  {self.realm} = {{\n    kdc = 127.0.0.1:{self.port}\n  }}\n"
            f"[domain_realm]\n  {HOST} = {self.realm}\n"
        )
