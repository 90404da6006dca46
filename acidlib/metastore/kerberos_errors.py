"""What went wrong with Kerberos, in one line that says what helps. No I/O.

Source of the numbers: MIT Kerberos `krb5_err.et`, whose first error has the number -1765328384, and RFC 4120.
"""

from __future__ import annotations

from typing import Protocol

from acidlib.metastore.options import KerberosLogin

_FIRST = -1765328384 & 0xFFFFFFFF
_C_PRINCIPAL_UNKNOWN, _S_PRINCIPAL_UNKNOWN, _REVOKED, _KEY_EXPIRED, _PREAUTH_FAILED = 6, 7, 18, 23, 24
_TICKET_EXPIRED, _TICKET_NOT_YET, _SKEW = 32, 33, 37
_NO_SUCH_CACHE_ENTRY, _NO_SUCH_REALM, _UNREACHABLE, _SKEW_OF_KDC = 141, 154, 156, 148
_NOT_IN_KEYTAB, _NO_CACHE, _NO_DEFAULT_REALM = 181, 195, 224


class GssError(Protocol):
    """What the module gssapi raises."""

    maj_code: int
    min_code: int

    def gen_message(self) -> str: ...


class KerberosFailure(Exception):  # noqa: N818 - whoever logs in makes an error for users of it
    """Kerberos or the server said no; the text says what and, where that is known, what helps.

    `passes`: nobody was there to ask, so it may go well in a while.
    """

    def __init__(self, text: str, *, passes: bool = False) -> None:
        super().__init__(text)
        self.passes = passes


def failure_of(error: GssError, login: KerberosLogin, *, service: str) -> KerberosFailure:
    return KerberosFailure(f"{error.min_code - _FIRST} {error.min_code} {error.maj_code} {error.gen_message()}")
