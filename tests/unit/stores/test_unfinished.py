"""Publications that were recorded and not finished: each is finished, or discarded, by the next run."""

import shutil
from pathlib import Path

import pytest

from acidlib.errors import AcidError, ConflictError, CorruptError
from acidlib.stores.renaming.store import RenameStore
from unit.stores.staged import DELETES, DELTA, FS, INPUTS, recorded, visible

pytestmark = pytest.mark.usefixtures("way")


def test_what_was_published_is_only_tidied_up(tmp_path: Path) -> None:
    recorded(tmp_path, renamed=(DELTA, DELETES))
    (done,) = RenameStore(FS).roll_forward(str(tmp_path))
    assert done.outcome == "was published"
    assert visible(tmp_path) == {DELTA, DELETES}


@pytest.mark.parametrize("why", ["input", "target"])
def test_an_invisible_publication_whose_time_has_passed_is_discarded(tmp_path: Path, why: str) -> None:
    recorded(tmp_path)
    if why == "input":
        (tmp_path / INPUTS[0]).rmdir()
    elif why == "target":
        (tmp_path / DELTA).mkdir()
    (done,) = RenameStore(FS).roll_forward(str(tmp_path))
    assert done.outcome == "discarded"
    gone = f"its input {INPUTS[0]} is gone, so something else stands for those rows"
    assert done.reason == (gone if why == "input" else f"{DELTA} already exists")
    assert visible(tmp_path) == ({DELTA} if why == "target" else set())


def test_a_half_publication_is_finished_whatever_has_become_of_its_inputs(tmp_path: Path) -> None:
    recorded(tmp_path, renamed=(DELTA,))
    (tmp_path / INPUTS[0]).rmdir()
    (done,) = RenameStore(FS).roll_forward(str(tmp_path))
    assert done.outcome == "finished"
    assert visible(tmp_path) == {DELTA, DELETES}


def test_a_half_publication_that_a_base_covers_is_discarded(tmp_path: Path) -> None:
    """Somebody else has compacted what was visible of it, and cleaned."""
    recorded(tmp_path, renamed=(DELTA,))
    shutil.rmtree(tmp_path / DELTA)
    base = "base_0000004"
    (tmp_path / base).mkdir()
    (done,) = RenameStore(FS).roll_forward(str(tmp_path))
    assert done.outcome == "discarded"
    assert base in (done.reason or "")
    assert visible(tmp_path) == {base}
    assert RenameStore(FS).unfinished(str(tmp_path)) == ()


@pytest.mark.parametrize("visible_only", [False, True])
def test_a_half_that_was_removed_is_given_up_while_all_inputs_are_there(tmp_path: Path, visible_only: bool) -> None:
    recorded(tmp_path, renamed=(DELTA,))
    shutil.rmtree(tmp_path / DELTA)
    (done,) = RenameStore(FS).roll_forward(str(tmp_path), visible_only=visible_only)
    assert done.outcome == "discarded"
    assert done.reason == f"{DELTA} was removed after it was published, and all its inputs are still there"
    assert visible(tmp_path) == set()
    assert RenameStore(FS).unfinished(str(tmp_path)) == ()


@pytest.mark.parametrize("fault", ["an input is gone", "a wider delta covers them"])
def test_a_half_that_was_removed_with_what_stood_for_it_tells_what_to_do(tmp_path: Path, fault: str) -> None:
    staging = Path(recorded(tmp_path, renamed=(DELTA,)) + ".revoked")
    (tmp_path / DELTA).rename(tmp_path / "_aside")
    if fault == "an input is gone":
        (tmp_path / INPUTS[1]).rmdir()
    else:
        (tmp_path / "delta_0000001_0000009").mkdir()
    for _ in range(2):
        with pytest.raises(CorruptError, match="its other half, was removed") as raised:
            RenameStore(FS).roll_forward(str(tmp_path))
    assert (f"Put {tmp_path / DELTA} back" in str(raised.value), f"removing {staging} " in str(raised.value)) == (
        True,
    ) * 2
    assert (staging / "publish.json").exists()
    shutil.rmtree(tmp_path / "delta_0000001_0000009", ignore_errors=True)
    (tmp_path / "_aside").rename(tmp_path / DELTA)
    assert [done.outcome for done in RenameStore(FS).roll_forward(str(tmp_path))] == ["finished"]


