"""How a job is started: the words and variables of its driver, the log of its output, and where its lines go."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acidlib.cli import launch
from acidlib.cli.launch import (
    IN_A_CONTAINER,
    assignments,
    driver,
    log_file,
    queue_of_yarn,
    run_logged,
    tell_starting,
    without_passwords,
)
from acidlib.documents import ROOT
from acidlib.errors import RetryError, UsageError
from acidlib.execute.spark_options import SUBMIT_ARGS, SparkOptions
from acidlib.processes import has_ended
from acidlib.report.progress import ERROR, INFO, NOTE, WARNING, LogFormat, LogLines

ARCHIVE = "--archives /tmp/a.tar.gz#environment"
LOG = ("--driver-java-options", "-Dlog4j2.configurationFile=file:/conf/log4j2.properties")
LOCAL = (LOG[0], f"{LOG[1]} -XX:TieredStopAtLevel=1")


class Submitted:
    """The command line of a job, and the variables of its environment."""

    def __init__(self, line: str, words: tuple[str, ...] = ("job.py", "--x"), **environment: str) -> None:
        how: dict[str, Any] = {"python": "/env/bin/python", "log4j": Path("/conf/log4j2.properties"), "checkout": None}
        how |= {name: environment.pop(name) for name in ("python", "checkout", "queue") if name in environment}
        given = {"SPARK_HOME": "/spark"} | environment
        self.command, self.environment = driver(SparkOptions(tuple(line.split())), words, given, **how)


def of_spark(found: Submitted) -> list[str]:
    """The words for the JVM that the driver starts."""
    return shlex.split(found.environment[SUBMIT_ARGS])


def test_a_driver_here_is_python_and_is_told_how_to_start_spark() -> None:
    found = Submitted("--master local[2]", HOME="/h")
    assert found.command == ["/env/bin/python", "job.py", "--x"]
    assert of_spark(found) == [*LOCAL, "--master", "local[2]", "pyspark-shell"]
    assert {name: text for name, text in found.environment.items() if name != SUBMIT_ARGS} == {
        "HOME": "/h",
        "SPARK_HOME": "/spark",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": "/env/bin/python",
    }


def test_a_driver_elsewhere_is_started_by_spark_and_told_nothing_of_this_machine() -> None:
    words = ("--master", "yarn", "--deploy-mode", "cluster")
    found = Submitted(" ".join(words))
    assert found.command == ["/spark/bin/spark-submit", *words, "job.py", "--x"]
    assert SUBMIT_ARGS not in found.environment
    found = Submitted(f"--master yarn --deploy-mode cluster {ARCHIVE}")
    assert not any("/env/" in word or "/conf/" in word for word in (*found.command, *found.environment.values()))
    assert "spark.pyspark.python=./environment/bin/python" in found.command


def test_what_is_stated_is_not_changed() -> None:
    stated = {"SPARK_HOME": "/s", "SPARK_LOCAL_IP": "::1", "PYSPARK_PYTHON": "p", "PYSPARK_DRIVER_PYTHON": "d"}
    for line in ("", "--master yarn", f"--master yarn {ARCHIVE}"):
        found = Submitted(line, **stated)
        assert found.environment == {**stated, SUBMIT_ARGS: found.environment[SUBMIT_ARGS]}
        assert of_spark(found) == [*(LOG if line else LOCAL), *line.split(), "pyspark-shell"]
        assert found.command == ["d", "job.py", "--x"]
    by_property = Submitted("--conf spark.pyspark.driver.python=/p", **stated)
    assert by_property.command[0] == "/p", "as in spark-submit"


def test_variables_of_spark_env_are_those_of_the_driver_too(tmp_path: Path) -> None:
    """As where spark-submit starts it: HADOOP_CONF_DIR stands there on many clusters."""
    script = tmp_path / "bin" / "load-spark-env.sh"
    script.parent.mkdir()
    script.write_text("echo loaded\nexport HADOOP_CONF_DIR='of spark'\n")
    shows = "import os, sys; print(os.environ['HADOOP_CONF_DIR'], sys.argv[1:])"
    conf = tmp_path / "conf" / "spark-env.sh"
    conf.parent.mkdir()
    conf.write_text("export HADOOP_CONF_DIR='of spark'\n")
    variables = {name: text for name, text in os.environ.items() if not name.startswith("SPARK_")}
    variables |= {"SPARK_HOME": str(tmp_path), "python": sys.executable}
    found = Submitted("", ("-c", shows, "a b"), **variables)
    ran = subprocess.run(found.command, env=found.environment, check=True, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("of spark ['a b']\n", "loaded\n")


@pytest.mark.parametrize(
    ("line", "address"),
    [("", "127.0.0.1"), ("--master local[2]", "127.0.0.1"), ("--master spark://one:7077", ""), ("--master yarn", "")],
)
def test_the_driver_can_be_reached_from_a_cluster(line: str, address: str) -> None:
    """An address that only its own machine has is for executors that are there, too."""
    assert Submitted(line, SPARK_LOCAL_IP="").environment["SPARK_LOCAL_IP"] == address


def test_executors_have_the_python_of_the_archive_and_the_driver_its_own() -> None:
    found = Submitted(f"--master yarn {ARCHIVE}")
    assert "spark.pyspark.python=./environment/bin/python" in of_spark(found)
    assert found.environment["PYSPARK_PYTHON"] == "./environment/bin/python", "a driver here looks at nothing else"
    assert found.command[0] == "/env/bin/python"
    named = Submitted(f"--master yarn {ARCHIVE} --conf spark.pyspark.python=/p", PYSPARK_PYTHON="/other")
    assert of_spark(named).count("--conf") == 1
    assert named.environment["PYSPARK_PYTHON"] == "/p", "as in spark-submit"
    here = Submitted(ARCHIVE)
    assert "--conf" not in of_spark(here), "on this machine it is not unpacked where Python is started"
    assert here.environment["PYSPARK_PYTHON"] == "/env/bin/python"


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        ("--master yarn", "", "/src"),
        ("", "/other:/src", "/src:/other"),
        (f"--master yarn {ARCHIVE}", "/src:/other", "/other"),
        ("--master yarn --archives x.zip", "/src", ""),
        ("--conf spark.yarn.dist.archives=x.zip", "/src", ""),
    ],
)
def test_a_checkout_stands_first_but_never_before_an_archive(line: str, before: str, after: str) -> None:
    assert Submitted(line, checkout="/src", PYTHONPATH=before).environment.get("PYTHONPATH", "") == after
    assert Submitted(line, PYTHONPATH=before).environment["PYTHONPATH"] == before


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
    if queue:
        command = Submitted(line, queue=queue).command
        assert command[command.index("--queue") + 1] == queue
        assert command.index("--queue") < command.index("job.py")


SAYS = """
import sys
print("result")
sys.stderr.write(open(sys.argv[1]).read())
sys.exit(int(sys.argv[2]))
"""


def run(tmp_path: Path, said: str, status: int = 0) -> tuple[int, str]:
    """The exit status, and the log."""
    (tmp_path / "said").write_text(said)
    got = run_logged([sys.executable, "-c", SAYS, str(tmp_path / "said"), str(status)], tmp_path / "log")
    return got, (tmp_path / "log").read_text()


@pytest.fixture(autouse=True)
def signals() -> object:
    """As they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("words", "rest", "path"),
    [
        ("--master yarn show", "--master yarn show", None),
        ("cleaner --log-file /l --trash", "cleaner --trash", "/l"),
        ("cleaner --log-file=/l --trash", "cleaner --trash", "/l"),
        ("cleaner --log-file-format x", "cleaner --log-file-format x", None),
    ],
)
def test_the_option_is_taken_out_of_the_words(words: str, rest: str, path: str | None) -> None:
    assert log_file(words.split()) == (rest.split(), None if path is None else Path(path))
    with pytest.raises(UsageError, match="needs the name of a file"):
        log_file([*rest.split(), "--log-file"])


