"""Our jobs on Hive 4.1.0 and 4.2.0: from the request to the cleaning, judged by that Hive; all else has 4.0.1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from judges.tables import Transaction
from servers.daemon import NEWER_JAVA
from servers.fleet import Servers
from servers.hive_sessions import DriverSession, HiveSessions
from servers.jars import LATER
from servers.java import java_home_of
from servers.metastore import Metastore

from acidlib.model.generation import Generation
from integration.conftest import started
from integration.harness import Jobs
from integration.hive4_jobs import Service
from integration.hive4_model import Lake, rows

pytestmark = pytest.mark.live
LOW = ("--set", "hive.compactor.delta.num.threshold=1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hive:
    """A metastore of one of these releases, and sessions on it."""

    metastore: Metastore
    sessions: HiveSessions


@pytest.fixture(scope="module", params=LATER)
def hive(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Hive]:
    """The servers of a release; skipped where no Java is new enough for it."""
    oldest = NEWER_JAVA.get(request.param)
    if oldest is not None and java_home_of(oldest) is None:
        pytest.skip(f"Hive {request.param} needs a JDK {oldest} or newer: none in JAVA_HOME or /usr/lib/jvm")
    metastore = started(lambda: servers.metastore(Generation.HIVE4, version=request.param))
    with metastore, started(lambda: servers.hive_sessions(metastore)) as sessions:
        yield Hive(metastore=metastore, sessions=sessions)


@pytest.fixture
def sql(hive: Hive) -> Iterator[DriverSession]:
    """A session of this Hive."""
    with hive.sessions.session() as session:
        yield session


@pytest.fixture
def lake(hive: Hive, sql: DriverSession) -> Iterator[Lake]:
    """A database that this Hive looks at, too."""
    with Lake(hive.metastore, sql) as made:
        yield made


@pytest.fixture
def service(jobs: Jobs, hive: Hive) -> Service:
    """The jobs on this metastore."""
    return Service(jobs=jobs, uri=hive.metastore.uri)


def test_from_the_request_to_the_cleaning(lake: Lake, service: Service, sql: DriverSession) -> None:
    made = lake.table("t")
    sql.run(f"alter table {made.full} compact 'minor'")
    assert service.good("minor_compact").states == ["ready for cleaning"]
    lake.check(made)
    made = lake.add(made, [Transaction(inserts=rows(700, 4))], 4)
    service.good("initiator", "--table", made.full, *LOW)
    assert lake.states(made) == ["ready for cleaning", "initiated"]
    assert service.good("major_compact").states == ["ready for cleaning"]
    lake.check(made)
