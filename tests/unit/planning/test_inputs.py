"""Inputs and results of a compaction, and every refusal."""

from __future__ import annotations

import pytest

from acidlib.acid.listing import Listing
from acidlib.acid.names import BaseDir, Generation
from acidlib.acid.state import acid_state
from acidlib.acid.write_ids import ValidWriteIdList, all_committed
from acidlib.arguments import said
from acidlib.errors import CorruptError, RefusedError
from acidlib.model.requests import CompactionType
from acidlib.model.units import DataFile, FileForm, FlushLength
from acidlib.planning.inputs import (
    CompactionInputs,
    Publication,
    Refusal,
    Role,
    compaction_inputs,
)
from unit.planning.listings import listing

HIVE3, HIVE4 = Generation.HIVE3, Generation.HIVE4
MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
LIMIT = 256 << 20


def planned(
    what: Listing,
    kind: CompactionType = MAJOR,
    generation: Generation = HIVE3,
    write_ids: ValidWriteIdList | None = None,
    **options: object,
) -> CompactionInputs | Refusal:
    state = acid_state(
        what, (write_ids or all_committed("t", 100)).for_compactor(), names=generation, ignore_empty_files=True
    )
    options = {"minor_as_major_bytes": LIMIT, **options}
    return compaction_inputs(state, what, kind, names=generation, **options)


def inputs(*args: object, **options: object) -> CompactionInputs:
    result = planned(*args, **options)
    assert isinstance(result, CompactionInputs), result
    return result


def paths(result: CompactionInputs) -> list[str]:
    return [directory.path for directory in result.directories]


def outputs(result: CompactionInputs) -> list[str]:
    return [output.name for output in result.outputs]


V26: dict[str, object] = {"visibility_txn": 26}
COMMITS: dict[str, object] = {"visible_on_commit": True}
MIXED = "base_20 delta_21_22 delete_delta_23_23_0000 delta_23_23_0000"
EACH = "delta_1_1_0 delta_2_2_0 delta_3_3_0 delta_4_4_0"
WORKER = "base_20 delta_21_22 delta_23_25 delta_26_27"
LOADED = "delta_7_7_0003/000001_0 delta_8_8_0000"
CONVERTED = "base_-9223372036854775808"
OPENED, ABORTED = "t:27:23:23:", "t:27:9223372036854775807::24,25"
WHOLLY = "t:4:9223372036854775807::2,4"
STREAM = "delta_1_1 delta_2_2 delta_3_12"
# what lies there, what is asked for, generation, write ids, further options; what is read (None: not asked) and made
PLANS: list[tuple[str, CompactionType, Generation, str | None, dict[str, object], str | None, str]] = [
    (
        "base_20 delta_23_24 delta_21_21_0001 delete_delta_21_21_0000 base_10",
        MAJOR, HIVE3, None, {}, "base_20 delete_delta_21_21_0000 delta_21_21_0001 delta_23_24", "base_0000024",
    ),
    (
        MIXED, MINOR, HIVE4, None, V26 | COMMITS, None,
        "delta_0000021_0000023_v0000026 delete_delta_0000021_0000023_v0000026",
    ),
    (MIXED, MAJOR, HIVE4, None, V26, None, "base_0000023_v0000026"),
    (MIXED, MAJOR, HIVE4, None, {}, None, "base_0000023"),  # no transaction of our own: no suffix is invented
    (
        "base_20 delta_21_21_0 delta_22_22_0", MINOR, HIVE3, None, {},
        "delta_21_21_0 delta_22_22_0", "delta_0000021_0000022",
    ),
    ("base_20 delete_delta_21_21_0 delete_delta_22_22_0", MINOR, HIVE3, None, {}, None, "delete_delta_0000021_0000022"),
    ("000000_0", MAJOR, HIVE4, None, V26, None, f"{CONVERTED}_v0000026"),
    ("000000_0 delta_1_1_0 delta_2_2_0", MAJOR, HIVE3, None, {}, " delta_1_1_0 delta_2_2_0", "base_0000002"),
    ("000000_0 delta_1_1_0 delta_2_2_0", MINOR, HIVE3, None, {}, "delta_1_1_0 delta_2_2_0", "delta_0000001_0000002"),
    (LOADED, MINOR, HIVE3, None, {}, None, "delta_0000007_0000008"),
    (f"{CONVERTED} delta_3_3_0", MAJOR, HIVE3, None, {}, None, "base_0000003"),
    # of Hive's tests of its worker
    (WORKER, MAJOR, HIVE3, OPENED, {}, None, "base_0000022"),
    *((WORKER, MINOR, generation, ABORTED, {}, None, "delta_0000021_0000027") for generation in Generation),
    *((WORKER, MAJOR, generation, ABORTED, {}, None, "base_0000027") for generation in Generation),
    # Hive 3.1 merges an aborted directory away, Hive 4 leaves it to its cleaner
    ("base_5 delta_6_6_0", MAJOR, HIVE3, "t:9:9223372036854775807::6", {}, None, "base_0000006"),
    (EACH, MINOR, HIVE3, WHOLLY, {}, None, "delta_0000001_0000004"),
    (EACH, MINOR, HIVE4, WHOLLY, {}, "delta_1_1_0 delta_3_3_0", "delta_0000001_0000003"),
    # a base of a single delta, as Hive 3.1 makes it when it is asked
    ("delta_1_5", MAJOR, HIVE3, None, {}, None, "base_0000005"),
    ("delete_delta_3_3_0", MAJOR, HIVE3, None, {}, None, "base_0000003"),
    # a streaming batch that is still open, and other things that are left alone
    *((STREAM, MAJOR, generation, "t:12:5:5:", {}, None, "base_0000002") for generation in Generation),
    *((STREAM, MINOR, generation, "t:12:5:5:", {}, None, "delta_0000001_0000002") for generation in Generation),
    *(("000000_0 delta_1_1", MAJOR, generation, "t:1:1:1:", {}, None, CONVERTED) for generation in Generation),
    ("base_2 delta_3_3 delta_4_4 base_9", MAJOR, HIVE3, "t:4:9223372036854775807::", {}, None, "base_0000004"),
]  # fmt: skip


