"""A run over many places waits once for a server that does not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from waits import until

from acidlib.errors import RetryError
from acidlib.execute.services import Services
from acidlib.model.tables import TableRef
from acidlib.places.listing import Unlisted, list_places
from acidlib.places.place import Interpretation, ListedPlace, Place
from acidlib.planning.stated_write_ids import StatedWriteIds
from acidlib.stores.renaming import hdfs_client as client
from acidlib.stores.stores import Stores

PLACES = 100


class Silent:
    """A server that takes connections and never says anything, or else hangs up; ``taken`` counts them."""

    def __init__(self, *, hangs_up: bool) -> None:
        """Listens from now on."""
        self.taken: list[socket.socket] = []
        self._hangs_up = hangs_up
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=2 * PLACES)
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._take, daemon=True).start()

    def close(self) -> None:
        """Listens no more."""
        self._socket.close()
        for taken in self.taken:
            taken.close()

    def _take(self) -> None:
        while True:
            try:
                taken, _ = self._socket.accept()
            except OSError:
                return
            self.taken.append(taken)
            if self._hangs_up:
                taken.close()


@pytest.fixture(params=["silent", "hangs up"])
def nobody(request: pytest.FixtureRequest) -> Iterator[Silent]:
    made = Silent(hangs_up=request.param == "hangs up")
    yield made
    made.close()


def looked_at(services: Services, stores: Stores, root: str, local: Path) -> list[str]:
    """Why the places of a table there cannot be listed, as one run is told; one of a local table can."""
    (local / "delta_0000001_0000001_0000").mkdir(parents=True)
    (local / "delta_0000001_0000001_0000/bucket_00000").write_bytes(b"x")
    places = [
        Place(
            ref=TableRef("d", "t", f"p={number}"),
            location=stores.locate(f"{root}/p={number}" if number else str(local)),
            interpretation=Interpretation(write_ids=StatedWriteIds(everything=True)),
        )
        for number in range(PLACES)
    ]
    found, _ = list_places(replace(services, stores=stores), places, None)
    assert [type(one) for one in found] == [ListedPlace] + [Unlisted] * (PLACES - 1)
    reasons = []
    for number, one in enumerate(found[1:], start=1):
        assert isinstance(one, Unlisted)
        assert isinstance(one.error, RetryError)
        start, _, reason = str(one.error).partition(f" {root}/p={number}: ")
        assert start in ("Cannot look at", "Cannot list")
        reasons.append(reason)
    return reasons


def test_a_name_node(services: Services, tmp_path: Path, nobody: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 0.3)
    stores = Stores(configuration={"dfs.client.failover.max.attempts": "0"})
    reasons = set(looked_at(services, stores, f"hdfs://127.0.0.1:{nobody.port}/t", tmp_path))
    until(lambda: nobody.taken)
    assert all(reason.startswith("the name node, or a data node, cannot be reached (127.0.0.1:") for reason in reasons)
    assert len(nobody.taken) < PLACES / 2


def test_an_endpoint(services: Services, tmp_path: Path) -> None:
    nobody = Silent(hangs_up=False)
    stores = Stores(
        configuration={
            "fs.s3a.access.key": "a",
            "fs.s3a.secret.key": "b",
            "fs.s3a.endpoint": f"http://127.0.0.1:{nobody.port}",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.attempts.maximum": "1",
            "fs.s3a.connection.timeout": "300ms",
        }
    )
    (reason,) = set(looked_at(services, stores, "s3a://b/t", tmp_path))
    until(lambda: nobody.taken)
    nobody.close()
    assert reason == f"b at http://127.0.0.1:{nobody.port} cannot be reached, or went away (no answer in time)"
    assert len(nobody.taken) < PLACES / 2
