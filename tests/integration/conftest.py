"""Jobs in this process with a queue of their own, and real servers for tests marked ``live``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from servers.errors import ServerError
from servers.fleet import Servers
from servers.hiveserver import HiveServer
from servers.metastore import Metastore
from servers.postgres import Postgres

from acidlib.model.generation import Generation
from integration.harness import Jobs, local_session
from integration.hive3_site import METASTORES, OWN, Site, site

Server = TypeVar("Server")


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The jobs, without Spark, on a new queue."""
    monkeypatch.setattr("acidlib.engine.command.SparkSession", local_session)
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    monkeypatch.delenv("ACIDLIB_QUEUE_URL", raising=False)
    return Jobs(queue_url=f"sqlite:///{tmp_path / 'queue.db'}")


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Starts servers with options of the test's own; all of them end with the session."""
    fleet = Servers(tmp_path_factory.mktemp)
    try:
        yield fleet
    finally:
        fleet.close()


@pytest.fixture(scope="session")
def postgres(servers: Servers) -> Postgres:
    """A PostgreSQL cluster."""
    return started(servers.postgres)


@pytest.fixture(scope="module")
def hive3_metastore(servers: Servers) -> Iterator[Metastore]:
    """A metastore of Hive 3.1.3 that does nothing by itself. A test that stops it must start it again."""
    metastore = started(lambda: servers.metastore(Generation.HIVE3))
    yield metastore
    metastore.stop()


@pytest.fixture(scope="module")
def hive4_metastore(servers: Servers) -> Iterator[Metastore]:
    """A metastore of Hive 4.0.1 that does nothing by itself. A test that stops it must start it again."""
    metastore = started(lambda: servers.metastore(Generation.HIVE4))
    yield metastore
    metastore.stop()


@pytest.fixture(scope="module")
def hiveserver(servers: Servers, hive4_metastore: Metastore) -> Iterator[HiveServer]:
    """HiveServer2 on ``hive4_metastore``; its compactor has no worker threads."""
    server = started(lambda: servers.hiveserver(hive4_metastore))
    yield server
    server.stop()


@pytest.fixture(params=[METASTORES, OWN])
def both(request: pytest.FixtureRequest, jobs: Jobs, hive3_metastore: Metastore) -> Iterator[Site]:
    """Either queue."""
    with site(jobs, hive3_metastore, hives_queue=request.param == METASTORES) as made:
        yield made


@pytest.fixture
def hives(jobs: Jobs, hive3_metastore: Metastore) -> Iterator[Site]:
    """The metastore's own queue."""
    with site(jobs, hive3_metastore, hives_queue=True) as made:
        yield made


@pytest.fixture
def own(jobs: Jobs, hive3_metastore: Metastore) -> Iterator[Site]:
    """A queue of our own beside the metastore's."""
    with site(jobs, hive3_metastore, hives_queue=False) as made:
        yield made


def started(start: Callable[[], Server]) -> Server:
    """A started server; a test fails in one message when it cannot be had (it is never skipped)."""
    try:
        return start()
    except ServerError as error:
        pytest.fail(str(error), pytrace=False)
