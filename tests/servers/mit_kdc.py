"""A Kerberos realm with the KDC of MIT, on 127.0.0.1.

The programs are those of the machine where they are installed, else out of Debian's packages, which are fetched and
unpacked into `.servers/mit_kdc` by anybody; their libraries lie beside them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from servers.errors import ServerError
from servers.jars import CACHE, locked
from servers.kdc import DAY_SECONDS, Kdc
from servers.process import ServerProcess, listens

_PACKAGES = (
    *("krb5-kdc", "krb5-admin-server", "libkadm5srv-mit12", "libkdb5-10", "libgssrpc4", "libkrb5-3", "libkrb5support0"),
    *("libgssapi-krb5-2", "libk5crypto3", "libverto1", "libverto-libev1", "libev4", "libss2", "libfaketime"),
)
_PLACE = CACHE / "mit_kdc"
_SBIN = "/usr/sbin"


class MitKdc(Kdc):
    """As `Kdc`. It asks for preauthentication and keeps its principals; `kadmin` changes them."""

    def __init__(
        self, directory: Path, *, ticket_seconds: int = DAY_SECONDS, ahead_seconds: int = 0, user_clock: bool = False
    ) -> None:
        """Starts nothing yet. ``ahead_seconds`` is by how much its clock is wrong.

        With ``user_clock`` clients go by their own clock, as with kdc_timesync=0; else by its.
        """
        super().__init__(directory, ticket_seconds=ticket_seconds)
        self._ahead_seconds = ahead_seconds
        self._user_clock = user_clock
        self._root = Path("/")

    def start(self) -> None:
        """Starts it, unless it runs. Raises ServerError with the end of its log, or where it cannot be fetched."""
        if self._process is None:
            self._root = _root()
            self._write_configuration()
            self._run("kdb5_util", "create", "-s", "-r", self.realm, "-P", "master")
        super().start()

    def kadmin(self, *words: str) -> str:
        """What kadmin.local says to a query, such as ``modprinc -pwexpire yesterday anna``. Raises ServerError."""
        return self._run("kadmin.local", "-q", " ".join(words))

    def keytab(self, *principals: str) -> Path:
        """A keytab with the keys of principals; the realm is added. Asked for the same again, it is the same."""
        keytab = self._directory / f"{'+'.join(principals).replace('/', '-')}.keytab"
        if not keytab.exists():
            for principal in principals:
                self.kadmin("addprinc", "-randkey", principal)
                self.kadmin("ktadd", "-k", str(keytab), principal)
        return keytab

    def _krb5_conf(self) -> str:
        text = super()._krb5_conf()
        return text.replace("[libdefaults]\n", "[libdefaults]\n  kdc_timesync = 0\n") if self._user_clock else text

    def _new_process(self) -> ServerProcess:
        return ServerProcess(
            "the KDC of MIT",
            command=[f"{self._root}{_SBIN}/krb5kdc", "-n", "-P", str(self._directory / "pid")],
            log=self._directory / "log",
            ready=lambda: listens(self.port),
            environment=self._environment(clock=True),
            directory=self._directory,
        )

    def _write_configuration(self) -> None:
        self.krb5_conf.write_text(self._krb5_conf())
        plugins = next(self._root.glob("usr/lib*/*/krb5/plugins/kdb"), None)
        modules = f"[dbmodules]\n  db_module_dir = {plugins}\n" if plugins is not None else ""
        (self._directory / "kdc.conf").write_text(
            f"[kdcdefaults]\n  kdc_listen = 127.0.0.1:{self.port}\n  kdc_tcp_listen = 127.0.0.1:{self.port}\n"
            f"[realms]\n  {self.realm} = {{\n"
            f"    database_name = {self._directory}/principal\n    key_stash_file = {self._directory}/stash\n"
            f"    acl_file = {self._directory}/acl\n    default_principal_flags = +preauth\n"
            f"    max_life = {self._ticket_seconds}s\n    max_renewable_life = {10 * self._ticket_seconds}s\n  }}\n"
            f"{modules}[logging]\n  default = STDERR\n"
        )

    def _environment(self, *, clock: bool = False) -> Mapping[str, str]:
        found = {
            **os.environ,
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self._directory / "kdc.conf"),
        }
        if self._root != Path("/"):
            found["LD_LIBRARY_PATH"] = ":".join(str(path) for path in self._root.glob("**/lib/*-linux-*"))
        if clock and self._ahead_seconds:
            (library,) = _fetched().glob("usr/lib/*/faketime/libfaketime.so.1")
            found |= {"LD_PRELOAD": str(library), "FAKETIME": f"{self._ahead_seconds:+d}s"}
        return found

    def _run(self, program: str, *words: str) -> str:
        ran = subprocess.run(
            [f"{self._root}{_SBIN}/{program}", *words],
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            cwd=self._directory,
        )
        # kadmin.local ends well whatever becomes of a query
        if ran.returncode or " while " in ran.stderr:
            raise ServerError(f"Cannot run {program} {words[-1]}: {ran.stderr.strip()}")
        return ran.stdout


def _root() -> Path:
    """Where the programs are: below the result. Raises ServerError."""
    if all(Path(_SBIN, program).exists() for program in ("krb5kdc", "kdb5_util", "kadmin.local")):
        return Path("/")
    return _fetched()


def _fetched() -> Path:
    with locked(CACHE / "mit_kdc.lock"):
        if not (_PLACE / "done").is_file():
            shutil.rmtree(_PLACE, ignore_errors=True)
            _PLACE.mkdir(parents=True)
            _call("apt-get", "-qq", "download", *_PACKAGES)
            for package in sorted(_PLACE.glob("*.deb")):
                _call("dpkg", "-x", str(package), str(_PLACE))
            (_PLACE / "done").touch()
    return _PLACE


def _call(*command: str) -> None:
    try:
        subprocess.run(command, cwd=_PLACE, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise ServerError(f"Cannot fetch the KDC of MIT: there is no {command[0]} here") from None
    except subprocess.CalledProcessError as error:
        raise ServerError(f"Cannot fetch the KDC of MIT: {error.stderr.strip()}") from None
