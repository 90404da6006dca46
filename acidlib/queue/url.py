"""The URL of a queue with the password that it does not state, out of Hadoop's credential providers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

PASSWORD = "acidlib.queue.password"  # noqa: S105 - the name under which it is kept
HIVES_PASSWORD = "javax.jdo.option.ConnectionPassword"  # noqa: S105 - the same
HIVES_USER = "javax.jdo.option.ConnectionUserName"


def with_password(url: str, site: Mapping[str, str], stored: Callable[[str], str | None]) -> str:
    """The URL, completed where it names a user and no password.

    site    what hive-site.xml says
    stored  the password of a name, None where there is none

    A name of ours counts first. Hive's own password is for Hive's own user alone. Where neither is kept the URL stays
    as it is: a database may trust this machine. A URL that is none is left to whoever opens it.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return url
    if not parsed.username or parsed.password is not None or "password" in parsed.query:
        return url
    password = stored(PASSWORD)
    if password is None and parsed.username == site.get(HIVES_USER, "").strip():
        password = stored(HIVES_PASSWORD)
    return url if password is None else parsed.set(password=password).render_as_string(hide_password=False)
