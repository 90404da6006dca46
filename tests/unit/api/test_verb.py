"""What a program sees of a wrong call: a sentence of its own words, and its own line."""

from __future__ import annotations

import traceback
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import acidlib
from acidlib.api.caller import Caller

CALLS: dict[str, Any] = {
    "it has no argument partition; did you mean partitions?": {"kind": "major", "partition": "a=1"},
    "it has no argument max_byte; did you mean max_bytes?": {"kind": "major", "max_byte": 1},
    "it has no argument xyz": {"kind": "major", "xyz": 1},
    "it has no argument dry_run; plan() does that": {"kind": "major", "dry_run": True},
    "progress is a function of each step, None or False, and not 'no'": {"kind": "major", "progress": "no"},
    "progress is a function of each step, None or False, and not True": {"kind": "major", "progress": True},
    "partitions is a text, or several, and not None": {"kind": "major", "partitions": None},
    "verify is a text such as 'all' or 'sample=0.1', True, False or None, and not 0.1": {
        "kind": "major",
        "verify": 0.1,
    },
    "missing a required argument: 'kind'": {},
}


@pytest.mark.parametrize(("reason", "call"), CALLS.items(), ids=CALLS)
def test_a_wrong_keyword_is_refused_with_the_one_that_is_meant(reason: str, call: dict[str, Any]) -> None:
    with pytest.raises(acidlib.UsageError) as raised:
        acidlib.directory("/t").compact(**call)
    assert str(raised.value) == f"Cannot call compact(): {reason}"


def test_what_stands_without_its_name_is_told_the_name_that_is_meant(tmp_path: Path) -> None:
    table, lake = acidlib.directory(tmp_path), acidlib.warehouse(tmp_path)
    calls: list[tuple[Any, tuple[Any, ...], str]] = [
        (table.compact, ("major", "dt=2024-01-*"), "as partitions='dt=2024-01-*'"),
        (table.to_arrow, ("id > 1 and dt = '2024-01-01'",), "as where=\"id > 1 and dt = '2024-01-01'\""),
        (table.snapshot, ("dt=1",), "as partitions='dt=1'"),
        (lake.status, ("sales.*",), "as tables='sales.*'"),
        (table.clean, (7,), "it has partitions=, if_exists=, retention=, trash=, force=, dry_run=, progress="),
    ]
    for verb, arguments, hint in calls:
        with pytest.raises(acidlib.UsageError) as raised:
            verb(*arguments)
        told = f"Cannot call {verb.__name__}(): say by its name what {arguments[-1]!r} is: {hint}"
        assert str(raised.value) == told
    assert len(acidlib.connect("none").cancel(1, 2, dry_run=True).cancellations) == 2


def test_an_interrupt_says_what_became_of_the_work() -> None:
    with pytest.raises(KeyboardInterrupt) as raised, Caller().verb(str.upper):
        raise KeyboardInterrupt
    assert str(raised.value) == "what was done stays, everything else is as it was"
    with pytest.raises(KeyboardInterrupt) as raised, Caller().verb(str.upper):
        raise KeyboardInterrupt("of 2 places 1 stopped")
    assert str(raised.value) == "of 2 places 1 stopped"


def test_a_signature_has_every_option() -> None:
    table, lake = signature(acidlib.Table.compact).parameters, signature(acidlib.Lake.compact).parameters
    assert [*table] == ["self", "kind", *acidlib.CompactionOptions.__annotations__]
    assert set(lake) - set(table) == {"tables", "exclude"}
    assert table["max_bytes"].annotation == "Size | None"
    with pytest.raises(acidlib.UsageError, match=r"^Cannot call connect\(\): it has no argument setting; did you mean"):
        acidlib.connect("none", setting={})  # type: ignore[call-arg]


def test_an_error_has_the_line_of_its_caller_and_no_way_below(tmp_path: Path) -> None:
    """In a notebook the line is shown below the sentence, in place of a traceback."""
    table = acidlib.directory(tmp_path / "t")
    with pytest.raises(acidlib.UsageError) as raised:
        table.compact("major")
    sentence = (
        "what is committed cannot be known from files: give write_ids, write_ids_file or all_committed of "
        "acidlib.directory()"
    )
    assert raised.value._render_traceback_() == [f"UsageError: {sentence}", raised_at(raised.value)]
    assert len(traceback.extract_tb(raised.value.__traceback__)) == 2
    assert "direct cause" not in "".join(traceback.format_exception(raised.value))


def raised_at(error: BaseException) -> str:
    (own, _) = traceback.extract_tb(error.__traceback__)
    return f"  line {own.lineno}: {own.line}"


def test_a_defect_keeps_its_whole_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise acidlib.DefectError("Cannot do it: unexpected KeyError: 1")

    monkeypatch.setattr("acidlib.api.lake.selected", broken)
    with pytest.raises(acidlib.DefectError) as raised:
        acidlib.directory("/t", all_committed=True).compact("major")
    assert any("in broken" in line for line in raised.value._render_traceback_())
