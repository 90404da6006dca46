"""Delete events: routed by the bucket in their key, filtered by write id, sorted, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from acid_inputs import B0, B1, B3, COLUMNS, STRIPES, at, at_root, full, ids, open_all, without_stride, write
from judges import mutants, tables
from judges import orc_tail as o
from orc_memory import file_options, longs

from acidlib.acid.write_ids import ValidWriteIdList
from acidlib.errors import CorruptError
from acidlib.model.units import DataFile
from acidlib.orc.proto import Compression
from acidlib.orc.schema import acid_tree, row_struct
from acidlib.orc.writer import OrcWriter
from acidlib.rewrite.recode import encode_deletes
from acidlib.rows.deletes import DeleteEvents, bucket_numbers, event_buckets, read_deletes
from acidlib.rows.files import acid_metadata
from acidlib.rows.row_ids import Keys
from acidlib.stores.renaming.local import LocalDataFiles

DATA = LocalDataFiles()


def buckets_of(file: DataFile) -> frozenset[int]:
    return event_buckets(file, at_root())


def read(files: tuple[DataFile, ...], bucket: int, write_ids: ValidWriteIdList) -> DeleteEvents:
    with open_all(files) as inputs:
        return read_deletes(inputs, bucket, write_ids)


def deletes(path: Path, write_id: int, *keys: tuple[int, int, int], bucket: int = 0, change: Any = None) -> DataFile:
    """A file of a delete delta, whose events may be of any bucket."""
    found = sorted(tables.deletes(write_id, keys), key=tables.event_key)
    data = tables.acid_bytes(COLUMNS, found, STRIPES)
    target = path / tables.delta_name(write_id, write_id, delete=True) / f"bucket_{bucket:05d}"
    return write(target, data if change is None else change(data), bucket=bucket)


def parts(found: DeleteEvents) -> list[tuple[int, int, int, int]]:
    return [(*found.keys.key(index), int(found.current[index])) for index in range(len(found.keys))]


@pytest.mark.parametrize("change", [None, without_stride], ids=["statistics", "decoded"])
def test_events_go_to_the_bucket_of_their_key_in_whichever_file_they_lie(tmp_path: Path, change: Any) -> None:
    files = (
        deletes(tmp_path, 5, (1, B0, 7), (1, B1, 1), (2, B0, 0), change=change),
        deletes(tmp_path, 6, (1, B0, 3), (1, B1, 2), bucket=1, change=change),
    )
    zero, one = (read(files, bucket, ids()) for bucket in (0, 1))
    assert parts(zero) == [(1, B0, 3, 6), (1, B0, 7, 5), (2, B0, 0, 5)]
    assert parts(one) == [(1, B1, 1, 5), (1, B1, 2, 6)]
    assert [(found.events_in, found.aborted, found.duplicates) for found in (zero, one)] == [(3, 0, 0), (2, 0, 0)]
    assert parts(read(files, 2, ids())) == []
    assert [buckets_of(file) for file in files] == [{0, 1}, {0, 1}]


@pytest.mark.parametrize("change", [None, without_stride], ids=["statistics", "decoded"])
def test_no_event_is_lost_between_the_codecs_of_two_versions_of_hive(tmp_path: Path, change: Any) -> None:
    file = deletes(tmp_path, 5, (1, 3, 0), (1, B0, 1), (1, B3, 2), bucket=3, change=change)
    assert buckets_of(file) == {0, 3}
    assert parts(read((file,), 0, ids())) == [(1, B0, 1, 5)]
    assert parts(read((file,), 3, ids())) == [(1, 3, 0, 5), (1, B3, 2, 5)]


def test_events_of_aborted_writers_are_counted_and_left_out(tmp_path: Path) -> None:
    files = (deletes(tmp_path, 5, (1, B0, 1)), deletes(tmp_path, 6, (1, B0, 2), (1, B1, 9)))
    found = read(files, 0, ids(aborted="6"))
    assert parts(found) == [(1, B0, 1, 5)]
    assert (found.events_in, found.aborted) == (2, 1)


def test_one_row_deleted_by_two_stays_twice_in_a_minor_the_latest_first(tmp_path: Path) -> None:
    files = tuple(deletes(tmp_path, write_id, (1, B0, 1), (1, B0, 2)) for write_id in (5, 7, 6))
    found = read(files, 0, ids())
    assert parts(found) == [(1, B0, row, current) for row in (1, 2) for current in (7, 6, 5)]
    assert found.duplicates == 0
    assert [found.deleted_keys().key(index) for index in (0, 1)] == [(1, B0, 1), (1, B0, 2)]
    assert len(found.deleted_keys()) == 2
    assert found.deleted_keys().ascending()


def test_an_event_that_repeats_in_all_five_parts_is_dropped_once_and_counted(tmp_path: Path) -> None:
    """So Hive 3.1's own minor compaction leaves them: all events in every bucket file."""
    files = tuple(deletes(tmp_path, 5, (1, B0, 1), (1, B1, 2), bucket=bucket) for bucket in (0, 1, 2))
    found = read(files, 0, ids())
    assert (parts(found), found.events_in, found.duplicates) == ([(1, B0, 1, 5)], 3, 2)


