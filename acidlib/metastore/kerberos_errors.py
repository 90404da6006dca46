"""What went wrong with Kerberos, in one line that says what helps. No I/O.

Source of the numbers: RFC 4120 for those below 128; MIT Kerberos `krb5_err.et` for the others, where the first one is
-1765328384, and `gssapi_err_krb5.et` for that of a name without keys.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

from acidlib.metastore.options import KerberosLogin
from acidlib.metastore.ticket_cache import Tickets

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


class GssError(Protocol):
    """What the module gssapi raises: its number, the one that Kerberos gives it (0: none), and their texts."""

    maj_code: int
    min_code: int

    def get_all_statuses(self, code: int, is_maj: bool, /) -> list[str]:  # noqa: FBT001 - gssapi's
        """The texts of a number."""


class KerberosFailure(Exception):  # noqa: N818 - whoever logs in makes an error for users of it
    """Kerberos said no; the text says what and, where that is known, what helps.

    `passes`: nobody answered, so it may go well in a while. `has_ended`: the tickets were good once.
    """

    def __init__(self, text: str, *, passes: bool = False, has_ended: bool = False) -> None:
        super().__init__(text)
        self.passes = passes
        self.has_ended = has_ended


def failure_of(
    error: GssError, login: KerberosLogin, *, service: str, cached: Tickets | None = None
) -> KerberosFailure:
    """What an error means for a login to `service`; `cached` is what is in the cache, where that is known."""
    number = error.min_code - _FIRST
    name = login.principal or (cached.owner if cached is not None else "this user")
    known = {
        _NO_CLIENT: f"the realm knows no principal {name}",
        _NO_SERVICE: f"the realm knows no service {service}: does hive.metastore.kerberos.principal name the "
        "metastore's own?",
        _KEY_EXPIRED: f"the password or key of {name} has expired: have a new one made",
        _TICKET_NOT_YET: _CLOCKS,
        _BROKEN_CONFIGURATION: "krb5.conf cannot be understood",
        _NO_KDC_KNOWN: "krb5.conf names no KDC of the realm; KRB5_CONFIG says which file is read",
        _NO_KDC_ANSWERS: "no KDC of the realm answers",
        _NO_DEFAULT_REALM: "krb5.conf names no default_realm; KRB5_CONFIG says which file is read",
    }
    if number in _SKEW:
        reason = _CLOCKS
    elif number == _TICKET_ENDED and login.keytab is not None:
        reason = f"a ticket that was fetched now has ended already: {_CLOCKS}"
    elif number == _TICKET_ENDED:
        reason = f"the ticket of {name} {_ended(cached)}; {_KINIT}"
    elif number in _LOCKED:
        reason = f"{name} is locked in the realm, or has expired there"
    elif number in _NO_TICKET:
        reason = f"there is no ticket{f' of {login.principal}' if login.principal else ''}; {_KINIT}"
    elif number in _WRONG_KEY and login.keytab is not None:
        reason = f"the keys of {name} in {login.keytab} are not those of the realm: have the keytab made anew"
    else:
        reason = known.get(number, "Kerberos failed")
    return KerberosFailure(
        f"{reason}{_said(error)}", passes=number == _NO_KDC_ANSWERS, has_ended=number == _TICKET_ENDED
    )


def is_without_ticket(error: GssError) -> bool:
    """Whether there is none: with a keytab the reason may be the keytab, of which Kerberos says nothing."""
    return error.min_code - _FIRST in _NO_TICKET


def keytab_failure(error: GssError, login: KerberosLogin) -> KerberosFailure:
    """What an error means for a look into the keytab."""
    number = error.min_code - _FIRST
    if number == _NO_KEYS_OF_NAME:
        return KerberosFailure(f"the keytab {login.keytab} has no keys of {login.principal}{_said(error)}")
    if number == _NO_KEYTAB_FORMAT:
        return KerberosFailure(f"{login.keytab} is no keytab{_said(error)}")
    return KerberosFailure(f"the keytab {login.keytab} cannot be read{_said(error)}")


def message_failure(error: GssError) -> KerberosFailure:
    """What an error means for what the server said, in the login or after it.

    It was changed on its way, left out, repeated, or somebody else's. Kerberos has the numbers of wrong keys for that.
    """
    if error.min_code - _FIRST in _SKEW:
        reason = _CLOCKS
    else:
        reason = "what came is not the server's next message as it sent it"
    return KerberosFailure(f"{reason}{_said(error)}")


def _ended(cached: Tickets | None) -> str:
    if cached is None or cached.end is None:
        return "has ended"
    return f"ended at {datetime.fromtimestamp(cached.end, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _said(error: GssError) -> str:
    """Kerberos' own words; the number that it gives to a wrong signature has the text of no error."""
    words = _words(error, error.min_code or error.maj_code, is_maj=not error.min_code)
    if words == _NO_ERROR:
        words = _words(error, error.maj_code, is_maj=True)
    return f" (Kerberos says: {words})" if words else ""


def _words(error: GssError, code: int, *, is_maj: bool) -> str:
    return " ".join(" ".join(error.get_all_statuses(code, is_maj)).split())
