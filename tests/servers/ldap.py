"""A directory that speaks LDAP, in memory, on 127.0.0.1, with the users and passwords that a test names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from servers.jars import brought, compiled
from servers.java import java_command
from servers.process import OneProcess, ServerProcess, free_port, listens

BASE = "dc=acid,dc=test"
PEOPLE = f"ou=people,{BASE}"
"""Where the users are."""
_MAIN = Path(__file__).parent / "java_classes" / "SmallDirectory.java"


class Directory(OneProcess):
    """One directory; each user is `uid=NAME` below `PEOPLE`."""

    def __init__(self, place: Path, passwords: Mapping[str, str]) -> None:
        """Starts nothing yet; ``place`` is an empty directory, ``passwords`` are those of the users."""
        self.port = free_port()
        self._place = place
        self._passwords = dict(passwords)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"ldap://127.0.0.1:{self.port}"

    def _new_process(self) -> ServerProcess:
        entries = [
            f"dn: {BASE}\nobjectClass: domain\ndc: acid",
            f"dn: {PEOPLE}\nobjectClass: organizationalUnit\nou: people",
        ]
        entries += [
            f"dn: uid={name},{PEOPLE}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\nsn: {name}\n"
            f"userPassword: {password}"
            for name, password in self._passwords.items()
        ]
        ldif = self._place / "users.ldif"
        ldif.write_text("\n\n".join(entries) + "\n")
        jars = [str(jar) for jar in (brought("ldap") / "lib").glob("*.jar")]
        java = java_command(
            heap="64m", options=(), class_path=[str(compiled(_MAIN, jars)), *jars], arguments=self._place / "class-path"
        )
        return ServerProcess(
            "the directory",
            command=[*java, "SmallDirectory", BASE, str(self.port), str(ldif)],
            log=self._place / "log",
            ready=lambda: listens(self.port),
            environment={**os.environ, "TZ": "UTC"},
            directory=self._place,
        )