def test_a_file_of_no_bytes_is_reported_and_holds_no_event(tmp_path: Path) -> None:
    empty = write(tmp_path / "delete_delta_0000005_0000005_0000" / "bucket_00000", b"")
    found = read((empty,), 0, ids())
    assert (len(found.keys), found.events_in, found.empty_files) == (0, 0, (full(empty),))
    assert len(found.deleted_keys()) == 0
    assert buckets_of(empty) == frozenset()


def test_a_stripe_without_rows_holds_no_event(tmp_path: Path) -> None:
    sample = deletes(tmp_path, 5, (1, B0, 1))
    path = tmp_path / "delete_delta_0000009_0000009" / "bucket_00000"
    path.parent.mkdir()
    root = acid_tree(row_struct(at_root().tail(sample).root))
    options = file_options(root, compression=Compression.NONE)
    sink = DATA.create(str(path))
    writer = OrcWriter(sink, options)
    for keys in (Keys.empty(), Keys.sequence(1, B0, 0, 2), Keys.empty()):
        current = longs(*[9] * len(keys))
        writer.write_stripe(encode_deletes(keys, current, options), rows=len(keys), timezone="UTC")
    writer.finish(acid_metadata([(1, B0, 1)], inserts=0, deletes=2))
    sink.close()
    file = at(path)
    assert buckets_of(file) == {0}
    assert parts(read((file,), 0, ids())) == [(1, B0, 0, 9), (1, B0, 1, 9)]


@pytest.mark.parametrize("prop", [-1, 2 << 29, 3 << 29])
def test_a_key_of_an_unknown_codec_names_file_and_stripe(tmp_path: Path, prop: int) -> None:
    bad = tables.orc_bytes(tables.acid_schema(COLUMNS), [(2, 1, prop, 0, 5, None)], STRIPES)
    file = write(tmp_path / "delete_delta_0000005_0000005" / "bucket_00000", bad)
    for call in (lambda: buckets_of(file), lambda: read((file,), 0, ids())):
        with pytest.raises(
            CorruptError, match=r"stripe 0 of \S*bucket_00000: .*bucket property -?\d+: .*codec version"
        ):
            call()


def test_a_key_of_an_unknown_codec_behind_good_statistics_names_file_and_stripe(tmp_path: Path) -> None:
    """The bucket is taken from statistics until the events themselves are read."""
    schema = tables.acid_schema(COLUMNS)
    good, bad = ([(2, 1, prop, row, 5, None) for row in (0, 1)] for prop in (B0, 2 << 29))
    orc, other = (o.read_orc(tables.orc_bytes(schema, part, tables.Layout(compression="none"))) for part in (good, bad))
    stream = other.stripes[0].stream(3, o.DATA)
    assert stream is not None
    spoilt = mutants.replace_stream(orc, 0, 3, o.DATA, other.stream_bytes(stream))
    file = write(tmp_path / "delete_delta_0000005_0000005" / "bucket_00000", spoilt)
    assert buckets_of(file) == {0}
    with pytest.raises(CorruptError, match=r"stripe 0 of \S*bucket_00000: .*bucket property 1073741824"):
        read((file,), 0, ids())


def test_more_events_than_memory_holds_are_corrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = deletes(tmp_path, 5, (1, B0, 7)), deletes(tmp_path, 6, (1, B0, 3), (1, B0, 4))

    def none_left(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("acidlib.rows.deletes.np.concatenate", none_left)
    with pytest.raises(CorruptError, match=r"delta_0000006\S*/bucket_00000: its 2 delete events do not fit"):
        read(files, 0, ids())


def test_stripes_of_other_keys_than_those_wanted_are_left_out(tmp_path: Path) -> None:
    files = tuple(deletes(tmp_path, 5 + n, *((1, B0, row) for row in range(n * 10, n * 10 + 10))) for n in range(3))
    with open_all(files) as inputs:
        ranges = read_deletes(inputs, 0, ids()).ranges
        assert list(ranges.values()) == [((1, B0, n * 10), (1, B0, n * 10 + 9)) for n in range(3)]
        for near, expected in (
            ([(1, B0, 12)], (12,)),
            ([(0, B3, 9), (1, B0, 30), (2, B0, 3)], ()),
            ([(1, B0, 29), (1, B0, 30), (1, B0, 9)], (9, 29)),
        ):
            found = read_deletes(inputs, 0, ids(), [(key, key) for key in near])
            assert [key[2] for key in parts(found)] == list(expected)
        inside = read_deletes(inputs, 0, ids(), [((1, B0, 9), (1, B0, 20))])
        assert [key[2] for key in parts(inside)] == list(range(9, 21))


def test_without_true_statistics_every_stripe_may_hold_what_is_wanted(tmp_path: Path) -> None:
    file = deletes(tmp_path, 5, (1, B0, 1), (2, B0, 2), change=without_stride)
    with open_all((file,)) as inputs:
        found = read_deletes(inputs, 0, ids(), [((2, B0, 0), (8, B0, 0))])
        assert (len(found.keys), found.events_in, list(found.ranges.values())) == (1, 2, [None])


def test_bucket_numbers_are_those_of_both_codecs() -> None:
    values = longs(0, 3, 1000, B0, B3, tables.bucket_property(4095, 4095))
    assert bucket_numbers(values).tolist() == [0, 3, 1000, 0, 3, 4095]
    assert bucket_numbers(longs()).tolist() == []
    with pytest.raises(CorruptError, match="bucket property 1073741824"):
        bucket_numbers(longs(1, 2 << 29))
