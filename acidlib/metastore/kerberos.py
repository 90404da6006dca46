"""Logging in with Kerberos: tickets by a keytab or out of the caller's cache, and SASL's mechanism GSSAPI with them.

Source: RFC 4752 for the messages, MIT Kerberos for how credentials are found. The module gssapi is an extra: it is
loaded when somebody logs in.
"""

from __future__ import annotations

import base64
import itertools
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from acidlib.errors import RefusedError, RetryError
from acidlib.metastore.kerberos_errors import (
    KerberosFailure,
    failure_of,
    is_without_ticket,
    keytab_failure,
    message_failure,
)
from acidlib.metastore.options import KerberosLogin, Protection, SaslOptions
from acidlib.metastore.ticket_cache import Tickets, tickets_in

T = TypeVar("T")

_LAYERS = {Protection.AUTHENTICATION: 1, Protection.INTEGRITY: 2, Protection.PRIVACY: 4}
_SPNEGO = "1.3.6.1.5.5.2"
_LARGEST_MESSAGE = (1 << 24) - 1
# while the tickets of a keytab are fetched anew, nobody may look into their cache
_ONE_AT_A_TIME = threading.Lock()
_renewals = itertools.count(1)


class GssapiClient:
    """One login, and the messages over the connection that it was for; its steps are those of pure-sasl's client."""

    def __init__(self, options: SaslOptions, host: str) -> None:
        """Finds the tickets, also that for the service.

        Raises RefusedError where the module is missing, KerberosFailure.
        """
        self.complete = False
        self._login = options.login
        self._wanted = options.protection
        self._layer = Protection.AUTHENTICATION
        self._service = ""

        def begin() -> bytes:
            self._context = self._try(lambda: self._new_context(options, host))
            return self._try(lambda: bytes(self._context.step() or b""))

        self._first = _begun(begin, self._login)

    def process(self, challenge: bytes | None = None) -> bytes:
        """The answer to what the server said; without that, what begins the login. Raises KerberosFailure."""
        if challenge is None:
            return self._first
        if not self._context.complete:
            return _heard(lambda: bytes(self._context.step(challenge) or b""))
        offer = _heard(lambda: bytes(self._context.unwrap(challenge).message))
        if len(offer) != 4:
            raise KerberosFailure("the server does not say how messages are to be protected")
        self._layer = _chosen(offer[0], self._wanted)
        largest = 0 if self._layer is Protection.AUTHENTICATION else _LARGEST_MESSAGE
        choice = struct.pack(">I", _LAYERS[self._layer] << 24 | largest)
        self.complete = True
        return self._try(lambda: bytes(self._context.wrap(choice, False).message))

    def wrap(self, data: bytes) -> bytes:
        """A message as it is sent: as it is, signed, or encrypted. Raises KerberosFailure."""
        if self._layer is Protection.AUTHENTICATION:
            return data
        return self._try(lambda: bytes(self._context.wrap(data, self._layer is Protection.PRIVACY).message))

    def unwrap(self, data: bytes) -> bytes:
        """A message as it was meant. Raises KerberosFailure for one that was changed on its way."""
        if self._layer is Protection.AUTHENTICATION:
            return data
        found = _heard(lambda: self._context.unwrap(data))
        if self._layer is Protection.PRIVACY and not found.encrypted:
            raise KerberosFailure("the server sent a message that is not encrypted")
        return bytes(found.message)

    def _new_context(self, options: SaslOptions, host: str) -> Any:
        gssapi = _module()
        service = _service_name(options, host)
        self._service = str(service)
        flags = gssapi.RequirementFlag
        return gssapi.SecurityContext(
            name=service,
            creds=_credentials(self._login),
            usage="initiate",
            mech=gssapi.MechType.kerberos,
            flags=flags.mutual_authentication
            | flags.out_of_sequence_detection
            | flags.integrity
            | flags.confidentiality,
        )

    def _try(self, act: Callable[[], T]) -> T:
        return _tried(act, self._login, self._service)


def negotiated(login: KerberosLogin, host: str) -> str:
    """What the header Authorization says to a server behind HTTP that asks for Kerberos (RFC 4559, RFC 4178).

    Good for one request. Raises as `GssapiClient` does.
    """
    gssapi = _module()
    service = f"HTTP/{host}"

    def token(mechanism: Any) -> bytes:
        name = gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service)
        creds = _credentials(login, mechanism)
        context = gssapi.SecurityContext(name=name, creds=creds, usage="initiate", mech=mechanism)
        return bytes(context.step() or b"")

    def negotiating() -> bytes:
        token(gssapi.MechType.kerberos)  # what goes wrong, the other mechanism does not tell
        return token(gssapi.OID.from_int_seq(_SPNEGO))

    made = _begun(lambda: _tried(negotiating, login, service), login)
    return f"Negotiate {base64.b64encode(made).decode()}"


def _begun(begin: Callable[[], bytes], login: KerberosLogin) -> bytes:
    """What begins a login. With a keytab whose tickets have ended the KDC is asked for new ones, or says why not.

    By itself Kerberos goes on with what it has when the KDC does not answer, and asks again half a minute later.
    """
    with _ONE_AT_A_TIME:
        try:
            return begin()
        except KerberosFailure as failure:
            if login.keytab is None or not failure.has_ended:
                raise
        _tried(lambda: _renew(login), login, "")
        return begin()