@pytest.mark.parametrize("form", LogFormat)
def test_lines_that_tell_of_a_problem_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], form: LogFormat
) -> None:
    lines = LogLines(format=form, job="cleaner", run_id="r")
    bad = [lines.line(f"it is {level}", level=level, place="d.t") + "\n" for level in (WARNING, ERROR)]
    good = [lines.line(f"it is {level}", level=level, place="d.t") + "\n" for level in (INFO, NOTE)]
    said = [
        "WARNING: Using incubator modules: x\n",
        good[0],
        bad[0],
        "02:10:00 ERROR TaskSetManager: x\n",
        bad[1],
        good[1],
    ]
    for status in (0, 3):
        (tmp_path / "log").unlink(missing_ok=True)
        assert run(tmp_path, "".join(said), status) == (status, "result\n" + "".join(said))
        assert capfd.readouterr() == ("", "".join(bad))
    assert run(tmp_path, "all is well\n") == (0, "result\n" + "".join(said) + "result\nall is well\n")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("ends", "status"),
    [("sys.exit('Traceback ...')", 1), ("os.kill(os.getpid(), 9)", 137)],
    ids=["a run that fails", "a run that is killed"],
)
def test_what_ends_in_silence_is_told_with_the_status_that_is_returned(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], ends: str, status: int
) -> None:
    log = tmp_path / "log"
    assert run_logged([sys.executable, "-c", f"import os, sys; {ends}"], log) == status
    assert capfd.readouterr() == ("", f"error: the run ended with exit status {status}; {log} has its output\n")


