"""Passwords in Hadoop's credential providers, which Hadoop has made: read where they are needed, and never told."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from credential_store import PROVIDERS, credential_store
from psycopg import sql
from s3_tables import uploaded
from servers.postgres import GUARDED, Postgres
from servers.s3 import S3Server
from servers.settings import write_site

from acidlib.errors import RefusedError
from acidlib.execute.spark import hadoop_in_jvm
from acidlib.stores.hadoop import JavaSecrets
from integration.harness import AROUND, Jobs, fixture
from integration.keystore import keystore

pytestmark = [pytest.mark.live, pytest.mark.spark]

SECRET = "s3cr3t wörd@/:"


@pytest.fixture
def guarded_queue(postgres: Postgres) -> Iterator[str]:
    """A database of a user who needs a password, and its URL without one."""
    name = postgres.new_database()
    user = sql.Identifier(GUARDED)
    with postgres.connect() as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(user, SECRET))
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(name), user))
    yield f"postgresql+psycopg://{GUARDED}@127.0.0.1:{postgres.port}/{name}"
    postgres.drop_database(name)
    with postgres.connect() as connection:
        connection.execute(sql.SQL("DROP ROLE {}").format(user))


def test_the_password_of_the_queue(
    jobs: Jobs, guarded_queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))

    def shown(passwords: dict[str, str], **more: str) -> str:
        """What the job tells in all, with the store that holds these passwords."""
        file = tmp_path / "passwords.jceks"
        file.unlink(missing_ok=True)
        write_site(tmp_path / "hive-site.xml", {PROVIDERS: credential_store(file, passwords), **more})
        told = ""
        for text in (True, False):
            ran = jobs("show_compactions", "--debug", queue_url=guarded_queue, text=text, traceback=True)
            told += f"{ran.status} {ran.out} {ran.err}"
        assert not any(password in told for password in passwords.values())
        return told

    hives = {"javax.jdo.option.ConnectionPassword": SECRET}
    assert shown({"acidlib.queue.password": SECRET}).count("no password supplied") == 0
    assert shown(hives, **{"javax.jdo.option.ConnectionUserName": GUARDED}).count("no password supplied") == 0
    # another user's, and a wrong one
    assert "no password supplied" in shown(hives, **{"javax.jdo.option.ConnectionUserName": "hive"})
    assert "password authentication failed" in shown({"acidlib.queue.password": "gu3ss"})


def test_the_keys_of_a_bucket(s3_server: S3Server, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = uploaded(s3_server, fixture("hive3/a_crud", tmp_path / "t"))
    properties = s3_server.properties()
    own = f"fs.s3a.bucket.{place.authority}."
    keys = {
        "fs.s3a.access.key": "another's",
        f"{own}access.key": properties.pop("fs.s3a.access.key"),
        "fs.s3a.secret.key": properties.pop("fs.s3a.secret.key"),
    }
    store = credential_store(tmp_path / "keys.jceks", keys, scheme="localjceks")
    monkeypatch.setattr(AROUND, "hadoop", properties | {f"{own}security.credential.provider.path": store})
    ran = jobs("major_compact", "--location", str(place), "--all-committed", "--debug")
    assert ran.states == ["ready for cleaning"], ran
    assert keys["fs.s3a.secret.key"] not in ran.out + ran.err


def test_what_was_read_goes_to_tasks_and_nothing_else(tmp_path: Path) -> None:
    uri = credential_store(tmp_path / "a.jceks", {"one": SECRET, "two": "x"})
    secrets = JavaSecrets(hadoop_in_jvm, {PROVIDERS: uri})
    assert (secrets.password("one"), secrets.password("three")) == (SECRET, None)
    assert SECRET not in repr(secrets)
    there = pickle.loads(pickle.dumps(secrets))
    assert (there.password("one"), there.password("three")) == (SECRET, None)
    with pytest.raises(RefusedError, match=rf"^Cannot read {uri}: only the driver, with the JVM"):
        there.password("two")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("jceks://file{}/damaged", "EOFException"),
        ("vault://file{}/damaged", "No CredentialProviderFactory for vault:"),
        ("jceks://file{}/folder", "Is a directory|FileNotFoundException"),
    ],
)
def test_a_store_that_cannot_be_read(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "damaged").write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    uri = text.format(tmp_path)
    with pytest.raises(RefusedError, match=rf"^Cannot read passwords from {uri}: Hadoop said .*({told})"):
        JavaSecrets(hadoop_in_jvm, {PROVIDERS: uri}).password("name")


def test_truststores(tmp_path: Path) -> None:
    store = keystore(tmp_path)
    trusted = store.with_name("ca.pem").read_text().split()
    secrets = JavaSecrets(hadoop_in_jvm)
    for kind, password in ((None, "changeit"), ("JKS", "changeit"), ("PKCS12", "changeit")):
        assert secrets.certificates(str(store), kind, password).split() == trusted
    for path, kind, password, told in (
        (store, None, "guess", "Java said IOException: .*password was incorrect"),
        (store, None, None, "there is no certificate in it, or none that can be read without its password"),
        (store, "VAULT", "changeit", "Java said KeyStoreException: VAULT not found"),
        (tmp_path / "none.jks", None, "changeit", "Java said FileNotFoundException: .*No such file"),
    ):
        with pytest.raises(RefusedError, match=rf"^Cannot use the truststore {path}: {told}") as caught:
            secrets.certificates(str(path), kind, password)
        assert "guess" not in str(caught.value)
