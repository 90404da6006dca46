"""Passwords and keys in URIs are never told, whatever goes wrong and however much is asked to be told."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from servers.process import free_port

from integration.harness import COMMANDS, Jobs, fixture

SECRET = "s3cr3tw0rd"
URLS = {
    "nobody listens, PostgreSQL": "postgresql+psycopg://hive:{}@127.0.0.1:{port}/metastore",
    "nobody listens, MySQL": "mysql+pymysql://hive:{}@127.0.0.1:{port}/metastore",
    "in a parameter": "postgresql+psycopg://127.0.0.1:{port}/metastore?user=hive&password={}",
    "a driver that is not known": "postgresql+nothing://hive:{}@127.0.0.1/metastore",
    "a database that is not known": "nothing://hive:{}@127.0.0.1/metastore",
    "a port that is none": "postgresql+psycopg://hive:{}@127.0.0.1:port/metastore",
    "a host that is none": "postgresql+psycopg://hive:{}@[127.0.0.1/metastore",
    "no URL": "hive:{}@127.0.0.1/metastore",
}
WORDS = {
    "major_compact": ("--all-committed", "--location", "{place}"),
    "initiator": ("--all-committed", "--location", "{place}"),
    "cleaner": (),
    "show_compactions": (),
}


@pytest.mark.pairs
@pytest.mark.parametrize("url", [pytest.param(url, id=name) for name, url in URLS.items()])
@pytest.mark.parametrize("job", WORDS)
@pytest.mark.parametrize("more", [(), ("--debug",), ("--output", "json")], ids=["text", "debug", "json"])
def test_the_password_of_the_queue(jobs: Jobs, tmp_path: Path, job: str, url: str, more: tuple[str, ...]) -> None:
    place = fixture("hive3/a_crud", tmp_path / "t")
    words = [word.format(place=place) for word in WORDS[job]]
    done = CliRunner().invoke(
        COMMANDS[job], [*words, *more, "--queue-url", url.format(SECRET, port=free_port())], standalone_mode=True
    )
    told = f"{done.stdout}{done.stderr}{done.exception!r}"
    assert done.exit_code in (1, 2), told
    assert "error" in told.lower() or "Error" in told
    assert SECRET not in told


URIS = {
    "a queue whose password has an @": ("--queue-url", "postgresql+psycopg://hive:x%zz@{}@127.0.0.1:{port}/metastore"),
    "a queue with two passwords": (
        "--queue-url",
        "postgresql+psycopg://hive:{}@127.0.0.1:{port}/metastore?sslpassword={}&nonsense=1",
    ),
    "a metastore": ("--metastore-uri", "thrift://hive:{}@127.0.0.1:{port}"),
    "S3": ("--location", "s3a://AKIAEXAMPLE:{}@bucket/t"),
    "S3, a key with a slash": ("--location", "s3a://AKIAEXAMPLE:a/{}@bucket/t"),
    "HDFS": ("--location", "hdfs://hive:{}@127.0.0.1:{port}/t"),
    "no store": ("--location", "store://hive:{}@127.0.0.1/t"),
    "no option": ("--nothing", "store://hive:{}@127.0.0.1/t"),
}


@pytest.mark.pairs
@pytest.mark.parametrize("option", URIS)
@pytest.mark.parametrize("more", [("--debug",), ("--output", "json")], ids=["debug", "json"])
def test_other_secrets_in_uris(jobs: Jobs, tmp_path: Path, option: str, more: tuple[str, ...]) -> None:
    name, text = URIS[option]
    words = [name, text.format(SECRET, SECRET, port=free_port()), *more, "--report", str(tmp_path / "page.html")]
    words += ["--all-committed"] if name == "--location" else ["--location", str(tmp_path)]
    done = CliRunner().invoke(COMMANDS["major_compact"], words, standalone_mode=False)
    told = f"{done.stdout}{done.stderr}{done.exception!r}"
    assert done.exception is not None, told
    assert SECRET not in told
    assert not (tmp_path / "page.html").exists() or SECRET not in (tmp_path / "page.html").read_text()