def test_a_process_that_outlives_the_run_does_not_hold_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps standard error open."""
    monkeypatch.setattr(launch, "_END_SECONDS", 0.1)
    pid = tmp_path / "pid"
    assert run_logged(["sh", "-c", f"sleep 600 & echo $! > {pid}; exit 3"], tmp_path / "log") == 3
    os.kill(int(pid.read_text()), signal.SIGKILL)  # it has not ended by itself


def test_a_log_that_cannot_be_written_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(RetryError, match=r"Cannot write .*: the operating system said: No such file"):
        run_logged([sys.executable, "-c", f"open({str(tmp_path / 'begun')!r}, 'w')"], tmp_path / "none" / "log")
    assert not (tmp_path / "begun").exists()


LOGGED = """
import sys
from pathlib import Path
from acidlib.cli.launch import run_logged
sys.exit(run_logged([sys.executable, "-c", *sys.argv[2:]], Path(sys.argv[1])))
"""
WAITS = """
import os, signal, sys, time
from acidlib.processes import process_identity
def ended(number, _):
    print("stopped by", number, flush=True)
    sys.exit(7)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, ended)
os.mkfifo(sys.argv[1])
open(sys.argv[1], "w").write(process_identity())
time.sleep(60)
"""


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command with a log and its child, which waits for a signal, by its identity."""
    fifo = tmp_path / "begun"
    words = [sys.executable, "-c", LOGGED, str(tmp_path / "log"), WAITS, str(fifo)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        while not fifo.exists():
            assert process.poll() is None
            time.sleep(0.01)
        yield process, fifo.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_the_runs_to_understand(
    tmp_path: Path, logged: tuple[subprocess.Popen[str], str], number: signal.Signals
) -> None:
    process, _ = logged
    process.send_signal(number)
    _, told = process.communicate()
    assert process.returncode == 7
    assert told.startswith("error: the run ended with exit status 7; ")
    assert (tmp_path / "log").read_text() == f"stopped by {number.value}\n", "it is passed on once"


def test_of_a_command_that_is_killed_the_run_is_stopped_in_order(
    tmp_path: Path, logged: tuple[subprocess.Popen[str], str]
) -> None:
    process, child = logged
    process.kill()
    end = time.monotonic() + 30
    while not has_ended(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert (tmp_path / "log").read_text() == f"stopped by {signal.SIGTERM.value}\n"


DRIVER = """
import os, sys
from acidlib.cli.launch import restore_standard_error
restore_standard_error(os.environ)
print("result")
print("line", file=sys.stderr)
"""
# as the JVM above a driver does it: the streams of the driver are one, and it goes on to write
ABOVE = """
import os, subprocess, sys
os.write(2, b"before ")
ran = subprocess.run([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
os.write(1, ran.stdout)
os.write(2, b"and after, for long")
"""


@pytest.mark.parametrize(
    ("mode", "in_container", "stderr", "own"),
    [
        ("wb", True, "before and after, for long", "line\n"),
        ("ab", True, "before line\nand after, for long", None),
        ("ab", False, "before line\nand after, for long", None),
    ],
)
def test_a_line_is_not_written_over(
    tmp_path: Path, mode: str, in_container: bool, stderr: str, own: str | None
) -> None:
    environment = {"PYSPARK_GATEWAY_PORT": "1", "PYTHONPATH": str(ROOT)}
    if in_container:
        environment["LOG_DIRS"] = f"{tmp_path},/elsewhere"
    with (tmp_path / "stderr").open(mode) as file:
        ran = subprocess.run(
            [sys.executable, "-c", ABOVE, DRIVER], env=environment, stdout=subprocess.PIPE, stderr=file
        )
    assert ran.stdout == b"result\n"
    assert (tmp_path / "stderr").read_text() == stderr
    path = tmp_path / IN_A_CONTAINER
    assert (path.read_text() if path.exists() else None) == own


@pytest.mark.parametrize(("is_terminal", "told"), [(True, "starting Spark …\n"), (False, "")])
def test_the_first_word(monkeypatch: Any, capsys: Any, is_terminal: bool, told: str) -> None:
    monkeypatch.setattr(os, "isatty", lambda _: is_terminal)
    tell_starting("Spark")
    assert capsys.readouterr() == ("", told)


def test_a_password_of_the_queue_is_no_word_of_the_driver(tmp_path: Path) -> None:
    """Nor can other users read the log, which names all tables."""
    url = "postgresql://u:s3cret@h/d"
    for option, variable in (("--queue-url", "ACIDLIB_QUEUE_URL"), ("--metastore-db", "ACIDLIB_METASTORE_DB")):
        for words in ([option, url], [f"{option}={url}"]):
            left = without_passwords(["--table", "t", *words, "--dry-run"])
            assert left == (["--table", "t", "--dry-run"], {variable: url})
    plain = ["--queue-url", "sqlite:////q.db", "--metastore-db=postgresql://u@h/d"]
    assert without_passwords(plain) == (plain, {})
    before = os.umask(0)
    try:
        run_logged([sys.executable, "-c", ""], tmp_path / "log")
    finally:
        os.umask(before)
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
