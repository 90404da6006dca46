"""A process of tests that ends in the middle of one holds up no other test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from scheduling import TogetherScheduling
from xdist.scheduler import LoadScopeScheduling

FILES = {"a": 4, "b": 3, "c": 3, "d": 1}
TESTS = [f"tests/test_{file}.py::test_{number}" for file, count in FILES.items() for number in range(count)]


class Process:
    """A process that has the collected tests, and notes which it is given."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[str] = []
        self.shutting_down = False

    def send_runtest_some(self, places: list[int]) -> None:
        assert places, "it would wait for ever"
        self.given += [TESTS[place] for place in places]

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduling(processes: int) -> tuple[LoadScopeScheduling, list[Any]]:
    options = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(getvalue=lambda name: ["popen"] * processes, option=options, rootpath=None)
    made = TogetherScheduling(config)
    nodes = [Process(f"gw{number}") for number in range(processes)]
    for node in nodes:
        joined(made, node)
    made.schedule()
    return made, nodes


def joined(made: LoadScopeScheduling, node: Any) -> None:
    made.add_node(node)
    made.add_node_collection(node, TESTS)


def runs(made: LoadScopeScheduling, node: Any) -> list[str]:
    """Let a process run all that it is given."""
    done = 0
    while done < len(node.given):
        assert node.shutting_down or done + 1 < len(node.given), "it does not begin before it knows what comes after"
        made.mark_test_complete(node, TESTS.index(node.given[done]))
        done += 1
    return list(node.given)


def test_another_process_runs_what_it_leaves() -> None:
    made, (one, other) = scheduling(2)
    assert one.given[:4] == TESTS[:4]
    for place in range(4):
        made.mark_test_complete(one, TESTS.index(one.given[place]))
    assert made.remove_node(one) == one.given[4]
    assert sorted([*one.given[:5], *runs(made, other)]) == TESTS


def test_a_process_in_its_place_runs_what_it_leaves() -> None:
    made, (one,) = scheduling(1)
    for place in range(5):
        made.mark_test_complete(one, TESTS.index(one.given[place]))
    assert made.remove_node(one) == one.given[5]
    new: Any = Process("gw1")
    joined(made, new)
    made.schedule()
    assert sorted([*one.given[:6], *runs(made, new)]) == TESTS
    assert made.remove_node(new) is None
