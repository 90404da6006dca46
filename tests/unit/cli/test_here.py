"""What the words of a job say to Spark before it starts."""

from __future__ import annotations

import pytest

from acidlib.cli.launch import assignments, queue_of_yarn
from acidlib.service.spark_driver import SparkOptions


def test_assignments_are_found_among_the_words_of_a_job() -> None:
    assert assignments(["--set", "a=1", "--x", "--set=b=2", "--setting", "c=3", "--set"]) == ["a=1", "b=2"]


@pytest.mark.parametrize(
    ("line", "queue"),
    [
        ("--master yarn --deploy-mode cluster", "nightly"),
        ("--master yarn --deploy-mode cluster --queue other", ""),
        ("--master yarn --deploy-mode cluster --conf spark.yarn.queue=other", ""),
        ("--master yarn", ""),
        ("--master spark://one:7077 --deploy-mode cluster", ""),
    ],
)
def test_a_queue_of_yarn_is_looked_up_where_a_driver_could_not_choose_it(line: str, queue: str) -> None:
    """A driver of ours chooses it itself, and what is said to Spark wins."""
    words = ["--set", "hive.compactor.job.queue=nightly"]
    assert queue_of_yarn(SparkOptions(tuple(line.split())), words) == queue