@pytest.mark.parametrize("case", PLANS, ids=lambda case: f"{case[0]}, {case[1].label} {case[2].name}")
def test_what_is_read_and_made(
    case: tuple[str, CompactionType, Generation, str | None, dict[str, object], str | None, str],
) -> None:
    names, kind, generation, text, options, read, made = case
    write_ids = None if text is None else ValidWriteIdList.parse(text)
    result = inputs(listing(*names.split()), kind, generation, write_ids, **options)
    assert " ".join(output.name for output in result.outputs) == made
    assert read is None or " ".join(paths(result)) == read
    assert result.publication is (Publication.COMMIT if options.get("visible_on_commit") else Publication.AT_ONCE)


def test_roles_and_range_of_the_inputs() -> None:
    result = inputs(
        listing(
            "base_20", "base_20/bucket_00001", "base_20/_orc_acid_version", "delete_delta_21_21_0000", "delta_23_24"
        )
    )
    assert [directory.role for directory in result.directories] == [Role.BASE, Role.DELETE_DELTA, Role.DELTA]
    assert [file.path for file in result.directories[0].files] == ["base_20/bucket_00000", "base_20/bucket_00001"]
    assert (result.min_write_id, result.max_write_id, result.high_water_mark) == (21, 24, 100)
    with pytest.raises(RefusedError, match="visibility suffix"):
        planned(listing(*MIXED.split()), MAJOR, HIVE3, visibility_txn=26)


def test_mixed_minor_without_suffix() -> None:
    what = listing(*MIXED.split())
    as_major = inputs(what, MINOR, minor_as_major_bytes=100)
    assert (as_major.kind, as_major.requested, as_major.publication) == (MAJOR, MINOR, Publication.AT_ONCE)
    assert as_major.reason.endswith("needs two renames, and a base of 100 bytes is no larger than 100 bytes")
    for limit in (0, 99):
        two = inputs(what, MINOR, minor_as_major_bytes=limit)
        assert (two.kind, two.publication) == (MINOR, Publication.TWO_RENAMES)
        assert outputs(two) == ["delta_0000021_0000023", "delete_delta_0000021_0000023"]
    # a suffix of a transaction that has committed already shows each half as soon as it is renamed
    assert inputs(what, MINOR, HIVE4, visibility_txn=5, minor_as_major_bytes=0).publication is Publication.TWO_RENAMES


