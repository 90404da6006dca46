"""The JVM of Spark is a child of the run; a script stands for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acidlib.errors import RetryError
from acidlib.execute import driver_jvm
from acidlib.execute.driver_jvm import DriverJvm
from acidlib.execute.stopping import STOPPING

JVM = """
import os, signal, struct, sys
print("WARNING: Using incubator modules: jdk.incubator.vector", file=sys.stderr)
print("said on standard output", flush=True)
print("said on standard error", file=sys.stderr, flush=True)
if sys.argv[1] == "ends":
    sys.exit(3)
told = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
with open(told + ".new", "wb") as file:
    file.write(struct.pack("!ii", 4711, 6) + b"secret")
os.rename(told + ".new", told)
sys.stdin.read()
open(sys.argv[1], "w").write("ended")
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(STOPPING, "by", None)  # no run of another test is being stopped
    (tmp_path / "jvm.py").write_text(JVM)
    return [sys.executable, str(tmp_path / "jvm.py")]


def test_it_is_reached_and_outlives_what_ends_a_run(
    tmp_path: Path, command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    mark, jvm = tmp_path / "mark", DriverJvm()
    assert jvm.start([*command, str(mark)], os.environ) == (4711, "secret")
    assert jvm._process is not None
    assert os.getsid(jvm._process.pid) == jvm._process.pid, "no terminal reaches it"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(jvm._process.pid, number)
    jvm.end()
    assert (jvm._process.returncode, mark.read_text()) == (0, "ended")
    out, err = capfd.readouterr()
    assert (out, sorted(err.splitlines())) == ("", ["said on standard error", "said on standard output"])
    jvm.end()


def test_one_that_does_not_start_is_told(command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RetryError, match=r"Cannot start Spark: .* has ended with status 3; its output stands above"):
        DriverJvm().start([*command, "ends"], os.environ)
    assert "said on standard error" in capfd.readouterr().err


def test_a_run_that_is_stopped_while_it_starts_leaves_none(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        """There is a process, and the caller does not know it yet."""

        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(driver_jvm, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt), STOPPING.by_signals(lambda _: None, pytest.fail):
        DriverJvm().start([*command, str(tmp_path / "mark")], os.environ)
    try:
        assert [process.returncode for process in started] == [-signal.SIGKILL]
    finally:
        for process in started:
            process.kill()


def test_one_that_is_ended_at_once_has_ended(tmp_path: Path, command: list[str]) -> None:
    jvm = DriverJvm()
    jvm.start([*command, str(tmp_path / "mark")], os.environ)
    jvm.kill()
    assert jvm._process is not None
    assert jvm._process.wait() == -signal.SIGKILL
    assert not (tmp_path / "mark").exists()
