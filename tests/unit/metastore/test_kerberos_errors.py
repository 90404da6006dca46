"""The line for each number of an error."""

from __future__ import annotations

import pytest

from acidlib.metastore.kerberos import Tickets, failure_of, keytab_failure, message_failure
from acidlib.metastore.options import KerberosLogin

FIRST = 2529638912
KEYTAB = KerberosLogin(principal="anna@R", keytab="/k")
TICKET = KerberosLogin()
NAMED = KerberosLogin(principal="anna@R")
CLOCKS = "the clocks of this machine, of the KDC and of the metastore differ by too much; set them by NTP"


class GssapiError(Exception):
    """As the module gssapi has it."""

    def __init__(self, min_code: int, text: str = "The text") -> None:
        self.maj_code = 851968
        self.min_code = min_code
        self.text = text

    def get_all_statuses(self, code: int, is_maj: bool, /) -> list[str]:
        if is_maj:
            assert code == self.maj_code
            return ["The text"]
        assert code == self.min_code
        assert code
        return [self.text] if self.text else []


@pytest.mark.parametrize(
    ("number", "login", "told"),
    [
        (1, KEYTAB, "anna@R is locked in the realm, or has expired there"),
        (18, TICKET, "bob@R is locked in the realm, or has expired there"),
        (6, KEYTAB, "the realm knows no principal anna@R"),
        (
            7,
            TICKET,
            "the realm knows no service hive/h@R: does hive.metastore.kerberos.principal name the metastore's own?",
        ),
        (23, KEYTAB, "the password or key of anna@R has expired: have a new one made"),
        (24, KEYTAB, "the keys of anna@R in /k are not those of the realm: have the keytab made anew"),
        (31, KEYTAB, "the keys of anna@R in /k are not those of the realm: have the keytab made anew"),
        (31, TICKET, "Kerberos failed"),
        (
            32,
            TICKET,
            "the ticket of bob@R ended at 2001-09-09 01:46:40 UTC; run kinit, or give --principal and --keytab",
        ),
        (32, KEYTAB, f"a ticket that was fetched now has ended already: {CLOCKS}"),
        (33, TICKET, CLOCKS),
        (37, KEYTAB, CLOCKS),
        (148, TICKET, CLOCKS),
        (136, TICKET, "krb5.conf cannot be understood"),
        (141, TICKET, "there is no ticket; run kinit, or give --principal and --keytab"),
        (195, NAMED, "there is no ticket of anna@R; run kinit, or give --principal and --keytab"),
        (154, TICKET, "krb5.conf names no KDC of the realm; KRB5_CONFIG says which file is read"),
        (156, TICKET, "no KDC of the realm answers"),
        (224, TICKET, "krb5.conf names no default_realm; KRB5_CONFIG says which file is read"),
        (60, TICKET, "Kerberos failed"),
        (-FIRST, TICKET, "Kerberos failed"),
    ],
)
def test_what_helps(number: int, login: KerberosLogin, told: str) -> None:
    found = failure_of(GssapiError(FIRST + number), login, service="hive/h@R", cached=Tickets("bob@R", 1_000_000_000))
    assert str(found) == f"{told} (Kerberos says: The text)"
    assert (found.passes, found.has_ended) == (number == 156, number == 32)


def test_what_is_not_known_is_not_told() -> None:
    found = failure_of(GssapiError(FIRST + 32, ""), TICKET, service="hive/h@R")
    assert str(found) == "the ticket of this user has ended; run kinit, or give --principal and --keytab"
    found = failure_of(GssapiError(FIRST + 32, ""), NAMED, service="hive/h@R", cached=Tickets("bob@R", None))
    assert str(found) == "the ticket of anna@R has ended; run kinit, or give --principal and --keytab"


@pytest.mark.parametrize("number", [31, 24, -FIRST, 100001 - FIRST])
def test_a_message_that_was_changed_says_nothing_about_keys(number: int) -> None:
    """Kerberos gives the number 31 to what cannot be decrypted, and to a wrong signature one that means no error."""
    for text in ("The text", "Success"):
        found = message_failure(GssapiError(FIRST + number, text))
        told = "what came is not the server's next message as it sent it (Kerberos says: The text)"
        assert (str(found), found.passes, found.has_ended) == (told, False, False)
    assert str(message_failure(GssapiError(FIRST + 37))) == f"{CLOCKS} (Kerberos says: The text)"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (39756033, "the keytab /k has no keys of anna@R"),
        (FIRST + 213, "/k is no keytab"),
        (2, "the keytab /k cannot be read"),
    ],
)
def test_a_keytab_that_cannot_be_used(code: int, told: str) -> None:
    assert str(keytab_failure(GssapiError(code), KEYTAB)) == f"{told} (Kerberos says: The text)"
