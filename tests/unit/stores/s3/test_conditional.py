"""How often a condition is asked for that does not hold."""

from __future__ import annotations

import pytest

from acidlib.errors import ConflictError
from acidlib.stores.s3 import client as conditional
from acidlib.stores.s3.client import Bucket, ChangedError, SmallObject, UnderWayError, bucket_options, create_object

MANY = 9


@pytest.mark.parametrize(
    ("refused", "there", "asked", "ends"),
    [
        ([ChangedError], None, 1, ChangedError),
        ([ChangedError], b"another", 1, ChangedError),
        ([ChangedError], b"ours", 1, None),
        ([UnderWayError] * 2, None, 3, None),
        ([UnderWayError, ChangedError], b"another", 2, ChangedError),
        ([UnderWayError] * MANY, None, 4, UnderWayError),
    ],
)
def test_only_an_answer_that_says_nothing_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
    refused: list[type[ConflictError]],
    there: bytes | None,
    asked: int,
    ends: type[ConflictError] | None,
) -> None:
    requests = []
    found = None if there is None else SmallObject(data=there, version="v", modified=0, now=0, metadata={})

    class Client:
        @staticmethod
        def put_object(**arguments: object) -> dict[str, str]:
            requests.append(arguments)
            if len(requests) <= len(refused):
                raise refused[len(requests) - 1]("no")
            return {"ETag": "v"}

    monkeypatch.setattr(Bucket, "client", Client)
    monkeypatch.setattr(conditional, "read_object", lambda bucket, path: found)
    bucket = Bucket(bucket_options("b", {}))
    if ends is None:
        assert create_object(bucket, "s3a://b/c", b"ours") == "v"
    else:
        with pytest.raises(ConflictError) as raised:
            create_object(bucket, "s3a://b/c", b"ours")
        assert raised.type is ends
    assert len(requests) == asked
