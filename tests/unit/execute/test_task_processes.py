"""Processes of tasks: what ends one is the error of its task, and they end with the program, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import process_tasks
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judges import tables
from located import at
from waits import until

from acidlib.errors import ConflictError, DefectError, HangingError, OverMemoryError, RetryError
from acidlib.execute import task_processes
from acidlib.execute.task import Task
from acidlib.execute.task_processes import NURSERY, TaskProcesses
from acidlib.execute.tasks import tally_task
from acidlib.memory import Memory
from acidlib.model.units import DataFile, FileForm, JoinWay
from acidlib.stores.stores import Stores
from acidlib.verify.tally import PlainView
from acidlib.waiting import in_time

TESTS = Path(__file__).parents[2]


def task(work: Callable[[str], Any], where: str = "/w/t/base_5/bucket_00000") -> Task:
    return Task(work, 0, "rewrite", where)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_process_does_one_task_after_another_and_ends_with_the_run() -> None:
    with TaskProcesses(1) as processes:
        ((first, second),) = processes.run_batches([[task(process_tasks.where)] * 2], group="g")
        ((third,),) = processes.run_batches([[task(process_tasks.where)]], group="g")
        assert first == second == third
        pid, thread, is_run_again = first
        assert (pid != os.getpid(), thread, is_run_again) == (True, "MainThread", False)
    until(lambda: not is_running(pid))


def test_tasks_run_at_the_same_time(tmp_path: Path) -> None:
    one, other = str(tmp_path / "1"), str(tmp_path / "2")
    with TaskProcesses(2) as processes:
        both = [[task(partial(process_tasks.meets, one, other))], [task(partial(process_tasks.meets, other, one))]]
        assert processes.run_batches(both, group="two") == [[True], [True]]


def test_errors_come_back_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    works = [process_tasks.raised, process_tasks.unexpected, process_tasks.unsendable, lambda _: 1]
    monkeypatch.setenv("ACIDLIB_A_TEST", "as it is now")
    with TaskProcesses(1) as processes:
        tasks = [*map(task, works), task(partial(process_tasks.variable, "ACIDLIB_A_TEST"))]
        ((raised, unexpected, unsendable, unknown, said),) = processes.run_batches([tasks], group="g")
    assert (type(raised), str(raised)) == (ConflictError, "Cannot do it: another one does")
    assert (type(unexpected), str(unexpected)) == (DefectError, "Cannot finish a task: unexpected IndexError: 7")
    assert (type(unsendable), type(unknown)) == (DefectError, DefectError)
    assert said == "as it is now"


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (process_tasks.wild, "its process was ended by SIGSEGV"),
        (
            partial(process_tasks.killed, signal.SIGKILL),
            "its process was ended by SIGKILL; perhaps memory ran out, which the log of the kernel says",
        ),
        (partial(process_tasks.killed, signal.SIGRTMIN + 2), f"its process was ended by signal {signal.SIGRTMIN + 2}"),
        (partial(process_tasks.ended, 3), "its process has ended with status 3"),
    ],
)
def test_what_ends_a_process_is_the_error_of_its_task_alone(work: Callable[[str], Any], reason: str) -> None:
    with TaskProcesses(1) as processes:
        ((before, error, after),) = processes.run_batches(
            [[task(process_tasks.where), task(work), task(process_tasks.where)]], group="g"
        )
    assert type(error) is RetryError
    assert str(error) == f"Cannot finish /w/t/base_5/bucket_00000 (rewrite): {reason}"
    assert before[0] != after[0], "a new process does the next task"


def test_a_task_that_hangs_is_an_error_and_its_process_does_no_other(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    hanging = partial(in_time, partial(process_tasks.hangs, str(pipe)), 0.5)
    with TaskProcesses(1) as processes:
        ((before, error, after),) = processes.run_batches(
            [[task(process_tasks.where), task(hanging), task(process_tasks.where)]], group="g"
        )
        assert type(error) is HangingError
        assert str(error).startswith(f"Cannot read {pipe}: there has been no answer for ")
        assert before[0] != after[0]
        until(lambda: not is_running(before[0]))


# --- memory that libraries take --------------------------------------------------------------------------------------

SMALL = Memory(16 << 20)
MOST = f"it took more than {SMALL.barrier:,} bytes of memory, and acidlib.task.memory is 16,777,216"
ROWS = 1000
"""So many texts of 320,000 bytes are more than the barrier, and in a file next to nothing."""


def test_a_task_is_held_to_its_barrier_and_the_next_one_is_not() -> None:
    more = SMALL.barrier + (64 << 20)
    works = [(partial(process_tasks.takes, size), memory) for size, memory in ((more, SMALL), (more, None), (9, SMALL))]
    with TaskProcesses(1) as processes:
        tasks = [Task(work, 0, "verify", "bucket 0 of /t", memory) for work, memory in works]
        ((refused, taken, less),) = processes.run_batches([tasks], group="g")
    assert (type(refused), taken, less) == (OverMemoryError, more, 9)
    assert str(refused) == f"Cannot read bucket 0 of /t: {MOST}"


def tallied(data: bytes, path: Path, way: JoinWay, memory: Memory) -> Any:
    """The tally of a file by the second reader, in a process of tasks; or its error."""
    path.write_bytes(data)
    file = DataFile(path=path.name, directory="", length=len(data), bucket=0, form=FileForm.ORIGINAL)
    view = PlainView(location=at(path.parent), bucket=0, files=((file, way),))
    work = Task(partial(tally_task, view, Stores(memory=memory)), 0, "verify", "bucket 0 of /t", memory)
    with TaskProcesses(1) as processes:
        ((answer,),) = processes.run_batches([[work]], group="g")
    return answer


def stripes(size: int) -> bytes:
    layout = tables.Layout(batch=64, block=1 << 18)
    return tables.orc_bytes("struct<s:string>", ((("x" * size),) for _ in range(ROWS)), layout)


def parquet(column: pa.Array, **options: Any) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"s": column}), out, compression="zstd", store_schema=False, write_statistics=False, **options
    )
    return bytes(out.getvalue())


def dictionary(size: int) -> bytes:
    return parquet(pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), ["x" * size]))


def page(size: int) -> bytes:
    return parquet(pa.array(["x" * size * ROWS]), use_dictionary=False)


@pytest.mark.parametrize(
    ("make", "way", "reason"),
    [
        (stripes, JoinWay.STRIPES, "Cannot finish bucket 0 of /t (verify): its process was ended by SIGSEGV; perhaps "),
        (dictionary, JoinWay.ROW_GROUPS, "Cannot read bucket 0 of /t: "),
        (page, JoinWay.ROW_GROUPS, "Cannot read bucket 0 of /t: "),
    ],
)
def test_a_library_that_takes_too_much_fails_its_task_alone(
    make: Callable[[int], bytes], way: JoinWay, reason: str, tmp_path: Path
) -> None:
    """The libraries of the second reader have no limit of their own; ORC's does not look whether it gets memory."""
    data, honest = make(320_000), make(1000)
    assert len(data) < 4_000_000
    error = tallied(data, tmp_path / "000000_0", way, SMALL)
    assert str(error) == f"{reason}{MOST}"
    assert tallied(honest, tmp_path / "000000_0", way, SMALL).rows in (1, ROWS)