def _tried(act: Callable[[], T], login: KerberosLogin, service: str) -> T:
    """What `act` returns; KerberosFailure for what Kerberos says against it."""
    try:
        return act()
    except _module().exceptions.GSSError as error:
        if is_without_ticket(error):
            _look_into_keytab(login)
        raise failure_of(error, login, service=service, cached=_cached(login)) from None


def _heard(act: Callable[[], T]) -> T:
    """What `act` makes of a message of the server; KerberosFailure for one that Kerberos does not take."""
    try:
        return act()
    except _module().exceptions.GSSError as error:
        raise message_failure(error) from None


def keep_logged_in(login: KerberosLogin) -> None:
    """With a keytab: has its tickets where all of this process that speaks Kerberos finds them, and new ones in time.

    They are in a cache of this process. Raises RefusedError for a keytab that cannot be used and where the module is
    missing, RetryError where there are no tickets to be had.
    """
    if login.keytab is None or login.principal is None:
        return
    gssapi = _module()
    try:
        with _ONE_AT_A_TIME:
            _ = _credentials(login).lifetime  # which fetches them
    except gssapi.exceptions.GSSError as error:
        failed = f"Cannot log in with Kerberos as {login.principal}: because"
        try:
            _look_into_keytab(login)
        except KerberosFailure as failure:
            raise RefusedError(f"{failed} {failure}") from None
        why = failure_of(error, login, service="")
        raise RetryError(f"{failed} {why}") from None
    os.environ |= {"KRB5CCNAME": _cache(login), "KRB5_CLIENT_KTNAME": f"FILE:{login.keytab}"}


def _module() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise RefusedError(
            f"Cannot log in to the metastore with Kerberos: because the module gssapi cannot be loaded: {error}; "
            "pip install 'acidlib[kerberos]' brings it, where a compiler and the headers of Kerberos are installed"
        ) from None
    return gssapi


def _credentials(login: KerberosLogin, mechanism: Any = None) -> Any:
    """Those of the keytab, in a cache of this process, or those that Kerberos has by itself; for Kerberos' mechanism.

    With a keytab each call fetches new tickets when half of the life of the old ones is over.
    """
    return _acquired(login, _cache(login), mechanism)


def _acquired(login: KerberosLogin, cache: str, mechanism: Any = None) -> Any:
    gssapi = _module()
    given: dict[str, Any] = {}
    if login.principal is not None:
        given["name"] = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    if login.keytab is not None:
        given["store"] = {"client_keytab": f"FILE:{login.keytab}", "ccache": cache}
    # for one mechanism alone: of several one that fails is left out, and nobody hears why
    return gssapi.Credentials(usage="initiate", mechs=[mechanism or gssapi.MechType.kerberos], **given)


def _cache(login: KerberosLogin) -> str:
    return f"MEMORY:acidlib {login.principal} {login.keytab}"


def _renew(login: KerberosLogin) -> None:
    """Fetches tickets into a cache that has none yet, and puts them in place of those that have ended."""
    fresh = _acquired(login, f"{_cache(login)} {next(_renewals)}")
    fresh.store(store={"ccache": _cache(login)}, usage="initiate", overwrite=True)


def _look_into_keytab(login: KerberosLogin) -> None:
    """Raises KerberosFailure where it cannot be used."""
    if login.keytab is None or login.principal is None:
        return
    gssapi = _module()
    try:
        name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
        gssapi.Credentials(usage="accept", name=name, store={"keytab": f"FILE:{login.keytab}"})
    except gssapi.exceptions.GSSError as error:
        raise keytab_failure(error, login) from None


def _cached(login: KerberosLogin) -> Tickets | None:
    """What is in the cache, where that is a file."""
    name = login.cache or f"/tmp/krb5cc_{os.getuid()}"  # noqa: S108 - Kerberos' own
    path = name.removeprefix("FILE:")
    if not path.startswith("/"):
        return None
    try:
        return tickets_in(Path(path).read_bytes())
    except OSError:
        return None


def _service_name(options: SaslOptions, host: str) -> Any:
    """The principal of the metastore: what the setting says, or for `_HOST` as krb5.conf names the host."""
    gssapi = _module()
    if options.host is None:
        found = gssapi.Name(f"{options.service}@{host}", gssapi.NameType.hostbased_service)
        text = str(found.canonicalize(gssapi.MechType.kerberos))
    else:
        text = f"{options.service}/{options.host}"
    plain, _, realm = text.partition("@")
    realm = options.realm or realm
    return gssapi.Name(f"{plain}@{realm}" if realm else plain, gssapi.NameType.kerberos_principal)


def _chosen(offered: int, wanted: tuple[Protection, ...]) -> Protection:
    """The first wanted protection that the server offers; where none is wanted, the cheapest one."""
    for one in wanted or tuple(Protection):
        if _LAYERS[one] & offered:
            return one
    names = ", ".join(one.value for one in Protection if _LAYERS[one] & offered) or "nothing"
    stated = ",".join(one.value for one in wanted) or "not set"
    raise KerberosFailure(f"the server offers {names}, and hadoop.rpc.protection is {stated} here")