def test_originals() -> None:
    what = listing("000001_0", "000000_0_copy_1", "000000_0", "000002_0", "_done", sizes={"000002_0": 0})
    result = inputs(what)
    assert (outputs(result), result.min_write_id, result.max_write_id) == ([CONVERTED], None, None)
    (originals,) = result.directories
    assert (originals.role, originals.name, originals.files[0].write_id) == (Role.ORIGINALS, None, 0)
    assert [(file.path, file.bucket) for file in originals.files] == [
        ("000000_0", 0), ("000000_0_copy_1", 0), ("000001_0", 1),
    ]  # fmt: skip


def test_loaded_files_get_the_ids_of_their_directory() -> None:
    result = inputs(listing("base_5/000000_0", "delta_7_7_0003/000001_0_copy_1", "delta_8_8_0000"))
    base, loaded, _ = result.directories
    assert [(file.write_id, file.statement_id) for file in base.files] == [(5, 0)]
    (file,) = loaded.files
    assert file == DataFile(
        path="delta_7_7_0003/000001_0_copy_1",
        directory="delta_7_7_0003",
        length=100,
        bucket=1,
        form=FileForm.ORIGINAL,
        write_id=7,
        statement_id=3,
    )


@pytest.mark.parametrize(
    ("directory", "generation", "counts"),
    [
        ("delta_5_5_0", HIVE3, True),
        ("base_5", HIVE3, True),
        ("delta_4_5", HIVE4, True),
        ("delta_5_5_0", HIVE4, False),
        ("delta_5_5", HIVE4, False),
        ("base_5", HIVE4, False),
        ("delta_4_5_v12", HIVE4, False),
    ],
)
def test_where_a_side_file_counts(directory: str, generation: Generation, counts: bool) -> None:
    what = listing(f"{directory}/bucket_00000", f"{directory}/bucket_00000_flush_length", "delta_6_6_0/bucket_00000")
    (file,) = inputs(what, MAJOR, generation).directories[0].files
    assert (file.flush_length is not None) is counts


def test_side_files_and_files_without_bytes() -> None:
    what = listing(
        "delta_1_5/bucket_00000",
        "delta_1_5/bucket_00000_flush_length",
        "delta_1_5/bucket_00001",
        "delta_1_5/bucket_00002",
        "delta_1_5/bucket_00002_flush_length",
        "delta_1_5/bucket_00003_flush_length",
        "delta_6_6_0",
        sizes={"delta_1_5/bucket_00001": 0, "delta_1_5/bucket_00002": 0},
    )
    result = inputs(what)
    streamed = result.directories[0]
    assert [(file.bucket, file.length, file.flush_length) for file in streamed.files] == [
        (0, 100, FlushLength(path="delta_1_5/bucket_00000_flush_length", length=100, data_length=100)),
        (2, 0, FlushLength(path="delta_1_5/bucket_00002_flush_length", length=100, data_length=0)),
    ]
    assert streamed.lone_side_files == ("delta_1_5/bucket_00003_flush_length",)
    assert result.empty_files == ("delta_1_5/bucket_00001",)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("delta_2_2_0/data.orc", "its name has no bucket number"),
        ("delta_2_2_0/sub/bucket_00000", "it holds a directory"),
        ("random", "its name has no bucket number"),
        ("bucket_00000", "outside of any ACID directory"),
        ("delete_delta_2_2_0/000000_0", "without ACID columns"),
    ],
)
def test_what_is_not_understood_is_never_left_out(extra: str, message: str) -> None:
    with pytest.raises(CorruptError, match=message):
        planned(listing("delta_1_1_0", "delta_2_2_0", extra))


def test_attempt_suffixes_are_all_read() -> None:
    result = inputs(
        listing("delta_1_1_0/bucket_00000_0", "delta_1_1_0/bucket_00000_1", "delta_2_2_0"), generation=HIVE4
    )
    assert [file.bucket for file in result.directories[0].files] == [0, 0]