def test_a_process_that_is_killed_while_it_has_no_task_is_replaced() -> None:
    with TaskProcesses(1) as processes:
        (((pid, *_),),) = processes.run_batches([[task(process_tasks.where)]], group="g")
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_running(pid))
        until(lambda: not processes._idle[0].is_alive())
        (((other, *_),),) = processes.run_batches([[task(process_tasks.where)]], group="g")
        assert other != pid


def test_a_cancel_ends_the_tasks_that_run_and_begins_no_other(tmp_path: Path) -> None:
    begun, answers = tmp_path / "begun", list[Any]()
    with TaskProcesses(1) as processes:
        tasks = [task(partial(process_tasks.stays, str(begun))), task(process_tasks.where)]
        thread = threading.Thread(target=lambda: answers.extend(processes.run_batches([tasks], group="two")))
        thread.start()
        until(lambda: begun.exists() and begun.read_text())
        processes.cancel()
        thread.join(60)
        assert [[str(answer) for answer in batch] for batch in answers] == [
            ["Cannot finish two: the run was stopped before"] * 2
        ]
        (((pid, *_),),) = processes.run_batches([[task(process_tasks.where)]], group="a later job")
        assert pid != int(begun.read_text())


def test_where_the_nursery_is_killed_its_processes_end_and_another_is_started(tmp_path: Path) -> None:
    begun, answers = tmp_path / "begun", list[Any]()
    with TaskProcesses(1) as processes:
        tasks = [task(partial(process_tasks.stays, str(begun))), task(process_tasks.where)]
        thread = threading.Thread(target=lambda: answers.extend(processes.run_batches([tasks], group="two")))
        thread.start()
        until(lambda: begun.exists() and begun.read_text())
        started = NURSERY._started
        assert started is not None
        started.kill()
        thread.join(60)
    ((error, then),) = answers
    assert str(error).endswith("its process has ended, together with the one that it was forked from")
    assert then[0] != int(begun.read_text())
    until(lambda: not is_running(int(begun.read_text())))


