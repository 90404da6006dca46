"""What the arguments of verbs mean, and the words in which wrong ones are refused."""

from __future__ import annotations

import pickle
import re
from datetime import timedelta
from inspect import signature
from typing import Any

import pytest

import acidlib
from acidlib import arguments
from acidlib.api.arguments import DirectoryOptions, bytes_of, count_of, one_of, seconds_of, texts
from acidlib.arguments import argument, said, said_in
from acidlib.cli.launch import JOBS
from acidlib.errors import RetryError, UsageError
from acidlib.execute.spark_options import OPTIONS as SPARKS
from acidlib.execute.spark_options import SparkOptions
from acidlib.model.results import CleaningResult, Outcome, UndoResult, Waiting
from acidlib.spark import source_options


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


MAKERS = {
    "acidlib.connect()": acidlib.connect,
    "acidlib.directory()": acidlib.directory,
    "acidlib.warehouse()": acidlib.warehouse,
}
VERBS = {name: signature(verb) for name, verb in vars(acidlib.Lake).items() if name[0] != "_"}
OF_RESULTS = {"to_dict": signature(acidlib.Plan.to_dict), "text_pieces": signature(acidlib.Plan.text_pieces)}
KEYWORDS = {keyword for stated in (*VERBS.values(), *map(signature, MAKERS.values())) for keyword in stated.parameters}
OPTIONS = {option for job in JOBS for parameter in job.load().params for option in parameter.opts} | {*SPARKS}
NAMES = [
    said(value, str)
    for value in vars(arguments).values()
    if isinstance(value, str) and value[:1] + value[-1:] == "\x02\x03"
]
SENTENCES = re.compile(r"^(a run without|a compaction with) ")


@pytest.mark.parametrize("name", NAMES)
def test_each_door_can_write_what_a_message_names(name: str) -> None:
    assert set(re.findall(r"--[a-z-]+", said(argument(name)))) <= OPTIONS
    lake = DirectoryOptions(warehouse="/w") if name == "yes" else DirectoryOptions(location="/d")
    for plans in (False, True):
        word, _, maker = SENTENCES.sub("", lake.word(name, plans=plans)).partition(" of ")
        if word.startswith("spark."):
            assert SparkOptions((f"--{name}", "x")).login != SparkOptions(()).login
        elif maker:
            keywords = word.partition("=")[0].replace(" or ", ", ").split(", ")
            assert set(keywords) <= signature(MAKERS[maker]).parameters.keys()
        elif match := re.fullmatch(r"([a-z_]+)\((?:([a-z_]+)=True)?\)", word):
            assert {match[2]} - {None} <= (VERBS | OF_RESULTS)[match[1]].parameters.keys()
        else:
            assert set(word.split(" or ")) <= {*MAKERS, *KEYWORDS, "the kind rebalance"}
    assert "--" not in source_options.word(name) or name not in source_options._WORDS


def test_spark_names_the_options_of_its_format() -> None:
    known = dict.fromkeys(("allCommitted", "writeIds", "hiveVersion", "tableColumns", "partitions"), "1")
    assert source_options.word("committed") == "writeIds or allCommitted"
    for name in ("all-committed", "write-ids", "columns", "partition", "table-kind"):
        option = source_options.word(name)
        value = "full" if option == "tableKind" else known[option]
        assert source_options.source_options({"path": "/t", option: value}).location == "/t"


def test_what_a_door_says_reaches_each_text_of_a_value() -> None:
    waiting = Waiting("delta_1", f"{arguments.METASTORE_DB} does not name it")
    value = {
        "a": [
            UndoResult(
                id=1,
                database="d",
                table="t",
                partition=None,
                location="/t",
                type="major",
                state=Outcome.FAILED,
                reason=f"give {arguments.YES}",
                result=("x",),
            )
        ],
        "b": CleaningResult(
            database="d", table="t", partition=None, location="/t", state=Outcome.FAILED, waiting=(waiting,)
        ),
    }
    said_value = said_in(value, str.upper)
    assert said_value["a"][0].reason == "give YES"
    assert said_value["b"].blocked == ("delta_1: METASTORE-DB does not name it",)
    assert said_value["b"].waiting[0].reason == "METASTORE-DB does not name it"
    assert value["a"][0].reason == f"give {arguments.YES}"
    assert said_in(said_value["b"], str.lower) is said_value["b"]


def test_an_error_within_another_text_stays_an_argument_until_the_door_of_that_text() -> None:
    inner = UsageError(f"Cannot x: give {arguments.METASTORE_URI}")
    outer = RetryError(f"Cannot go on: {inner}; then: {inner.reason}")
    assert str(outer) == "Cannot go on: Cannot x: give --metastore-uri; then: give --metastore-uri"
    outer.put(DirectoryOptions().word)
    assert (
        f"{outer}"
        == str(outer)
        == ("Cannot go on: Cannot x: give metastore of acidlib.connect(); then: give metastore of acidlib.connect()")
    )


def test_the_beginning_of_an_argument_that_was_cut_off_is_no_control_character() -> None:
    for cut in range(4088, 4096):
        text = str(UsageError("x" * cut + arguments.WRITE_IDS_FILE + "y" * 200))
        assert text.isprintable()
        assert "more characters" in text


def test_a_word_of_the_caller_stays_as_it_is() -> None:
    error = UsageError(f"Cannot use {arguments.TABLE} id > 1 --table 5")
    assert str(error) == "Cannot use --table id > 1 --table 5"
    error.put(DirectoryOptions().word)
    assert str(error) == "Cannot use tables id > 1 --table 5"
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.words, type(again)) == (str(error), error.words, UsageError)
