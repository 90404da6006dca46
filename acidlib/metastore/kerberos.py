"""Kerberos logins: tickets from a keytab or the user's cache, SASL's mechanism GSSAPI, and errors with their remedies.

Source: RFC 4752 for the messages, MIT Kerberos for the search for credentials. Source of the error numbers: RFC 4120
for those below 128; MIT Kerberos `krb5_err.et` for the others, where the first one is -1765328384, and
`gssapi_err_krb5.et` for a name without keys.

The module gssapi is an extra: it is loaded by the first login. Its errors have a number (`maj_code`), Kerberos' own
number (`min_code`; 0: none), and texts for both.
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

from acidlib.arguments import LOGIN_KEYTAB, LOGIN_PRINCIPAL
from acidlib.errors import RefusedError, RetryError
from acidlib.metastore.options import KerberosLogin, Protection, SaslOptions

T = TypeVar("T")

_LAYERS = {Protection.AUTHENTICATION: 1, Protection.INTEGRITY: 2, Protection.PRIVACY: 4}
_SPNEGO = "1.3.6.1.5.5.2"
_MAX_MESSAGE_BYTES = (1 << 24) - 1
# while new tickets of a keytab are fetched, no other thread may read their cache
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
_KINIT = f"run kinit, or give {LOGIN_PRINCIPAL} and {LOGIN_KEYTAB}"
_CACHE_VERSION = 0x0504
_OURS = "MEMORY:acidlib "
"""The names of our caches begin with it."""


class KerberosFailure(Exception):  # noqa: N818 - callers turn it into an error for users
    """A refusal by Kerberos, with its reason and, where it is known, the remedy.

    passes     no KDC answered: a later login may succeed
    has_ended  the tickets have expired
    """

    def __init__(self, text: str, *, passes: bool = False, has_ended: bool = False) -> None:
        super().__init__(text)
        self.passes = passes
        self.has_ended = has_ended


class GssapiClient:
    """A login and the protection of the messages after it."""

    def __init__(self, options: SaslOptions, host: str) -> None:
        """Find the tickets, including that for the service.

        Raises RefusedError without the module gssapi, KerberosFailure.
        """
        self.complete = False
        self._login = options.login
        self._allowed = options.protection
        self._layer = Protection.AUTHENTICATION
        self._service = ""

        def begin() -> bytes:
            gssapi = _module()
            if options.host is None:  # krb5.conf may canonicalize the host's name
                name = gssapi.Name(f"{options.service}@{host}", gssapi.NameType.hostbased_service)
                text = str(name.canonicalize(gssapi.MechType.kerberos))
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
            return self._try(lambda: bytes(self._context.step() or b""))  # its errors name the service

        self._first = _begun(lambda: self._try(begin), self._login)

    def process(self, challenge: bytes | None = None) -> bytes:
        """Return the answer to a challenge; without one, the first message of the login. Raises KerberosFailure."""
        if challenge is None:
            return self._first
        if not self._context.complete:
            return _received(lambda: bytes(self._context.step(challenge) or b""))
        offer = _received(lambda: bytes(self._context.unwrap(challenge).message))
        if len(offer) != 4:
            raise KerberosFailure("the server does not say how messages are to be protected")
        self._layer = chosen_protection(offer[0], self._allowed)
        largest = 0 if self._layer is Protection.AUTHENTICATION else _MAX_MESSAGE_BYTES
        choice = struct.pack(">I", _LAYERS[self._layer] << 24 | largest)
        self.complete = True
        return self._try(lambda: bytes(self._context.wrap(choice, False).message))

    def wrap(self, data: bytes) -> bytes:
        """Return a message to send: unchanged, signed, or encrypted. Raises KerberosFailure."""
        if self._layer is Protection.AUTHENTICATION:
            return data
        return self._try(lambda: bytes(self._context.wrap(data, self._layer is Protection.PRIVACY).message))

    def unwrap(self, data: bytes) -> bytes:
        """Return the plain text of a received message. Raises KerberosFailure if it was changed on its way."""
        if self._layer is Protection.AUTHENTICATION:
            return data
        unwrapped = _received(lambda: self._context.unwrap(data))
        if self._layer is Protection.PRIVACY and not unwrapped.encrypted:
            raise KerberosFailure("the server sent a message that is not encrypted")
        return bytes(unwrapped.message)

    def _try(self, act: Callable[[], T]) -> T:
        return _tried(act, self._login, self._service)


def chosen_protection(offered: int, allowed: tuple[Protection, ...]) -> Protection:
    """Return the first allowed protection in the bits that the server offers; the cheapest if all are allowed (empty).

    Raises KerberosFailure if there is none.
    """
    for protection in allowed or tuple(Protection):
        if _LAYERS[protection] & offered:
            return protection
    names = ", ".join(protection.value for protection in Protection if _LAYERS[protection] & offered) or "nothing"
    setting = ",".join(protection.value for protection in allowed) or "not set"
    raise KerberosFailure(f"the server offers {names}, and hadoop.rpc.protection is {setting} here")


def negotiate_header(login: KerberosLogin, host: str) -> str:
    """Return the header Authorization for a server behind HTTP that demands Kerberos (RFC 4559, RFC 4178).

    It is valid for one request. Raises the errors of `GssapiClient`.
    """
    gssapi = _module()
    service = f"HTTP/{host}"

    def token(mechanism: Any) -> bytes:
        name = gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service)
        creds = _credentials(login, mechanism)
        context = gssapi.SecurityContext(name=name, creds=creds, usage="initiate", mech=mechanism)
        return bytes(context.step() or b"")

    def tokens() -> list[bytes]:
        # the Kerberos mechanism is tried first since SPNEGO does not report why it failed
        return [token(mechanism) for mechanism in (gssapi.MechType.kerberos, gssapi.OID.from_int_seq(_SPNEGO))]

    last = _begun(lambda: _tried(tokens, login, service)[-1], login)
    return f"Negotiate {base64.b64encode(last).decode()}"


def _begun(begin: Callable[[], bytes], login: KerberosLogin) -> bytes:
    """Return the first message of a login. With expired tickets of a keytab, get new ones from the KDC first.

    By itself Kerberos uses expired tickets when the KDC does not answer, and asks it again half a minute later.
    """
    with _ONE_AT_A_TIME:
        try:
            return begin()
        except KerberosFailure as failure:
            if login.keytab is None or not failure.has_ended:
                raise

        def renew() -> None:
            """Fetch tickets into an empty cache, and replace the expired ones with them."""
            fresh = _credentials(login, cache=f"{_cache(login)} {next(_renewals)}")
            fresh.store(store={"ccache": _cache(login)}, usage="initiate", overwrite=True)

        _tried(renew, login, "")
        return begin()


def _tried(act: Callable[[], T], login: KerberosLogin, service: str) -> T:
    """Return the result of `act`; raise KerberosFailure for an error of Kerberos."""
    try:
        return act()
    except _module().exceptions.GSSError as error:
        if error.min_code - _FIRST in _NO_TICKET:  # the keytab may be the reason, which Kerberos does not mention
            _check_keytab(login)
        raise failure_of(error, login, service=service, cached=cached_tickets(login)) from None


def _received(act: Callable[[], T]) -> T:
    """Return the result of `act` on a message of the server; KerberosFailure for one that Kerberos rejects."""
    try:
        return act()
    except _module().exceptions.GSSError as error:
        raise message_failure(error) from None


def keep_logged_in(login: KerberosLogin) -> None:
    """Put the tickets of a keytab where all Kerberos clients in this process find them, and have them renewed in time.

    They are in a cache of this process. Raises RefusedError for a keytab that cannot be used, without the module
    gssapi, and for another login than that of an earlier run in this process, whose clients would change with it;
    RetryError if the KDC gives no tickets.
    """
    if login.keytab is None or login.principal is None:
        return
    gssapi = _module()
    try:
        with _ONE_AT_A_TIME:
            cache = os.environ.get("KRB5CCNAME", "")
            if cache.startswith(_OURS) and cache != _cache(login):
                raise RefusedError(
                    f"Cannot log in with Kerberos as {login.principal}: this process is logged in as "
                    f"{cache.removeprefix(_OURS).partition(' ')[0]}, and all its clients use one login"
                )
            _ = _credentials(login).lifetime  # reading it fetches them
            os.environ |= {"KRB5CCNAME": _cache(login), "KRB5_CLIENT_KTNAME": f"FILE:{login.keytab}"}
    except gssapi.exceptions.GSSError as error:
        failed = f"Cannot log in with Kerberos as {login.principal}:"
        try:
            _check_keytab(login)
        except KerberosFailure as failure:
            raise RefusedError(f"{failed} {failure}") from None
        raise RetryError(f"{failed} {failure_of(error, login, service='')}") from None


def _module() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise RefusedError(
            f"Cannot log in to the metastore with Kerberos: the module gssapi cannot be loaded: {error}; "
            "pip install 'acidlib[kerberos]' installs it, if there are a compiler and the headers of Kerberos"
        ) from None
    return gssapi


def _credentials(login: KerberosLogin, mechanism: Any = None, cache: str | None = None) -> Any:
    """Return credentials from the keytab, in a cache of this process, or without one Kerberos' default credentials.

    With a keytab each call fetches new tickets once half of the life of the old ones is over.
    """
    gssapi = _module()
    source: dict[str, Any] = {}
    if login.principal is not None:
        source["name"] = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    if login.keytab is not None:
        source["store"] = {"client_keytab": f"FILE:{login.keytab}", "ccache": cache or _cache(login)}
    # a single mechanism: of several, a failing one is left out without its reason
    return gssapi.Credentials(usage="initiate", mechs=[mechanism or gssapi.MechType.kerberos], **source)


def _cache(login: KerberosLogin) -> str:
    return f"{_OURS}{login.principal} {login.keytab}"


def _check_keytab(login: KerberosLogin) -> None:
    """Raise KerberosFailure if the keytab cannot be used."""
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
    """Return the failure of a login to `service` for an error of Kerberos; `cached` is from `cached_tickets`."""
    number = error.min_code - _FIRST
    owner, end = cached
    name = login.principal or owner or "this user"
    ended = "has ended" if end is None else f"ended at {datetime.fromtimestamp(end, UTC):%Y-%m-%d %H:%M:%S} UTC"
    locked = f"{name} is locked in the realm, or has expired there"
    no_ticket = f"there is no ticket{f' of {login.principal}' if login.principal else ''}; {_KINIT}"
    reasons = {
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
    reasons |= dict.fromkeys(_SKEW, _CLOCKS) | dict.fromkeys(_LOCKED, locked) | dict.fromkeys(_NO_TICKET, no_ticket)
    if login.keytab is not None:
        reasons[_TICKET_ENDED] = f"a ticket that was just fetched has ended already: {_CLOCKS}"
        wrong_key = f"the keys of {name} in {login.keytab} are not those of the realm: have a new keytab made"
        reasons |= dict.fromkeys(_WRONG_KEY, wrong_key)
    reason = reasons.get(number, "Kerberos failed")
    return KerberosFailure(
        f"{reason}{_text(error)}", passes=number == _NO_KDC_ANSWERS, has_ended=number == _TICKET_ENDED
    )


def keytab_failure(error: Any, login: KerberosLogin) -> KerberosFailure:
    """Return the failure of reading the keytab for an error of Kerberos."""
    reasons = {
        _NO_KEYS_OF_NAME: f"the keytab {login.keytab} has no keys of {login.principal}",
        _NO_KEYTAB_FORMAT: f"{login.keytab} is no keytab",
    }
    reason = reasons.get(error.min_code - _FIRST, f"the keytab {login.keytab} cannot be read")
    return KerberosFailure(f"{reason}{_text(error)}")


def message_failure(error: Any) -> KerberosFailure:
    """Return the failure of reading a message of the server, in the login or after it, for an error of Kerberos.

    Messages were changed, lost, repeated or forged on the way. Kerberos uses the numbers of wrong keys for all of that.
    """
    is_skewed = error.min_code - _FIRST in _SKEW
    reason = _CLOCKS if is_skewed else "the received data is not the server's next message as it was sent"
    return KerberosFailure(f"{reason}{_text(error)}")


def _text(error: Any) -> str:
    """Return Kerberos' own text in parentheses; its number for a wrong signature has the text of success."""
    words = None
    for code, is_maj in ((error.min_code, False), (error.maj_code, True)):
        if code and words in (None, _NO_ERROR):
            words = " ".join(" ".join(error.get_all_statuses(code, is_maj)).split())
    return f" (Kerberos says: {words})" if words else ""


def cached_tickets(login: KerberosLogin) -> tuple[str, int | None]:
    """Return the principal of the tickets in the cache, and the epoch second at which they end.

    "" and None where that is unknown: the cache is no file, another kind of file, or incomplete. The module gssapi
    tells it only before their end. Source: MIT Kerberos, `Credential cache file format`, version 4; all numbers are
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
        part = file.read(size)
        if len(part) < size:
            raise ValueError("the cache is incomplete")
        return part

    def number(size: int) -> int:
        return int.from_bytes(take(size))

    def text() -> bytes:
        return take(number(4))

    def principal() -> tuple[bytes, list[bytes]]:
        """Return the realm and the parts of a principal's name."""
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
            for _ in range(2):  # addresses, and authorization data
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
