"""Tickets of Kerberos in files, as `kinit` makes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from servers.kdc import Kdc

_KINIT = """
import sys, gssapi
principal, keytab, cache = sys.argv[1:]
name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
store = {"client_keytab": f"FILE:{keytab}", "ccache": f"FILE:{cache}"}
assert gssapi.Credentials(usage="initiate", name=name, store=store).lifetime is not None
"""


def ticket(realm: Kdc, principal: str, keytab: Path, cache: Path) -> str:
    """Fetches a ticket into a file; its name for KRB5CCNAME. In a process of its own, which reads the realm's file."""
    command = [sys.executable, "-c", _KINIT, f"{principal}@{realm.realm}", str(keytab), str(cache)]
    subprocess.run(command, env={"KRB5_CONFIG": str(realm.krb5_conf)}, check=True, capture_output=True)
    return f"FILE:{cache}"
