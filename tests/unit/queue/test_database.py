"""The URL of a queue, completed by a password that Hadoop keeps, and the rights of its file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acidlib.errors import RefusedError
from acidlib.queue.database import SqlDatabase, with_password

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


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_the_file_of_a_queue_is_for_its_user_alone(tmp_path: Path, umask: int) -> None:
    """So are the folders that are made for it; those that are there keep their rights."""
    tmp_path.chmod(0o755)
    path = tmp_path / "state" / "acidlib" / "queue.db"
    before = os.umask(umask)
    try:
        queue = SqlDatabase(f"sqlite:///{path}")

        def rights() -> dict[str, int]:
            return {file.name: file.stat().st_mode & 0o777 for file in [tmp_path, *tmp_path.rglob("*")]}

        def fill(connection: object) -> dict[str, int]:
            connection.exec_driver_sql("create table t (a)")  # type: ignore[attr-defined]
            return rights()

        while_writing = queue.write("fill", fill)
    finally:
        os.umask(before)
    expected = {tmp_path.name: 0o755, "state": 0o700, "acidlib": 0o700, "queue.db": 0o600}
    assert rights() == expected
    assert while_writing == expected | {"queue.db-journal": 0o600}
    path.chmod(0o660)
    SqlDatabase(f"sqlite:///{path}").close()
    assert path.stat().st_mode & 0o777 == 0o660


def test_a_queue_that_every_user_may_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run removes what the queue says is obsolete."""
    path = tmp_path / "shared" / "queue.db"
    SqlDatabase(f"sqlite:///{path}").close()
    path.chmod(0o606)
    with pytest.raises(RefusedError, match=f"every user may write {path}; chmod o-w {path} ends that"):
        SqlDatabase(f"sqlite:///{path}")
    path.chmod(0o600)
    path.parent.chmod(0o777)
    with pytest.raises(RefusedError, match=f"every user may replace {path}, by the rights of its folder"):
        SqlDatabase(f"sqlite:///{path}")
    path.parent.chmod(0o1777)
    SqlDatabase(f"sqlite:///{path}").close()
    link = tmp_path / "link.db"
    link.symlink_to(path)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    for name in (path, link):
        with pytest.raises(RefusedError, match="is another user's, in a folder where every user may make files"):
            SqlDatabase(f"sqlite:///{name}")