@pytest.mark.parametrize(
    ("kind", "names", "reason"),
    [
        (MAJOR, ["base_5"], "a base and no delta"),
        (MAJOR, [], "0 delta directories and no base"),
        (MINOR, ["base_5", "delta_6_6_0"], "1 delta directory"),
        (MINOR, ["000000_0"], "0 delta directories"),
        (MINOR, ["delta_1_5", "delete_delta_1_5"], "one delta and one delete delta"),
        (MINOR, ["delta_1_1_0", "delete_delta_2_2_0"], "one delta and one delete delta"),
        (MINOR, ["delta_5_5_0", "delete_delta_5_5_1", "delta_5_5_1"], "write id 5"),
    ],
)
@pytest.mark.parametrize("generation", [HIVE3, HIVE4])
def test_too_little_is_refused(kind: CompactionType, names: list[str], reason: str, generation: Generation) -> None:
    result = planned(listing(*names), kind, generation)
    assert isinstance(result, Refusal)
    assert result.already_compact
    assert reason in result.reason
    assert not result.cleaning_only


def test_a_base_of_a_single_delta_is_made_only_where_hive_3_makes_it_and_was_asked() -> None:
    """Hive 4 never does; nor do we what an initiator queued, and Hive 3.1 for its part no insert-only table."""
    alone = listing("delta_1_1_0")
    assert outputs(inputs(alone, MAJOR, HIVE3)) == ["base_0000001"]
    for refused in (
        planned(alone, MAJOR, HIVE4),
        planned(alone, MAJOR, HIVE3, automatic=True),
        planned(alone, MAJOR, HIVE3, insert_only=True),
    ):
        assert isinstance(refused, Refusal)
        assert "nothing to merge: 1 delta directory and no base" in refused.reason


def test_refused_but_something_to_clean() -> None:
    result = planned(listing("base_5", "delta_4_4_0"))
    assert isinstance(result, Refusal)
    assert result.cleaning_only
    aborted = ValidWriteIdList.parse("t:9:9223372036854775807::6")
    four = planned(listing("base_5", "delta_6_6_0"), MAJOR, HIVE4, aborted)
    assert isinstance(four, Refusal)
    assert four.cleaning_only


def test_the_name_of_the_result_must_be_free() -> None:
    # the base of an overwrite that was aborted has the number of the result
    write_ids = ValidWriteIdList.parse("t:9:9223372036854775807::7")
    result = planned(listing("base_5", "base_0000007", "delta_6_6_0", "delta_7_7_0"), MAJOR, HIVE3, write_ids)
    assert isinstance(result, Refusal)
    assert result.reason.startswith("base_0000007, the name of the result, exists already, and readers do not take it")
    assert "acidlib show" in said(result.reason)


def test_a_state_of_another_list_is_refused() -> None:
    what = listing("base_5", "delta_6_12")
    reader = acid_state(what, ValidWriteIdList.parse("t:10:9223372036854775807:"), names=HIVE3)
    with pytest.raises(RefusedError, match="delta_6_12"):
        compaction_inputs(reader, what, MAJOR, names=HIVE3, minor_as_major_bytes=LIMIT)


def test_synthetic_ids_of_the_base_of_originals() -> None:
    name = "base_-9223372036854775808"
    result = inputs(listing(name, "delta_3_3_0"))
    assert isinstance(result.directories[0].name, BaseDir)
    assert result.directories[0].files[0].write_id == 0


UP_TO_3 = ValidWriteIdList.parse("t:3:9223372036854775807::")


@pytest.mark.parametrize("generation", list(Generation))
@pytest.mark.parametrize("kind", [MAJOR, MINOR])
@pytest.mark.parametrize("wide", ["delta_2_7", "delete_delta_3_4", "delta_1_4"])
def test_what_reaches_over_the_inputs_forbids_the_compaction(
    wide: str, kind: CompactionType, generation: Generation
) -> None:
    found = planned(listing("delta_1_1", "delta_2_2", "delta_3_3", wide), kind, generation, UP_TO_3)
    assert isinstance(found, Refusal)
    assert found.reason.startswith(f"{wide} reaches above the high-water mark 3 and overlaps the inputs")


@pytest.mark.parametrize(("base", "removable"), [("base_3", True), ("base_3_v9", False)])
def test_a_cleaning_is_asked_for_only_below_what_is_known_to_be_committed(base: str, removable: bool) -> None:
    found = planned(listing(base, "delta_3_3"), MAJOR, HIVE4, UP_TO_3)
    assert isinstance(found, Refusal)
    assert found.cleaning_only is removable
