"""What the arguments of verbs mean, and the words in which wrong ones are refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from acidlib.api.arguments import bytes_of, count_of, in_python, one_of, seconds_of, texts
from acidlib.errors import UsageError


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30s", 30),
        ("2h", 7200),
        ("1d", 86400),
        ("500ms", 0.5),
        (90, 90),
        (0.25, 0.25),
        (0, 0),
        (timedelta(days=1), 86400),
    ],
)
def test_a_duration_is_a_number_or_a_text(value: Any, seconds: float) -> None:
    assert seconds_of(value, name="idle") == seconds


@pytest.mark.parametrize("value", ["soon", "", -1, "-1s", float("nan"), None, timedelta(seconds=-1)])
def test_any_other_duration_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"^Cannot use --idle .*: it is not a duration such as 30s, 12h or 1d$"):
        seconds_of(value, name="idle")


@pytest.mark.parametrize(("value", "size"), [("100g", 100 << 30), ("1KiB", 1024), ("7", 7), (7, 7), (0, 0)])
def test_a_size_is_a_number_or_a_text(value: Any, size: int) -> None:
    assert bytes_of(value, name="max-bytes") == size


@pytest.mark.parametrize("value", ["much", "1.5g", -1, None])
def test_any_other_size_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"^Cannot use --max-bytes .*: it is not a size such as 1024, 256m or 1g$"):
        bytes_of(value, name="max-bytes")


def test_numbers_and_choices_are_within_their_limits() -> None:
    assert [count_of(value, name="buckets", least=1, most=4) for value in (1, 4)] == [1, 4]
    for value in (0, 5, True, 1.0, "2"):
        with pytest.raises(UsageError, match=r"^Cannot use --buckets .*: it is not a whole number from 1 to 4$"):
            count_of(value, name="buckets", least=1, most=4)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"a whole number from 0 on$"):
        count_of(-1, name="places", least=0)
    assert one_of("age", ("age", "name"), name="order") == "age"
    with pytest.raises(UsageError, match=r"^Cannot use --order size: it is none of age, name$"):
        one_of("size", ("age", "name"), name="order")


def test_one_text_is_as_good_as_several() -> None:
    assert texts("ds=1") == texts(["ds=1"]) == ("ds=1",)
    assert texts(text for text in ("a", "b")) == ("a", "b")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("give --write-ids, --write-ids-file or --all-committed", "give write_ids, write_ids_file or all_committed"),
        ("--table needs --metastore-uri, or --warehouse", "tables needs metastore, or acidlib.warehouse()"),
        ("a -- b --x- /--path a--table --5", "a -- b --x- /path a--table --5"),
        ("base_5 is gone", "base_5 is gone"),
    ],
)
def test_a_program_reads_of_its_keywords(message: str, words: str) -> None:
    assert in_python(message) == words
