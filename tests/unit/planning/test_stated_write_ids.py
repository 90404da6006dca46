"""What is committed without a metastore: as stated, never guessed."""

from __future__ import annotations

import pytest

from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.errors import RefusedError, UsageError
from acidlib.model.tables import TableRef
from acidlib.planning.stated_write_ids import StatedWriteIds, directory_ids, signs_of_aborts, stated_write_ids
from unit.planning.listings import listing

TEXT = "default.t:9:9223372036854775807::4"


def stated(*, text: str | None = None, file_text: str | None = None, everything: bool = False) -> StatedWriteIds:
    found = stated_write_ids(text=text, file_text=file_text, everything=everything)
    assert found is not None
    return found


def test_nothing_stated_is_nothing_and_refuses_with_the_ways_out() -> None:
    assert stated_write_ids(text=None, file_text=None, everything=False) is None
    with pytest.raises(RefusedError, match=r"Cannot work on default\.t: .*--write-ids.*--all-committed"):
        StatedWriteIds().of(TableRef("default", "t"), listing("delta_1_1"))


@pytest.mark.parametrize(
    ("directories", "told"),
    [
        (("base_0000005", "delta_0000006_0000006_0000"), None),
        (("delta_0000003_0000003", "delta_0000004_0000008", "delete_delta_0000009_0000009_0000"), None),
        (("base_0000005_v0000009", "delta_0000002_0000002", "delta_0000007_0000007"), "6"),
        (("delta_1_1", "delta_3_3", "delta_7_9", "delta_20_20"), "2, 4 to 6, 10 to 19"),
        (tuple(f"delta_{number}_{number}" for number in range(1, 20, 2)), "2, 4, 6, 8, 10 and more"),
        (("_tmp_1/delta_9_9/bucket_00000", "delta_1_1"), None),
    ],
)
def test_write_ids_that_are_nowhere_hint_at_what_was_rolled_back(
    directories: tuple[str, ...], told: str | None
) -> None:
    found = signs_of_aborts(directory_ids(listing(*directories)), ())
    expected = f"no directory has write ids {told}, as after a transaction that was rolled back"
    assert found == ([] if told is None else [expected])


def test_one_list_is_for_the_table_it_names_or_for_any() -> None:
    assert stated(text=TEXT).of(TableRef("default", "t"), listing()) == ValidWriteIdList.parse(TEXT)
    assert stated(text=TEXT.replace("default.", "")).of(TableRef("default", "t"), listing()).high_water_mark == 9
    assert stated(text=TEXT.replace("default.t", "null")).of(TableRef("a", "b"), listing()).aborted_ids == (4,)
    with pytest.raises(RefusedError, match=r"write-id list of default\.t: the table is default\.u"):
        stated(text=TEXT).of(TableRef("default", "u"), listing())
    with pytest.raises(RefusedError, match=r"the table is other\.t"):
        stated(text=TEXT).of(TableRef("other", "t"), listing())


def test_a_file_has_a_line_for_each_table() -> None:
    found = stated(file_text=f"# made by cron\n\n{TEXT}\n  default.u:7:9223372036854775807::\n")
    assert found.of(TableRef("default", "t"), listing()).high_water_mark == 9
    assert found.of(TableRef("default", "u"), listing()).high_water_mark == 7
    with pytest.raises(RefusedError, match=r"Cannot work on default\.w: nothing says"):
        found.of(TableRef("default", "w"), listing())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no line for any table"),
        ("# only a comment\n\n", "no line for any table"),
        (f"{TEXT}\n{TEXT}", "missing or repeated"),
        ("null:9:9223372036854775807::", "missing or repeated"),
        (f"{TEXT}\nnonsense", "nonsense"),
    ],
)
def test_a_file_that_says_nothing_or_twice_is_refused(text: str, told: str) -> None:
    with pytest.raises(RefusedError, match=told):
        stated_write_ids(text=None, file_text=text, everything=False)


@pytest.mark.parametrize("text", ["", " ", "nonsense", "t:x:y", "default.t"])
def test_a_list_that_does_not_parse_never_means_everything(text: str) -> None:
    with pytest.raises(RefusedError, match="Cannot read the write-id list"):
        stated_write_ids(text=text, file_text=None, everything=False)


@pytest.mark.parametrize(
    ("text", "file_text", "everything", "told"),
    [
        (TEXT, TEXT, False, "--write-ids and --write-ids-file"),
        (TEXT, None, True, "--write-ids and --all-committed"),
        (None, "", True, "--write-ids-file and --all-committed"),
        (TEXT, TEXT, True, "--write-ids and --write-ids-file and --all-committed"),
    ],
)
def test_statements_that_may_contradict_each_other_are_refused(
    text: str | None, file_text: str | None, everything: bool, told: str
) -> None:
    with pytest.raises(UsageError, match=f"Cannot take {told} together"):
        stated_write_ids(text=text, file_text=file_text, everything=everything)


@pytest.mark.parametrize(
    ("names", "mark"),
    [
        (("base_0000005", "delta_0000006_0000008"), 8),
        (("delete_delta_0000009_0000009_0000",), 9),
        (("base_0000012_v0000100",), 12),
        ((), 1),
        (("base_-9223372036854775808",), 1),
    ],
)
def test_everything_committed_still_has_a_real_mark(names: tuple[str, ...], mark: int) -> None:
    """Hive takes a mark of 0 for no mark; and what is written after the look is not committed by the statement."""
    found = stated(everything=True).of(TableRef("default", "t"), listing(*names))
    assert (found.high_water_mark, found.table) == (mark, "default.t")
    assert (found.open_ids, found.aborted_ids) == ((), ())