def test_a_process_that_does_not_start_is_an_error_of_each_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_processes, "NURSERY", task_processes._Nursery(lambda _: ["/nowhere/python"]))
    with TaskProcesses(1) as processes:
        (answers,) = processes.run_batches([[task(process_tasks.where)] * 2], group="g")
    assert [type(answer) for answer in answers] == [RetryError] * 2
    assert str(answers[0]).startswith(f"Cannot start a process for tasks: {sys.executable} -m acidlib.execute.")


@pytest.mark.parametrize("way", ["kill -9", "fork"])
def test_they_end_with_the_program_however_it_ends(tmp_path: Path, way: str) -> None:
    """Also where it has forked a process that goes on."""
    begun, forked = tmp_path / "begun", tmp_path / "forked"
    program = f"""
import os, signal, sys, threading, time
from functools import partial
from pathlib import Path
import process_tasks
from acidlib.execute.task import Task
from acidlib.execute.task_processes import NURSERY, TaskProcesses
from acidlib.execute.tasks import tally_task
from acidlib.stores.stores import Stores
from acidlib.verify.tally import PlainView

work = Task(partial(process_tasks.stays, {str(begun)!r}), 0)
threading.Thread(target=lambda: TaskProcesses(1).run_batches([[work]], group="g"), daemon=True).start()
while not Path({str(begun)!r}).exists() or not Path({str(begun)!r}).read_text():
    time.sleep(0.01)
if {way == "fork"!r} and not (child := os.fork()):
    Path({str(forked)!r}).write_text(str(os.getpid()))
    time.sleep(60)
    os._exit(0)
print(NURSERY._started.pid, flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": f"{TESTS.parent}:{TESTS}"},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout as out:
        nursery = int(out.readline())
    until(lambda: way != "fork" or (forked.exists() and forked.read_text()))
    process.kill()
    process.wait()
    for pid in (nursery, int(begun.read_text())):
        until(lambda pid=pid: not is_running(pid))
    if way == "fork":
        os.kill(int(forked.read_text()), signal.SIGKILL)


def test_the_program_is_not_run_again(tmp_path: Path) -> None:
    """A script without a guard, as from standard input; and its signals reach it alone."""
    program = """
import signal
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
import process_tasks
from acidlib.execute.task import Task
from acidlib.execute.task_processes import TaskProcesses
print("run", flush=True)
with TaskProcesses(1) as processes:
    (((pid, _, again),),) = processes.run_batches([[Task(process_tasks.where, 0)]], group="g")
    import os
    os.killpg(0, signal.SIGINT)
    (((same, _, _),),) = processes.run_batches([[Task(process_tasks.where, 0)]], group="g")
    print(pid == same, again)
"""
    ran = subprocess.run(
        [sys.executable, "-"], input=program, env=os.environ | {"PYTHONPATH": f"{TESTS.parent}:{TESTS}"}, cwd=tmp_path,
        capture_output=True, text=True, check=False, start_new_session=True,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.splitlines(), ran.stderr) == (0, ["run", "interrupted", "True False"], "")
