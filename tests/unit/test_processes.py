"""Which processes are known to have ended."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from acidlib import processes
from acidlib.processes import has_ended, process_identity, processor_seconds, signed, signer_has_ended

SAY = (
    "import sys, acidlib.processes as p; print(p.process_identity(), p.signed('w-h.1-7'), flush=True); sys.stdin.read()"
)


def test_one_that_runs_one_that_is_killed_and_one_that_nobody_has_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", SAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        identity, name = child.stdout.readline().split()
        assert identity.split(".")[1] == str(child.pid)
        assert not has_ended(identity)
        assert (name, signer_has_ended(name)) == (f"w-h.1-7.{identity}", False)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it stays as a zombie
        assert has_ended(identity)
    assert has_ended(identity)
    assert signer_has_ended(name)


@pytest.mark.parametrize("name", ["", "w", "w-h.1-7", "hive-host.example.org-12", "-."])
def test_of_a_name_without_a_signature_nothing_is_known(name: str) -> None:
    assert not signer_has_ended(name)


@pytest.mark.parametrize(
    ("identity", "ended"),
    [
        pytest.param("{0}.{1}.{2}", False, id="this one runs"),
        pytest.param("{0}.{1}.{before}", True, id="its number was used again"),
        pytest.param(f"{'0' * 16}.{{1}}.{{before}}", False, id="another machine or boot is not known"),
        *((text, False) for text in ("", ".", "..", "a", "a.b.c", "{0}.x.5", "{0}.-1.5", "{0}..")),
        ("{0}.99999999999999999.1", False),
    ],
)
def test_what_is_known_to_have_ended(identity: str, ended: bool) -> None:
    own = process_identity().split(".")
    assert has_ended(identity.format(*own, before=int(own[2]) - 1)) is ended


def test_what_may_not_be_seen_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another user, and /proc hides it (hidepid)."""
    surroundings, _, _ = process_identity().split(".")

    def refused(pid: int, number: int) -> None:
        raise PermissionError(pid, number)

    monkeypatch.setattr(processes.os, "kill", refused)
    monkeypatch.setattr(processes, "_state_and_start", lambda pid: None)
    assert not has_ended(f"{surroundings}.1.1")


def test_where_the_system_provides_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = process_identity()
    monkeypatch.setattr(processes, "_surroundings", lambda: None)
    assert (process_identity(), signed("w-h-7")) == ("", "w-h-7")
    assert not has_ended(identity)


def test_the_seconds_of_a_thread_grow_while_it_computes() -> None:
    me = threading.get_native_id()
    (before, _), start = processor_seconds(me), time.thread_time()
    while processor_seconds(me)[0] - before < 0.05:  # the system tells it a while later
        assert time.thread_time() - start < 5
