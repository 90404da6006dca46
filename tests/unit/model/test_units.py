"""The encoded bucket property."""

import pytest

from acidlib.errors import CorruptError, RefusedError
from acidlib.model.units import decode_bucket, encode_bucket


@pytest.mark.parametrize(
    ("bucket", "statement", "value"),
    [
        (0, 0, 536870912),
        (1, 0, 536936448),
        (2, 0, 537001984),
        (3, 0, 537067520),
        (1, 7, 536936455),
        (4095, 4095, 805244927),
    ],
)
def test_known_values(bucket: int, statement: int, value: int) -> None:
    assert encode_bucket(bucket, statement) == value
    assert decode_bucket(value) == (bucket, statement, 1)


def test_no_statement_is_statement_zero() -> None:
    assert encode_bucket(2, -1) == 537001984


def test_version_0_is_the_bucket_itself() -> None:
    assert decode_bucket(0) == (0, 0, 0)
    assert decode_bucket(2**29 - 1) == (2**29 - 1, 0, 0)


@pytest.mark.parametrize("value", [-1, -(2**31), 2 << 29, 3 << 29, 2**31, 2**40])
def test_other_versions(value: int) -> None:
    with pytest.raises(CorruptError, match=str(value)):
        decode_bucket(value)


@pytest.mark.parametrize(("bucket", "statement"), [(4096, 0), (-1, 0), (0, 4096), (0, -2)])
def test_values_that_do_not_fit(bucket: int, statement: int) -> None:
    with pytest.raises(RefusedError, match="Cannot encode"):
        encode_bucket(bucket, statement)
