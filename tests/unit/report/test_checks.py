"""The words of `acidlib doctor`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from acidlib.status.checks import (
    Check,
    Executor,
    HivesCompactor,
    State,
    checks_text,
    clock_check,
    compactor_check,
    executors_check,
    failed,
    java_check,
    kernels_check,
    metastore_check,
    place_check,
    python_check,
    queue_check,
    spark_check,
    unchecked,
)

OK, NOTE, WRONG = State.OK, State.NOTE, State.WRONG
DRIVER = Executor(host="one", python="3.11", package="0.1.0", compiled=True)
OFF = HivesCompactor(initiator=False, workers=0, cleaner=False)
ON = HivesCompactor(initiator=True, workers=2, cleaner=True)
JAVA = 'openjdk version "{}" 2026-01-01\nOpenJDK Runtime Environment'


@pytest.mark.parametrize(
    ("check", "state", "words"),
    [
        (java_check("java", JAVA.format("17.0.9")), OK, "version 17 (java)"),
        (java_check("/j/bin/java", JAVA.format("25")), OK, "version 25 (/j/bin/java)"),
        (java_check("java", JAVA.format("1.8.0_402")), WRONG, "java is version 8"),
        (java_check("java", "a shell"), WRONG, "java does not tell its version"),
        (java_check("java", None), WRONG, "java cannot be run"),
        (python_check("/p", "3.12.1", "/a"), OK, "version 3.12.1 (/p), acidlib in /a"),
        (spark_check("/s", ["spark-core_2.13-4.0.1.jar"], "4.0.1"), OK, "version 4.0.1 (/s)"),
        (
            spark_check("/s", ["spark-core_2.12-3.5.1.jar", "x.jar"], "4.0.1"),
            WRONG,
            "/s is version 3.5.1, and PySpark here is 4.0.1",
        ),
        (spark_check("/s", ["x.jar"], "4.0.1"), WRONG, "/s holds no Spark"),
        (kernels_check(compiled=True, place="/a"), OK, "compiled for this processor"),
        (
            kernels_check(compiled=False, place="/a"),
            NOTE,
            "not compiled for this processor in /a: each user waits a minute for them once",
        ),
        (metastore_check(["thrift://m"], 3), OK, "Hive 3.1 at thrift://m"),
        (metastore_check(["thrift://m", "thrift://n"], 4), OK, "Hive 4 at thrift://m, thrift://n"),
        (compactor_check(OFF), OK, "off, as far as the metastore's settings say"),
        (compactor_check(replace(OFF, workers=-1)), OK, "off, as far as the metastore's settings say"),
        (
            compactor_check(ON),
            NOTE,
            "on: initiator, 2 workers, cleaner",
        ),
        (clock_check(4.9), OK, "within 5 s of the metastore's"),
        (clock_check(-7200.0), WRONG, "7,200 s behind the metastore's"),
        (clock_check(6.0), WRONG, "6 s ahead of the metastore's"),
        (place_check("/w", []), OK, "/w: written, named and removed; of two who create or rename only one succeeds"),
        (place_check("/w", ["a", "b"]), WRONG, "/w: a; b"),
        (queue_check("/q.db", "sqlite"), OK, "sqlite at /q.db"),
        (queue_check("", "postgresql"), OK, "postgresql"),
        (failed("metastore", "Cannot: because", "do"), WRONG, "Cannot: because"),
        (unchecked("clock", "why"), State.UNCHECKED, "why"),
    ],
)
def test_what_a_line_says(check: Check, state: State, words: str) -> None:
    assert (check.state, check.found) == (state, words)
    assert bool(check.advice) == (state in (NOTE, WRONG)), "what is not as it has to be says what to do"


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ({}, OK, "at yarn, looked at on one, two"),
        ({"compiled": False}, NOTE, "at yarn; the kernels are not compiled for the processor of two"),
        ({"python": "3.12"}, WRONG, "two has Python 3.12 and acidlib 0.1.0, the driver 3.11 and 0.1.0"),
        ({"package": "0.2.0"}, WRONG, "two has Python 3.11 and acidlib 0.2.0, the driver 3.11 and 0.1.0"),
    ],
)
def test_executors_are_compared_with_the_driver(change: dict[str, object], state: State, words: str) -> None:
    check = executors_check("yarn", DRIVER, [DRIVER, replace(DRIVER, host="two", **change)])  # type: ignore[arg-type]
    assert (check.state, check.found) == (state, words)


def test_what_to_do_stands_below_the_line() -> None:
    text = checks_text([queue_check("", "mysql"), failed("Java", "it is not there", "install it")])
    assert text == (
        "ok         queue  mysql\n"
        "wrong      Java   it is not there\n"
        "                  -> install it\n"
        "\n"
        "2 checks, 1 wrong"
    )
