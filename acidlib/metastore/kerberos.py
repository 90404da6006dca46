"""Logging in with Kerberos: tickets by a keytab or out of the caller's cache, SASL's mechanism GSSAPI with them, and
what went wrong in one line that says what helps.

Source: RFC 4752 for the messages, MIT Kerberos for how credentials are found. Of the numbers of errors: RFC 4120 for
those below 128; MIT Kerberos `krb5_err.et` for the others, where the first one is -1765328384, and
`gssapi_err_krb5.et` for that of a name without keys.

The module gssapi is an extra: it is loaded when a login is made. Its errors have a number (`maj_code`), the one that
Kerberos gives it (`min_code`, 0: none), and texts for both.
"""

from __future__ import annotations

import base64
import itertools
import os
import struct
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from acidlib.errors import RefusedError, RetryError
from acidlib.metastore.options import KerberosLogin, Protection, SaslOptions

T = TypeVar("T")

_LAYERS = {Protection.AUTHENTICATION: 1, Protection.INTEGRITY: 2, Protection.PRIVACY: 4}
_SPNEGO = "1.3.6.1.5.5.2"
_LARGEST_MESSAGE = (1 << 24) - 1
# while the tickets of a keytab are fetched anew, nothing may look into their cache
_ONE_AT_A_TIME = threading.Lock()
_renewals = itertools.count(1)

_FIRST = -1765328384 & 0xFFFFFFFF
_NO_KEYS_OF_NAME = 39756033 - _FIRST
_LOCKED = (1, 18)
_NO_CLIENT, _NO_SERVICE, _KEY_EXPIRED, _WRONG_KEY = 6, 7, 23, (24, 31)
_TICKET_ENDED, _TICKET_NOT_YET, _SKEW = 32, 33, (37, 148)
_BROKEN_CONFIGURATION, _NO_KDC_KNOWN, _NO_KDC_ANSWERS, _NO_DEFAULT_REALM = 136, 154, 156, 224
_NO_TICKET, _NO_KEYTAB_FORMAT = (141, 195), 213
_NO_ERROR = "Success"
_CLOCKS = "the clocks of this machine, of the KDC and of the metastore differ by too much; set them by NTP"
_KINIT = "run kinit, or give --principal and --keytab"
_CACHE_VERSION = 0x0504


class KerberosFailure(Exception):  # noqa: N818 - whoever logs in makes an error for users of it
    """Kerberos said no; the text says what and, where that is known, what helps.

    `passes`: nobody answered, so it may go well in a while. `has_ended`: the tickets were good once.
    """

    def __init__(self, text: str, *, passes: bool = False, has_ended: bool = False) -> None:
        super().__init__(text)
        self.passes = passes
        self.has_ended = has_ended


class GssapiClient:
    """One login, and the messages over the connection that it was for; its steps are those of pure-sasl's client."""

    def __init__(self, options: SaslOptions, host: str) -> None:
        """Find the tickets, also that for the service.

        Raises RefusedError where the module is missing, KerberosFailure.
        """
        self.complete = False
        self._login = options.login
        self._wanted = options.protection
        self._layer = Protection.AUTHENTICATION
        self._service = ""

        def begin() -> bytes:
            gssapi = _module()
            if options.host is None:  # as krb5.conf names the host
                found = gssapi.Name(f"{options.service}@{host}", gssapi.NameType.hostbased_service)
                text = str(found.canonicalize(gssapi.MechType.kerberos))
            else:
                text = f"{options.service}/{options.host}"
            plain, _, realm = text.partition("@")
            realm = options.realm or realm
            service = gssapi.Name(f"{plain}@{realm}" if realm else plain, gssapi.NameType.kerberos_principal)
            self._service = str(service)
            flags = gssapi.RequirementFlag
            self._context = gssapi.SecurityContext(
                name=service,
                creds=_credentials(self._login),
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=flags.mutual_authentication
                | flags.out_of_sequence_detection
                | flags.integrity
                | flags.confidentiality,
            )
            return self._try(lambda: bytes(self._context.step() or b""))  # now with the name of the service

        self._first = _begun(lambda: self._try(begin), self._login)

    def process(self, challenge: bytes | None = None) -> bytes:
        """Return the answer to what the server said; without that, what begins the login. Raises KerberosFailure."""
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
        """Return a message as it is sent: as it is, signed, or encrypted. Raises KerberosFailure."""
        if self._layer is Protection.AUTHENTICATION:
            return data
        return self._try(lambda: bytes(self._context.wrap(data, self._layer is Protection.PRIVACY).message))

    def unwrap(self, data: bytes) -> bytes:
        """Return a message as it was meant. Raises KerberosFailure for one that was changed on its way."""
        if self._layer is Protection.AUTHENTICATION:
            return data
        found = _heard(lambda: self._context.unwrap(data))
        if self._layer is Protection.PRIVACY and not found.encrypted:
            raise KerberosFailure("the server sent a message that is not encrypted")
        return bytes(found.message)

    def _try(self, act: Callable[[], T]) -> T:
        return _tried(act, self._login, self._service)


