"""The URL of a queue, completed by a password that Hadoop keeps."""

from __future__ import annotations

import pytest

from acidlib.queue.database import with_password

HIVE = {"javax.jdo.option.ConnectionUserName": "hive"}
OURS, HIVES = {"acidlib.queue.password": "a/b@c"}, {"javax.jdo.option.ConnectionPassword": "p"}


@pytest.mark.parametrize(
    ("url", "kept", "expected"),
    [
        ("postgresql+psycopg://etl@db:5432/q", OURS, "postgresql+psycopg://etl:a%2Fb%40c@db:5432/q"),
        ("postgresql+psycopg://hive@db/q", OURS | HIVES, "postgresql+psycopg://hive:a%2Fb%40c@db/q"),
        ("mysql+pymysql://hive@db/q?ssl_ca=x", HIVES, "mysql+pymysql://hive:p@db/q?ssl_ca=x"),
        # Hive's own is for its user alone
        ("postgresql+psycopg://etl@db/q", HIVES, None),
        ("postgresql+psycopg://hive@db/q", {}, None),
        # needs none
        *(
            (url, OURS | HIVES, None)
            for url in (
                "postgresql+psycopg://hive:own@db/q",
                "postgresql+psycopg://hive:@db/q",
                "postgresql+psycopg://hive@db/q?password=own",
                "postgresql+psycopg://db/q?user=hive",
                "sqlite:////var/queue.db",
                "no URL",
                "postgresql://hive@[::1/q",
            )
        ),
    ],
)
def test_a_url_without_a_password(url: str, kept: dict[str, str], expected: str | None) -> None:
    assert with_password(url, HIVE, kept.get) == (expected or url)
