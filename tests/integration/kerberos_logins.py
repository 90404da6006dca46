"""Logins with Kerberos, by keytab and by ticket, and what is said where they fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acidlib.errors import RefusedError, RetryError
from acidlib.metastore.hms import Hms, connect_hms
from acidlib.metastore.options import ConnectionOptions, KerberosLogin, Protection, SaslOptions


def kinit(login: KerberosLogin, cache: Path) -> KerberosLogin:
    """Fetches a ticket into a file; who has that logs in without a keytab."""
    import gssapi  # those who ask for it have found out whether it is there

    name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    store = {"client_keytab": f"FILE:{login.keytab}", "ccache": f"FILE:{cache}"}
    assert gssapi.Credentials(usage="initiate", name=name, store=store).lifetime > 0
    os.environ["KRB5CCNAME"] = f"FILE:{cache}"
    return KerberosLogin(cache=f"FILE:{cache}")


def sasl(login: KerberosLogin, *protection: Protection) -> SaslOptions:
    return SaslOptions(mechanism="GSSAPI", login=login, protection=protection)


def reach(uri: str, options: SaslOptions | None) -> Hms:
    quick = ConnectionOptions(connect_timeout_seconds=30, attempts=1, sasl=options)
    return connect_hms([uri], quick, user="tester", host="here", sleep=lambda _seconds: None)


def refusal(uri: str, options: SaslOptions | None) -> str:
    with pytest.raises((RefusedError, RetryError)) as caught:
        reach(uri, options)
    return str(caught.value)