def _chosen(offered: int, wanted: tuple[Protection, ...]) -> Protection:
    """Return the first wanted protection that the server offers; where none is wanted, the cheapest one."""
    for one in wanted or tuple(Protection):
        if _LAYERS[one] & offered:
            return one
    names = ", ".join(one.value for one in Protection if _LAYERS[one] & offered) or "nothing"
    stated = ",".join(one.value for one in wanted) or "not set"
    raise KerberosFailure(f"the server offers {names}, and hadoop.rpc.protection is {stated} here")


def negotiated(login: KerberosLogin, host: str) -> str:
    """Return what the header Authorization says to a server behind HTTP that asks for Kerberos (RFC 4559, RFC 4178).

    Good for one request. Raises as `GssapiClient` does.
    """
    gssapi = _module()
    service = f"HTTP/{host}"

    def token(mechanism: Any) -> bytes:
        name = gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service)
        creds = _credentials(login, mechanism)
        context = gssapi.SecurityContext(name=name, creds=creds, usage="initiate", mech=mechanism)
        return bytes(context.step() or b"")

    def tokens() -> list[bytes]:
        # what goes wrong, the other mechanism does not tell
        return [token(mechanism) for mechanism in (gssapi.MechType.kerberos, gssapi.OID.from_int_seq(_SPNEGO))]

    made = _begun(lambda: _tried(tokens, login, service)[-1], login)
    return f"Negotiate {base64.b64encode(made).decode()}"


def _begun(begin: Callable[[], bytes], login: KerberosLogin) -> bytes:
    """Return what begins a login. With a keytab whose tickets have ended the KDC gives new ones, or says why not.

    By itself Kerberos goes on with what it has when the KDC does not answer, and asks again half a minute later.
    """
    with _ONE_AT_A_TIME:
        try:
            return begin()
        except KerberosFailure as failure:
            if login.keytab is None or not failure.has_ended:
                raise

        def renew() -> None:
            """Fetch tickets into a cache that has none yet, and put them in place of those that have ended."""
            fresh = _credentials(login, cache=f"{_cache(login)} {next(_renewals)}")
            fresh.store(store={"ccache": _cache(login)}, usage="initiate", overwrite=True)

        _tried(renew, login, "")
        return begin()


def _tried(act: Callable[[], T], login: KerberosLogin, service: str) -> T:
    """Return what `act` returns; KerberosFailure for what Kerberos says against it."""
    try:
        return act()
    except _module().exceptions.GSSError as error:
        if error.min_code - _FIRST in _NO_TICKET:  # the reason may be the keytab, of which Kerberos says nothing
            _look_into_keytab(login)
        raise failure_of(error, login, service=service, cached=cached_tickets(login)) from None


def _heard(act: Callable[[], T]) -> T:
    """Return what `act` makes of a message of the server; KerberosFailure for one that Kerberos does not take."""
    try:
        return act()
    except _module().exceptions.GSSError as error:
        raise message_failure(error) from None


