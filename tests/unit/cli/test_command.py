"""The command `acidlib`: who gets which words."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from acidlib.arguments import said
from acidlib.cli import launch
from acidlib.cli import main as command
from acidlib.cli.help import OPTION_GROUPS
from acidlib.cli.launch import JOBS, Job
from acidlib.documents import ROOT
from acidlib.errors import RefusedError
from acidlib.execute.spark import driver_spark_options
from acidlib.execute.spark_options import SUBMIT_ARGS
from acidlib.metastore.options import KerberosLogin
from acidlib.runs.environment import QUEUE_IN_A_FILE

ALONE = ("major-compact", "--location", "/t", "--all-committed")
PLACED = ("--master", "yarn", "--deploy-mode", "cluster")


class Submitted:
    """What was started: the words of its command line, and those that Spark gets."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.of_spark: list[str] = []
        self.environment: dict[str, str] = {}

    def __call__(self, command: list[str], environment: dict[str, str]) -> None:
        self.words = command[1:]
        self.environment = environment
        self.of_spark = shlex.split(environment.get(SUBMIT_ARGS, ""))
        raise SystemExit(0)

    @property
    def behind_the_file(self) -> list[str]:
        return self.words[self.words.index(str(command.ENTRY)) + 1 :]


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> Submitted:
    found = Submitted()
    monkeypatch.setattr(launch, "start", found)
    return found


@pytest.fixture(autouse=True)
def _own_options_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that needs no Spark puts them into a variable of its process, which is here that of other tests."""
    monkeypatch.setenv(SUBMIT_ARGS, "")


def called(*words: str) -> Result:
    return CliRunner().invoke(command.group, words)


def test_words_are_judged_without_what_a_job_works_with() -> None:
    """Help and mistakes of every job: Spark, databases and compilers are loaded later."""
    script = """
import sys
from click.testing import CliRunner
from acidlib.cli.launch import JOBS
from acidlib.cli.main import group

def called(*words):
    return CliRunner().invoke(group, words)

print(called("-h").output)
for job in JOBS:
    assert called(job.name, "-h").exit_code == 0
    wrong = called(job.name, "--metastore-ury", "none")
    assert (wrong.exit_code, "No such option" in wrong.output) == (2, True), wrong.output
for words in (["major-compact", "--warehouse", "/w", "--all-committed"], ["cleaner", "--delete"]):
    assert called(*words).exit_code == 2
loaded = {"pyspark", "numba", "numpy", "pyarrow", "sqlalchemy", "thriftpy2", "thrift", "boto3"} & set(sys.modules)
assert not loaded, loaded
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(f"  {job.name} " in ran.stdout and job.summary in ran.stdout for job in JOBS)


def test_help_shows_each_option_once_and_an_example_that_is_understood() -> None:
    grouped = [name for names in OPTION_GROUPS.values() for name in names]
    assert len(set(grouped)) == len(grouped)
    taken = {option.opts[-1] for job in JOBS for option in job.load().params if isinstance(option, click.Option)}
    assert set(grouped) == taken | {"--version", "--help"}
    for job in JOBS:
        text = called(job.name, "--help").output
        options = {one.opts[-1] for one in job.load().params if isinstance(one, click.Option) and not one.hidden}
        shown = re.findall(r"^  (?:-h, )?(--[a-z-]+)", text, flags=re.MULTILINE)
        assert sorted(shown) == sorted([*options, "--help"])
        _, _, example = text.partition("\nExample:\n  acidlib ")
        name, _, words = command.group.resolve_command(click.Context(command.group), shlex.split(example))
        assert name == job.name
        job.load().make_context(name, words).close()


