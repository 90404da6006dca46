"""What readers do with each directory and file of a place, and why."""

from __future__ import annotations

from located import at

from acidlib.model.listing import ListedFile, Listing
from acidlib.model.names import LONG_MIN, Generation
from acidlib.model.snapshots import ValidTxnList, ValidWriteIdList
from acidlib.planning.state import Role, SeenPart, acid_state, seen_parts

IDS = ValidWriteIdList(table="db.t", high_water_mark=20, open_ids=(15,), aborted_ids=(7, 12))
TXNS = ValidTxnList.parse("100:90:90:80")


def seen(*files: str, hidden: tuple[str, ...] = (), generation: Generation = Generation.HIVE4) -> dict[str, SeenPart]:
    directories = {path.partition("/")[0] for path in files if "/" in path}
    listing = Listing(
        location=at("/t"),
        files=tuple(ListedFile(path=path, length=10, modified=0.0) for path in files),
        directories=(*sorted(directories), *hidden),
    )
    state = acid_state(listing, IDS, generation=generation, txns=TXNS)
    return {part.path: part for part in seen_parts(listing, state, generation)}


def test_every_role() -> None:
    parts = seen(
        "base_0000005_v0000070/bucket_00000",
        "base_0000003/bucket_00000",
        "base_0000006_v0000080/bucket_00000",
        "delta_0000004_0000004_0000/bucket_00000",
        "delta_0000012_0000012_0000/bucket_00000",
        "delta_0000006_0000009_v0000090/bucket_00000",
        "delta_0000006_0000006_0000/bucket_00000",
        "delta_0000006_0000006_0000/bucket_00000_flush_length",
        "delta_0000015_0000015_0000/bucket_00000",
        "delete_delta_0000020_0000020_0000/bucket_00000",
        "000000_0",
        "_SUCCESS",
        hidden=("_tmp_1", ".hive-staging_1"),
    )
    assert {path: part.role for path, part in parts.items()} == {
        "base_0000005_v0000070": Role.READ,
        "delete_delta_0000020_0000020_0000": Role.READ,
        "delta_0000006_0000006_0000": Role.READ,
        "000000_0": Role.OBSOLETE,
        "base_0000003": Role.OBSOLETE,
        "delta_0000004_0000004_0000": Role.OBSOLETE,
        "base_0000006_v0000080": Role.ABORTED,
        "delta_0000012_0000012_0000": Role.ABORTED,
        "delta_0000006_0000009_v0000090": Role.NOT_READ,
        "delta_0000015_0000015_0000": Role.NOT_READ,
        ".hive-staging_1": Role.HIDDEN,
        "_SUCCESS": Role.HIDDEN,
        "_tmp_1": Role.HIDDEN,
    }
    by_role = sorted((part.role for part in parts.values()), key=list(Role).index)
    assert [part.role for part in parts.values()] == by_role, "what is read comes first"
    assert parts["delta_0000004_0000004_0000"].why == "replaced by base_0000005_v0000070"
    assert "not committed" in parts["delta_0000006_0000009_v0000090"].why
    open_delta = parts["delta_0000015_0000015_0000"]
    assert (open_delta.write_ids, open_delta.kind) == ((15, 15), "delta")
    assert "open" in open_delta.why or "no write id in it is valid" in open_delta.why
    assert parts["base_0000005_v0000070"].write_ids == (0, 5)
    assert parts["delta_0000006_0000006_0000"].files == ("delta_0000006_0000006_0000/bucket_00000",)
    assert parts["delta_0000006_0000006_0000"].bytes == 20
    kinds = {part.kind for part in parts.values()}
    assert kinds == {"base", "delta", "delete delta", "original file", "hidden file", "hidden directory"}


def test_original_files_in_directories_and_a_base_of_nothing_else() -> None:
    parts = seen("HIVE_UNION_SUBDIR_1/000000_0", "empty/_marker", "000000_0", generation=Generation.HIVE3)
    assert {path: (part.kind, part.role) for path, part in parts.items()} == {
        "000000_0": ("original file", Role.READ),
        "HIVE_UNION_SUBDIR_1": ("other directory", Role.READ),
        "empty": ("other directory", Role.NOT_READ),
    }
    converted = seen(f"base_{LONG_MIN}/bucket_00000")
    assert converted[f"base_{LONG_MIN}"].write_ids == (0, 0)
