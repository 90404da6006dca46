"""A delta above the mark: beside the inputs it is left alone, over them it forbids the compaction."""

import pytest

from acidlib.model.generation import Generation
from acidlib.model.listing import ListedFile, Listing
from acidlib.model.requests import CompactionType
from acidlib.model.writeids import ValidWriteIdList
from acidlib.planning.inputs import CompactionInputs, Refusal, compaction_inputs
from acidlib.planning.state import acid_state

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR


def planned(names: list[str], text: str, kind: CompactionType, generation: Generation) -> CompactionInputs | Refusal:
    paths = [f"{name}/bucket_00000" if "delta_" in name or "base_" in name else name for name in names]
    listing = Listing(location="/t", files=tuple(ListedFile(path=path, length=100, modified=0.0) for path in paths))
    state = acid_state(listing, ValidWriteIdList.parse(text).for_compactor(), generation=generation)
    return compaction_inputs(state, listing, kind, generation=generation, minor_as_major_bytes=256 << 20)


@pytest.mark.parametrize("generation", list(Generation))
@pytest.mark.parametrize(
    ("names", "text", "kind", "result"),
    [
        # a streaming batch that is still open, beside what was written before it
        (["delta_1_1", "delta_2_2", "delta_3_12"], "t:12:5:5:", MAJOR, "base_0000002"),
        (["delta_1_1", "delta_2_2", "delta_3_12"], "t:12:5:5:", MINOR, "delta_0000001_0000002"),
        (["000000_0", "delta_1_1"], "t:1:1:1:", MAJOR, "base_-9223372036854775808"),
        (["base_2", "delta_3_3", "delta_4_4", "base_9"], "t:4:9223372036854775807::", MAJOR, "base_0000004"),
    ],
)
def test_what_lies_beside_the_inputs_is_left_alone(
    names: list[str], text: str, kind: CompactionType, result: str, generation: Generation
) -> None:
    found = planned(names, text, kind, generation)
    assert isinstance(found, CompactionInputs)
    assert [output.path for output in found.outputs] == [result]


@pytest.mark.parametrize("generation", list(Generation))
@pytest.mark.parametrize("kind", [MAJOR, MINOR])
@pytest.mark.parametrize("wide", ["delta_2_7", "delete_delta_3_4", "delta_1_4"])
def test_what_reaches_over_the_inputs_forbids_the_compaction(
    wide: str, kind: CompactionType, generation: Generation
) -> None:
    found = planned(["delta_1_1", "delta_2_2", "delta_3_3", wide], "t:3:9223372036854775807::", kind, generation)
    assert isinstance(found, Refusal)
    assert found.reason.startswith(f"{wide} reaches above the high-water mark 3 and overlaps the inputs")


@pytest.mark.parametrize(("base", "removable"), [("base_3", True), ("base_3_v9", False)])
def test_a_cleaning_is_asked_for_only_below_what_is_known_to_be_committed(base: str, removable: bool) -> None:
    found = planned([base, "delta_3_3"], "t:3:9223372036854775807::", MAJOR, Generation.HIVE4)
    assert isinstance(found, Refusal)
    assert found.cleaning_only is removable