def keep_logged_in(login: KerberosLogin) -> None:
    """Have the tickets of a keytab where all of this process that speaks Kerberos finds them, and new ones in time.

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
        failed = f"Cannot log in with Kerberos as {login.principal}:"
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
            f"Cannot log in to the metastore with Kerberos: the module gssapi cannot be loaded: {error}; "
            "pip install 'acidlib[kerberos]' brings it, where a compiler and the headers of Kerberos are installed"
        ) from None
    return gssapi


def _credentials(login: KerberosLogin, mechanism: Any = None, cache: str | None = None) -> Any:
    """Return those of the keytab, in a cache of this process, or those that Kerberos has by itself.

    With a keytab each call fetches new tickets when half of the life of the old ones is over.
    """
    gssapi = _module()
    given: dict[str, Any] = {}
    if login.principal is not None:
        given["name"] = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    if login.keytab is not None:
        given["store"] = {"client_keytab": f"FILE:{login.keytab}", "ccache": cache or _cache(login)}
    # for one mechanism alone: of several one that fails is left out, and its reason is not told
    return gssapi.Credentials(usage="initiate", mechs=[mechanism or gssapi.MechType.kerberos], **given)


def _cache(login: KerberosLogin) -> str:
    return f"MEMORY:acidlib {login.principal} {login.keytab}"


def _look_into_keytab(login: KerberosLogin) -> None:
    """Raise KerberosFailure where the keytab cannot be used."""
    if login.keytab is None or login.principal is None:
        return
    gssapi = _module()
    try:
        name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
        gssapi.Credentials(usage="accept", name=name, store={"keytab": f"FILE:{login.keytab}"})
    except gssapi.exceptions.GSSError as error:
        raise keytab_failure(error, login) from None


def failure_of(
    error: Any, login: KerberosLogin, *, service: str, cached: tuple[str, int | None] = ("", None)
) -> KerberosFailure:
    """Return what an error means for a login to `service`; `cached` is what `cached_tickets` returns."""
    number = error.min_code - _FIRST
    owner, end = cached
    name = login.principal or owner or "this user"
    ended = "has ended" if end is None else f"ended at {datetime.fromtimestamp(end, UTC):%Y-%m-%d %H:%M:%S} UTC"
    locked = f"{name} is locked in the realm, or has expired there"
    no_ticket = f"there is no ticket{f' of {login.principal}' if login.principal else ''}; {_KINIT}"
    known = {
        _NO_CLIENT: f"the realm knows no principal {name}",
        _NO_SERVICE: f"the realm knows no service {service}: does hive.metastore.kerberos.principal name the "
        "metastore's own?",
        _KEY_EXPIRED: f"the password or key of {name} has expired: have a new one made",
        _TICKET_ENDED: f"the ticket of {name} {ended}; {_KINIT}",
        _TICKET_NOT_YET: _CLOCKS,
        _BROKEN_CONFIGURATION: "krb5.conf cannot be understood",
        _NO_KDC_KNOWN: "krb5.conf names no KDC of the realm; KRB5_CONFIG says which file is read",
        _NO_KDC_ANSWERS: "no KDC of the realm answers",
        _NO_DEFAULT_REALM: "krb5.conf names no default_realm; KRB5_CONFIG says which file is read",
    }
    known |= dict.fromkeys(_SKEW, _CLOCKS) | dict.fromkeys(_LOCKED, locked) | dict.fromkeys(_NO_TICKET, no_ticket)
    if login.keytab is not None:
        known[_TICKET_ENDED] = f"a ticket that was fetched now has ended already: {_CLOCKS}"
        wrong = f"the keys of {name} in {login.keytab} are not those of the realm: have the keytab made anew"
        known |= dict.fromkeys(_WRONG_KEY, wrong)
    reason = known.get(number, "Kerberos failed")
    return KerberosFailure(
        f"{reason}{_said(error)}", passes=number == _NO_KDC_ANSWERS, has_ended=number == _TICKET_ENDED
    )


def keytab_failure(error: Any, login: KerberosLogin) -> KerberosFailure:
    """Return what an error means for a look into the keytab."""
    known = {
        _NO_KEYS_OF_NAME: f"the keytab {login.keytab} has no keys of {login.principal}",
        _NO_KEYTAB_FORMAT: f"{login.keytab} is no keytab",
    }
    reason = known.get(error.min_code - _FIRST, f"the keytab {login.keytab} cannot be read")
    return KerberosFailure(f"{reason}{_said(error)}")


def message_failure(error: Any) -> KerberosFailure:
    """Return what an error means for what the server said, in the login or after it.

    It was changed on its way, left out, repeated, or somebody else's. Kerberos has the numbers of wrong keys for that.
    """
    is_skewed = error.min_code - _FIRST in _SKEW
    reason = _CLOCKS if is_skewed else "what came is not the server's next message as it sent it"
    return KerberosFailure(f"{reason}{_said(error)}")


def _said(error: Any) -> str:
    """Return Kerberos' own words; the number that it gives to a wrong signature has the text of no error."""
    words = None
    for code, is_maj in ((error.min_code, False), (error.maj_code, True)):
        if code and words in (None, _NO_ERROR):
            words = " ".join(" ".join(error.get_all_statuses(code, is_maj)).split())
    return f" (Kerberos says: {words})" if words else ""


def cached_tickets(login: KerberosLogin) -> tuple[str, int | None]:
    """Return the principal whose tickets are in the cache, and after which epoch second they are good for nothing.

    "" and None where that is not known: the cache is no file, another file, or not whole. The module gssapi tells it
    only as long as they are good. Source: MIT Kerberos, `Credential cache file format`, version 4; all numbers are
    big-endian.
    """
    name = login.cache or f"/tmp/krb5cc_{os.getuid()}"  # noqa: S108 - Kerberos' own
    path = name.removeprefix("FILE:")
    try:
        data = Path(path).read_bytes() if path.startswith("/") else b""
    except OSError:
        data = b""
    file = BytesIO(data)

    def take(size: int) -> bytes:
        found = file.read(size)
        if len(found) < size:
            raise ValueError("the cache ends before it is whole")
        return found

    def number(size: int) -> int:
        return int.from_bytes(take(size))

    def text() -> bytes:
        return take(number(4))

    def principal() -> tuple[bytes, list[bytes]]:
        """Return its realm and its parts."""
        take(4)
        count = number(4)
        return text(), [text() for _ in range(count)]

    ends = []
    try:
        if number(2) != _CACHE_VERSION:
            return "", None
        take(number(2))
        realm, parts = principal()
        while file.tell() < len(data):
            principal()
            _, server = principal()
            take(2)
            text()
            _, _, end, _ = struct.unpack(">4I", take(16))
            take(1 + 4)
            for _ in range(2):  # addresses, and data of whatever authorised
                for _ in range(number(4)):
                    take(2)
                    text()
            text()
            text()
            if server[:1] == [b"krbtgt"]:
                ends.append(end)
    except ValueError:
        return "", None
    owner = b"/".join(parts) + b"@" + realm
    return owner.decode("utf-8", "replace"), max(ends, default=None)
