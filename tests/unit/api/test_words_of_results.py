"""What a program's calls return, raise and show names what a program writes, and not the options of the command."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conformance.hive_tables import FIXTURES
from judges import merge

import acidlib
from acidlib.arguments import YES
from acidlib.model.requests import CompactionRequest, CompactionType, RequestFacts
from acidlib.model.tables import TableRef

STYLE = re.compile("<style>.*</style>", re.DOTALL)


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> acidlib.Lake:
    monkeypatch.setenv("ACIDLIB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    merge.overlay(tmp_path / "w" / "sales.db" / "orders", FIXTURES / "hive3" / "a_crud" / "before")
    merge.overlay(tmp_path / "w" / "sales.db" / "visits", FIXTURES / "hive3" / "b_part" / "before")
    merge.overlay(tmp_path / "w" / "sales.db" / "stream", FIXTURES / "hive3" / "j_stream" / "before")
    merge.overlay(tmp_path / "w" / "sales.db" / "notes", FIXTURES / "hive3" / "h2_mm_part" / "before")
    return acidlib.warehouse(tmp_path / "w", all_committed=True, of_each=True)


CALLS: dict[str, tuple[Callable[[acidlib.Lake], Any], str]] = {
    "a limit": (
        lambda lake: lake.plan("minor", tables="sales.visits", max_partitions=1),
        "max_partitions 1 is reached",
    ),
    "no request": (lambda lake: lake.cancel(77), "see queue()"),
    "no metastore": (lambda lake: lake.compact("rebalance", tables="sales.orders"), "metastore of acidlib.connect()"),
    "an error in another": (lambda lake: lake.undo(77), "queue(), or name the queue with queue of acidlib.warehouse()"),
    "an error as a note": (
        lambda lake: lake.plan("major", tables="sales.none", if_exists=True),
        "nothing is done there, as if_exists says",
    ),
    "nothing to clean": (
        lambda lake: lake.clean(tables="sales.notes"),
        "name the queue in which the compaction was requested with queue of acidlib.warehouse()",
    ),
    "a table of many": (lambda lake: lake.plan("major", tables="sales.*"), "text_pieces(details=True) tells more"),
    "a kind that would be stated of all": (
        lambda lake: lake.plan("major", tables="sales.*"),
        "name it alone, by acidlib.directory() with table_kind; exclude leaves it out of a run for several",
    ),
    "the kind of one": (
        lambda lake: acidlib.directory(f"{str(lake)[7:-1]}/sales.db/notes", all_committed=True).plan("major"),
        "give table_kind of acidlib.directory()",
    ),
    "nothing that is idle": (lambda lake: lake.files(idle="1d"), "7 places are left out: something in it is younger"),
    "a queue without idle requests": (
        lambda _: acidlib.connect("none").compact("major", idle="1d"),
        "and there is none; tables names",
    ),
    "a check": (lambda _: acidlib.connect("none").doctor(), "locations names one"),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_text_names_an_option_of_the_command(name: str, lake: acidlib.Lake) -> None:
    call, part = CALLS[name]
    try:
        result = call(lake)
    except acidlib.AcidError as error:
        texts = [str(error), f"{error}", str(pickle.loads(pickle.dumps(error)))]
    else:
        texts = [str(result), *result.json_pieces(), STYLE.sub("", result._repr_html_())]
        assert str(pickle.loads(pickle.dumps(result))) == texts[0]
    assert part in " ".join(texts[0].split())
    assert [line for text in texts for line in text.splitlines() if " --" in line or "\x02" in line] == []


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda w: acidlib.warehouse(w, all_committed=True).compact("major", tables="sales.*"),
            "Cannot take everything",
        ),
        (lambda w: visits(w, all_committed=True).plan("major", partitions="day=1"), "'day' is no partition key"),
        (lambda w: visits(w, all_committed=True).to_arrow(partitions="day=1"), "is no partition key"),
        (lambda w: visits(w, write_ids_file=w / "none").plan("major"), "there is no such file"),
        (lambda w: visits(w, write_ids_file=w).plan("major"), "it is a directory"),
        (lambda w: visits(w, write_ids_file=Path(__file__)).plan("major"), "Cannot use the write-id lists"),
        (lambda w: acidlib.warehouse(w, all_committed=True).compact("rebalance", tables="sales.orders"), "rebalance"),
    ],
)
def test_what_the_caller_wrote_and_has_to_change_is_usage(
    lake: acidlib.Lake, tmp_path: Path, call: Callable[[Path], Any], told: str
) -> None:
    """What has to change in a table, in settings of files or around the program is refused, and no usage."""
    del lake
    with pytest.raises(acidlib.UsageError, match=told):
        call(tmp_path / "w")


def test_a_snapshot_says_what_it_is_of(lake: acidlib.Lake, tmp_path: Path) -> None:
    with visits(tmp_path / "w", all_committed=True).snapshot(columns=["id"], partitions="dt=*-02") as snapshot:
        assert repr(snapshot) == f"<Snapshot: {snapshot.scan.table}, 1 column, {len(snapshot.splits)} splits, open>"
    assert repr(snapshot).endswith(", closed>")
    assert snapshot.scan.table in repr(lake.table("sales.visits"))


def visits(root: Path, **options: Any) -> acidlib.Table:
    return acidlib.directory(root / "sales.db" / "visits", **options)


def test_what_is_shown_meanwhile_has_the_same_words(lake: acidlib.Lake) -> None:
    steps: list[acidlib.Step] = []
    lake.plan("major", tables="sales.stream", progress=steps.append)
    (note,) = [step.note for step in steps if step.level == "warning"]
    assert note is not None
    assert note.startswith("all_committed of acidlib.warehouse() may not be so")


def test_what_is_stored_has_the_words_of_the_command() -> None:
    """The command shows it as well, and so do Hive and other programs."""
    text = f"Cannot go on: give {YES}"
    request = CompactionRequest(
        id=1,
        ref=TableRef("d", "t"),
        type=CompactionType.MAJOR,
        error_message=text,
        facts=RequestFacts(reason=text),
    )
    assert replace(request, error_message=text).error_message == "Cannot go on: give --yes"
    assert request.facts.properties() == {"acidlib.reason": "Cannot go on: give --yes"}