@pytest.mark.parametrize(
    "wider", ["delta_0000001_0000007", "delete_delta_0000001_0000007", "delta_0000001_0000009_v0000012"]
)
@pytest.mark.parametrize("visible_only", [False, True])
def test_a_half_that_somebody_has_merged_alone_is_not_finished(tmp_path: Path, wider: str, visible_only: bool) -> None:
    """Hive's compactor came between: its result lacks the events of the other half, and would hide them for ever."""
    staging = Path(recorded(tmp_path, renamed=(DELTA,)) + ".revoked")
    (tmp_path / wider).mkdir()
    for _ in range(2):
        with pytest.raises(CorruptError, match=f"because {wider} was made of {DELTA} without {DELETES}") as raised:
            RenameStore(FS).roll_forward(str(tmp_path), visible_only=visible_only)
        assert visible(tmp_path) == {DELTA, wider, staging.name}
    assert str(staging) in str(raised.value)
    (tmp_path / wider).rmdir()
    (done,) = RenameStore(FS).roll_forward(str(tmp_path))
    assert (done.outcome, visible(tmp_path)) == ("finished", {DELTA, DELETES})


def test_what_is_not_visible_and_was_merged_by_somebody_else_is_discarded(tmp_path: Path) -> None:
    recorded(tmp_path)
    wider = "delta_0000001_0000007"
    (tmp_path / wider).mkdir()
    (done,) = RenameStore(FS).roll_forward(str(tmp_path))
    assert (done.outcome, done.reason) == ("discarded", f"{wider} covers it")
    assert visible(tmp_path) == {wider}


@pytest.mark.parametrize("other", ["delta_0000005_0000009", "delta_0000002_0000002_0000", "base_0000000"])
def test_a_directory_that_does_not_cover_a_half_is_in_nobodys_way(tmp_path: Path, other: str) -> None:
    recorded(tmp_path, renamed=(DELTA,))
    (tmp_path / other).mkdir()
    (done,) = RenameStore(FS).roll_forward(str(tmp_path))
    assert (done.outcome, visible(tmp_path)) == ("finished", {DELTA, DELETES, other})


def test_only_what_is_visible_already(tmp_path: Path) -> None:
    recorded(tmp_path)
    assert RenameStore(FS).roll_forward(str(tmp_path), visible_only=True) == ()
    (staging,) = RenameStore(FS).unfinished(str(tmp_path))
    (Path(staging) / DELTA).rename(tmp_path / DELTA)
    (done,) = RenameStore(FS).roll_forward(str(tmp_path), visible_only=True)
    assert done.outcome == "finished"
    assert visible(tmp_path) == {DELTA, DELETES}


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("staged", CorruptError), ("published", CorruptError), ("target", ConflictError)],
)
def test_a_half_that_is_not_what_was_recorded_is_not_finished(
    tmp_path: Path, fault: str, kind: type[AcidError]
) -> None:
    staging = recorded(tmp_path, renamed=(DELTA,))
    if fault == "staged":
        (Path(staging) / DELETES / "bucket_00000").write_bytes(b"torn")
    elif fault == "published":
        (tmp_path / DELTA / "bucket_00000").write_bytes(b"torn")
    else:
        (tmp_path / DELETES).mkdir()
    before = visible(tmp_path) - {"_tmp_run"}
    with pytest.raises(kind):
        RenameStore(FS).roll_forward(str(tmp_path))
    assert visible(tmp_path) - {"_tmp_run.revoked"} == before
    assert Path(f"{staging}.revoked", "publish.json").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 1}',
        '{"version": 2, "directories": [{"name": "base_1", "files": []}], "inputs": []}',
        '{"version": 1, "directories": [], "inputs": []}',
        '{"version": 1, "directories": [{"name": "base_1", "files": [{"name": "a", "length": "1"}]}], "inputs": []}',
        '{"version": 1, "directories": [{"name": "a/b", "files": []}], "inputs": []}',
    ],
)
def test_a_damaged_record_is_an_error(tmp_path: Path, text: str) -> None:
    staging = RenameStore(FS).stage(str(tmp_path), unique="x", owner="o", now=1.0).path
    Path(staging, "publish.json").write_text(text)
    with pytest.raises(CorruptError, match=r"publish\.json"):
        RenameStore(FS).roll_forward(str(tmp_path))