@pytest.mark.parametrize(
    "queue", [[], ["--queue-url", "sqlite:///q.db"], ["--queue-url", "postgresql+psycopg://u:s3cret@h/queue"]]
)
def test_the_metastores_database_wins_over_a_queue_also_where_it_has_a_password(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, queue: list[str]
) -> None:
    """The driver finds it in a variable then, which counts where no queue is named."""
    url = "postgresql+psycopg://u:s3cret@h/metastore"
    monkeypatch.setenv("ACIDLIB_QUEUE_URL", "sqlite:///another.db")
    monkeypatch.setenv("ACIDLIB_METASTORE_DB", "sqlite:///of-the-environment.db")
    assert called("cleaner", "--metastore-uri", "thrift://h:1", "--metastore-db", url, *queue).exit_code == 0
    assert submitted.behind_the_file == ["cleaner", "--metastore-uri", "thrift://h:1"]
    assert submitted.environment["ACIDLIB_METASTORE_DB"] == url
    assert "ACIDLIB_QUEUE_URL" not in submitted.environment


@pytest.mark.parametrize("columns", [80, 120])
def test_help_is_plain_text_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = called("major-compact", "--help").output
    assert "\x1b" not in text
    lines = text.partition("\nExample:")[0].splitlines()
    assert columns - 10 <= max(map(len, lines)) <= columns


def test_every_file_in_jobs_is_in_the_table() -> None:
    assert {path.stem for path in (ROOT / "jobs").glob("*.py")} == {job.module for job in JOBS if job.file}


@pytest.mark.parametrize(
    ("before", "behind", "of_spark"),
    [
        pytest.param(["--master", "yarn", "-c", "a=b"], [*ALONE, "--max-partitions", "3"], [], id="Spark's come first"),
        pytest.param(["--of-the-future", "x", "--load-spark-defaults"], ["cleaner"], [], id="a later Spark knows more"),
        pytest.param(PLACED, ["doctor"], ["--deploy-mode", "client"], id="what has to stay here is not placed"),
    ],
)
def test_each_gets_its_own_words(
    submitted: Submitted, before: list[str], behind: list[str], of_spark: list[str]
) -> None:
    for asked in ("-h", "--help"):
        ran = called(*before, behind[0], asked)
        assert (ran.exit_code, submitted.words) == (0, []), "help starts no Spark"
        assert ran.output.startswith(f"Usage: acidlib {behind[0]} [OPTIONS]")
    assert called(*before, *behind).exit_code == 0
    assert submitted.of_spark[2:] == [*before, *of_spark, "pyspark-shell"]
    assert submitted.behind_the_file == behind


def test_what_needs_no_spark_is_told_who_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def stub() -> None:
        click.echo(driver_spark_options().login)

    monkeypatch.setattr(Job, "load", lambda job: stub)
    monkeypatch.setattr(os, "environ", {key: text for key, text in os.environ.items() if "GATEWAY" not in key})
    ran = called("--principal", "anna@R", "--keytab=/k", "show")
    assert (ran.exit_code, ran.output) == (0, f"{KerberosLogin(principal='anna@R', keytab='/k')}\n")


WRONG = [
    (["compact"], "No such command 'compact'. Did you mean 'minor-compact' or 'major-compact'?"),
    (["initator"], "No such command 'initator'. Did you mean 'initiator'?"),
    (["xyz"], "No such command 'xyz'."),
    (["--mastr", "yarn", "cleaner"], "spark-submit has no option '--mastr'. Did you mean --master?"),
    (["--dry-run", "cleaner"], "--dry-run stands behind the command, as in: acidlib major-compact --dry-run ..."),
    (["major-compact", "--tabel", "a.b"], "No such option"),
    (["major-compact", "--master", "x"], "--master stands before the command, as in: acidlib --master ... major-com"),
    (["major-compact", "--location", "/t"], "give --write-ids, --write-ids-file or --all-committed"),
    (["minor-compact", "--warehouse", "/w", "--all-committed"], "--warehouse needs --table"),
    (["initiator", "--location", "webhdfs://nn/t", "--all-committed"], "HDFS over HTTP is not supported"),
    (["cleaner", "--set", "x=1"], "Cannot set x: there is no such setting"),
    (["cleaner", "--orphans"], "--orphans needs"),
    (["--master", "yarn", "show"], "show needs no Spark: --master yarn means nothing before it"),
    ([*PLACED, *ALONE, "--no-such-option"], "No such option '--no-such-option'"),
]


