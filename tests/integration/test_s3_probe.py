"""`acidlib probe` in a bucket: what a server keeps, and that a server which does not is found out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner
from long_runs import amount
from servers.door import Answer, Request
from servers.s3 import S3Server
from servers.s3_door import S3Door

from acidlib.cli import jobs
from integration.harness import AROUND, IN_PROCESS

pytestmark = pytest.mark.live
Fault = Callable[[Request], Answer | None]


@pytest.fixture(scope="module")
def door(s3_server: S3Server) -> Iterator[S3Door]:
    """What stands between the probe and the server."""
    with S3Door(s3_server) as made:
        yield made


@pytest.fixture
def probed(door: S3Door, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[int, Any]]:
    """The exit status and the document of a probe in a bucket, in which its record alone stays."""
    monkeypatch.setattr(AROUND, "hadoop", s3_server.properties(door.endpoint))

    def probe() -> tuple[int, Any]:
        bucket, client = s3_server.new_bucket(), s3_server.client()
        words = [f"s3a://{bucket}/w", "--output", "json", "--metastore-uri", "none"]
        ran = CliRunner().invoke(jobs.probe, words, obj=IN_PROCESS)
        document = json.loads(ran.stdout)
        stored = client.get_object(Bucket=bucket, Key="w/_acidlib_probe.json")["Body"].read()
        assert json.loads(stored).items() <= document.items()
        assert [item["Key"] for item in client.list_objects_v2(Bucket=bucket)["Contents"]] == ["w/_acidlib_probe.json"]
        assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)
        return ran.exit_code, document

    return probe


RACY = {"aborts are final"}
"""What versitygw breaks in about one of three probes: a completion under way appears after its abort was answered."""


def broken(document: Any) -> set[str]:
    return {promise["name"] for promise in document["promises"] if promise["state"] == "BROKEN"} - RACY


def test_the_server_keeps_all(probed: Callable[[], tuple[int, Any]]) -> None:
    status, document = probed()
    assert {promise["name"] for promise in document["promises"] if promise["state"] != "holds"} <= RACY
    assert document["passed"] is (status == 0)


def without(method: str, header: str, door: S3Door) -> Fault:
    """Conditions in a header of one kind of requests are ignored."""
    return lambda request: (
        door.without_conditions(request) if request.method == method and header in request.headers else None
    )


def deaf_to_aborts(door: S3Door) -> Fault:
    """Aborts are answered, and not done, in the trial of that promise."""
    del door
    return lambda request: Answer(status=204) if request.method == "DELETE" and "/4/" in request.path else None


def remembering(door: S3Door) -> Fault:
    """A listing is answered as it was the first time."""
    answers: dict[str, Answer] = {}

    def answer(request: Request) -> Answer | None:
        if not ("_acidlib_probe" in request.query and "delimiter" in request.query):
            return None
        return answers.setdefault(request.line, door.passed_on(request))

    return answer


FAULTS: dict[str, tuple[Callable[[S3Door], Fault], set[str]]] = {
    "creations": (partial(without, "PUT", "If-None-Match"), {"creations replace nothing", "one creator of a name"}),
    "replacements": (
        partial(without, "PUT", "If-Match"),
        {"stale replacements are refused", "one successor of a version"},
    ),
    "completions": (
        partial(without, "POST", "If-None-Match"),
        {"completions replace nothing", "one completion of a name"},
    ),
    "aborts": (deaf_to_aborts, {"aborted uploads stay aborted"}),
    "listings": (remembering, {"changes are listed at once"}),
}


@pytest.mark.parametrize("wrong", amount(["creations", "aborts"], long=list(FAULTS)))
def test_a_server_that_breaks_a_promise_is_found_out(
    probed: Callable[[], tuple[int, Any]], door: S3Door, wrong: str
) -> None:
    fault, names = FAULTS[wrong]
    with door.at_fault(fault(door)):
        status, document = probed()
    assert (status, document["passed"], broken(document)) == (1, False, names)
