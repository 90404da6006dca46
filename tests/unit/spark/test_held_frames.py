"""What is held is released once: when it is over, and at the end of the interpreter at the latest."""

from __future__ import annotations

import threading
from collections.abc import Callable

from acidlib.spark.holds import HeldSnapshot, Holds


def released_into(names: list[str], name: str) -> Callable[[], None]:
    return lambda: names.append(name)


def test_what_is_over_is_released_once() -> None:
    over, names = threading.Event(), list[str]()
    may_look, looked = threading.Semaphore(0), threading.Semaphore(0)

    def pause(_: threading.Event) -> None:
        looked.release()
        may_look.acquire(timeout=120)

    holds = Holds(pause)
    holds.add(HeldSnapshot(over.is_set, released_into(names, "first")))
    holds.add(HeldSnapshot(lambda: False, released_into(names, "second")))
    assert looked.acquire(timeout=120)
    may_look.release()
    assert looked.acquire(timeout=120)
    assert (names, len(holds)) == ([], 2)
    over.set()
    may_look.release()
    assert looked.acquire(timeout=120)
    assert (names, len(holds)) == (["first"], 1)
    holds.release_all()
    assert (names, len(holds)) == (["first", "second"], 0)
    may_look.release()
    holds.look()
    assert names == ["first", "second"]


def test_the_thread_ends_with_the_last_hold_and_another_begins() -> None:
    names, pauses = list[str](), list[str]()
    holds = Holds(lambda _: pauses.append(threading.current_thread().name))
    for name in ("first", "second"):
        ended = threading.Event()
        holds.add(HeldSnapshot(lambda: True, lambda name=name, ended=ended: (names.append(name), ended.set())[0]))  # type: ignore[misc]  # defaults bind the loop's values
        assert ended.wait(120)
    assert names == ["first", "second"]
    assert set(pauses) == {"acidlib-holds"}


def test_errors_release_and_do_not_stop_the_others() -> None:
    names: list[str] = []

    def broken() -> bool:
        raise ConnectionError("the JVM has ended")

    def unreachable() -> None:
        names.append("tried")
        raise OSError("no metastore")

    holds = Holds(lambda _: threading.Event().wait())  # its thread never looks
    holds.add(HeldSnapshot(broken, released_into(names, "broken")))
    holds.add(HeldSnapshot(lambda: True, unreachable))
    holds.look()
    assert (sorted(names), len(holds)) == (["broken", "tried"], 0)