@pytest.mark.parametrize(("words", "told"), WRONG)
def test_what_is_wrong_with_words_is_told_before_anything_is_started(
    submitted: Submitted, words: list[str], told: str
) -> None:
    ran = called(*words)
    assert (ran.exit_code, submitted.words) == (2, [])
    assert told in ran.output


def test_where_spark_gives_a_driver_other_variables_words_are_judged_by_themselves(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A metastore may be named there, and with one the table needs no warehouse."""
    words = ("major-compact", "--table", "a.b")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-env.sh").write_text("#!/bin/sh\n# export HIVE_CONF_DIR=/etc/hive/conf\n")
    assert "--table needs --metastore-uri, or --warehouse" in called(*words).output
    (tmp_path / "spark-env.sh").write_text("export HIVE_CONF_DIR=/etc/hive/conf\n")
    assert called(*words).exit_code == 0
    assert submitted.behind_the_file == list(words)
    assert called(*words, "--tabel", "a.b").exit_code == 2


def test_what_the_words_say_to_spark_of_stores_is_what_locations_are_judged_by(submitted: Submitted) -> None:
    words = ("major-compact", "--location", "hdfs:///t", "--all-committed")
    assert "fs.defaultFS is not set" in called(*words).output
    assert called("-c", "spark.hadoop.fs.defaultFS=hdfs://n:8020", *words).exit_code == 0
    assert submitted.behind_the_file == list(words)


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("acidlib mi", {"minor-compact"}),
        ("acidlib major-compact --tab", {"--table", "--table-kind"}),
        ("acidlib --master yarn cleaner --orph", {"--orphans"}),
        ("acidlib show --hi", {"--hive"}),
        ("acidlib --deploy", {"--deploy-mode"}),
        ("acidlib initiator --output ", {"text", "json"}),
    ],
)
def test_a_shell_completes_commands_options_and_values(line: str, completed: set[str]) -> None:
    words = line.split(" ")
    environment = {"_ACIDLIB_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    ran = CliRunner().invoke(command.group, env=environment, prog_name="acidlib")
    assert {answer.rpartition(",")[2] for answer in ran.output.split()} == completed


@pytest.fixture
def run_by_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """What ./spark-submit.sh does with words: the exit status and what is said."""
    monkeypatch.setattr(launch, "start", lambda command, environment: sys.exit(f"started {shlex.join(command)}"))
    monkeypatch.chdir(ROOT)

    def called(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            command.main_of_file(list(words))
        shown = "".join(capsys.readouterr())
        return (0, str(end.value.code)) if isinstance(end.value.code, str) else (end.value.code or 0, shown)

    return called


def test_a_file_of_a_job_is_judged_as_the_command_is(
    run_by_file: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    for words, told in (
        (("jobs/majr_compact.py",), "there is no such file. Did you mean jobs/major_compact.py"),
        (("--mastr", "yarn", "jobs/cleaner.py"), "Did you mean --master?"),
        (("jobs/cleaner.py", "--delete"), "Usage: cleaner.py [OPTIONS]"),
        (("jobs/major_compact.py", "--warehouse", "/w", "--all-committed"), "--warehouse needs --table"),
        (("jobs/status.py", "--tabel"), "No such option"),
    ):
        status, shown = run_by_file(*words)
        assert (status, told in shown) == (2, True), shown
    status, shown = run_by_file("jobs/cleaner.py", "-h")
    assert (status, shown.startswith("Usage: cleaner.py [OPTIONS]")) == (0, True)
    status, shown = run_by_file("-h")
    assert (status, "jobs/status.py " in shown) == (0, True)
    assert run_by_file("jobs/cleaner.py", "--dry-run")[1].endswith("jobs/cleaner.py --dry-run")
    own = tmp_path / "cleaner.py"
    own.write_text("")
    assert run_by_file(str(own), "--warehouse")[1].endswith("--warehouse")


def test_a_driver_that_would_have_its_queue_on_an_unknown_machine_is_not_started(submitted: Submitted) -> None:
    """The driver itself refuses it, too: tests/integration/test_bad_input.py."""
    for words in (ALONE, ("cleaner", "--metastore-uri", "none")):
        error = called(*PLACED, *words).exception
        assert isinstance(error, RefusedError)
        assert str(error) == said(QUEUE_IN_A_FILE)
    told = json.loads(called(*PLACED, *ALONE, "--output", "json").stdout)
    assert (told["job"], told["error"]) == ("major_compact", {"kind": "refused", "message": said(QUEUE_IN_A_FILE)})
    assert submitted.words == []
    for words in ((*ALONE, "--queue-url", "postgresql://q/q"), ("cleaner",), ALONE[:1]):
        assert called(*PLACED, *words).exit_code == 0
        assert submitted.behind_the_file == list(words)


def test_show_with_a_place_shows_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run_job", lambda job, *, words, **_: click.echo(f"{job.module} {words}"))
    assert called("show", "/t", "--all-committed").output == "show_place ['/t', '--all-committed']\n"
    assert called("show", "--blockers").output == "show_compactions ['--blockers']\n"


def test_a_mistake_behind_show_is_answered_in_words_of_show() -> None:
    for words in (("13",), ("x.y", "--metastore-uri", "none"), ("/t", "--tabel", "t")):
        wrong = called("show", *words, "--metastore-uri", "none")
        assert wrong.exit_code == 2
        assert wrong.output.startswith(
            "Usage: acidlib show PLACE [OPTIONS]\nTry 'acidlib show PLACE --help' for help.\n\nError: "
        )
    assert (
        "'13' is no place: give DB.NAME, DB.NAME/K=V or a location; acidlib show lists" in called("show", "13").output
    )
    names = [item.value for item in command.group.shell_complete(click.Context(command.group), "sh")]
    assert names == ["show"]


@pytest.mark.parametrize("again", [command._AGAIN, "acidlib.cli"])
def test_a_run_with_a_log_is_one_of_the_same_words_without_it(monkeypatch: pytest.MonkeyPatch, again: str) -> None:
    called: list[tuple[list[str], Path]] = []

    def logged(words: list[str], path: Path) -> int:
        called.append((words, path))
        return 3

    monkeypatch.setattr(command, "run_logged", logged)
    monkeypatch.setattr(command, "begin", lambda: None)
    words = ["--master", "yarn", "cleaner", "--log-file", "/log", "--trash"]
    monkeypatch.setattr(sys, "argv", ["acidlib", *words])
    run = command.main if again == command._AGAIN else partial(command.main_of_file, words)
    with pytest.raises(SystemExit) as end:
        run()
    assert end.value.code == 3
    ((found, path),) = called
    assert (found[0], path) == (sys.executable, Path("/log"))
    assert again in found
    assert found[-4:] == ["--master", "yarn", "cleaner", "--trash"]


@pytest.mark.parametrize(
    ("job", "option", "is_shown"),
    [
        ("major-compact", "--minor-as-major-bytes", False),
        ("minor-compact", "--minor-as-major-bytes", True),
        ("minor-compact", "--force", False),
        ("initiator", "--force", True),
        ("show PLACE", "--visibility-txn", False),
    ],
)
def test_help_hides_what_has_no_effect_in_a_job(job: str, option: str, is_shown: bool) -> None:
    """It is taken all the same: one set of options serves all jobs of a workflow."""
    assert (option in CliRunner().invoke(command.group, [job, "--help"]).output) is is_shown
