"""String dictionaries as Java's writer makes them: used entries, each once, ascending by unsigned bytes."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from orc_memory import longs, octets

from acidlib.orc.columns import KEY_THRESHOLD, Column, Dictionary, canonical
from acidlib.orc.proto import Kind


def column(words: list[bytes], entries: list[int]) -> Column:
    offsets = np.concatenate(([0], np.cumsum([len(word) for word in words]))).astype(np.int64)
    dictionary = Dictionary(offsets=offsets, data=octets(b"".join(words)))
    return Column(kind=Kind.STRING, slots=len(entries), values=longs(*entries), dictionary=dictionary)


def words_of(dictionary: Dictionary) -> list[bytes]:
    bounds = dictionary.offsets.tolist()
    return [bytes(dictionary.data)[a:b] for a, b in pairwise(bounds)]


def values_of(found: Column) -> list[bytes]:
    if found.dictionary is not None:
        words = words_of(found.dictionary)
        return [words[entry] for entry in found.values.tolist()]
    ends = np.cumsum(found.lengths).tolist()
    return [bytes(found.data)[end - size : end] for end, size in zip(ends, found.lengths.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("words", "entries"),
    [
        ([b"b", b"a"], [0, 1, 0, 1, 0]),
        ([b"a", b"b", b"a", b"b"], [0, 1, 2, 3, 3, 2, 1, 0]),
        ([b"x", b"unused", b"a"], [0, 2, 0, 2, 0]),
        ([b"", b"\x00", b"a", b"a\x00", b"\x00\x00"], [4, 3, 2, 1, 0] * 2),
        ([b"\x80", b"\x7f", b"\xff", "é".encode()], [0, 1, 2, 3] * 2),
        ([b"prefix-z", b"prefix-a", b"prefix-", b"prefix-aa"], [0, 1, 2, 3] * 2),
        ([b"a" * 300 + b"2", b"a" * 300 + b"1"], [0, 1] * 2),
        ([b"prefix-a", b"prefix-z", b"prefix-m", b"unused"], [0, 1, 2] * 2),
        ([b"prefix-\x7f", b"prefix-\x80", b"prefix-", b"prefix-\x7f"], [0, 1, 2, 3] * 2),
    ],
)
def test_entries_are_used_distinct_and_ascending_and_values_the_same(words: list[bytes], entries: list[int]) -> None:
    given = column(words, entries)
    found = canonical(given)
    assert found.dictionary is not None
    assert words_of(found.dictionary) == sorted({words[entry] for entry in entries})
    assert values_of(found) == [words[entry] for entry in entries]


def test_a_dictionary_in_order_stays() -> None:
    given = column([b"", b"a", b"ab", b"b", b"same start 1", b"same start 2"], [5, 4, 3, 2, 1, 0] * 2)
    assert canonical(given).dictionary is given.dictionary


def test_random_dictionaries_agree_with_pythons_sorting() -> None:
    generator = random.Random(3)
    for _ in range(60):
        start = b"the same start" * generator.randrange(2)
        words = [start + bytes(generator.choices(b"\x00a\xff", k=generator.randrange(10))) for _ in range(40)]
        entries = [generator.randrange(generator.choice([1, 40])) for _ in range(100)]
        found = canonical(column(words, entries))
        assert found.dictionary is not None
        assert words_of(found.dictionary) == sorted({words[entry] for entry in entries})
        assert values_of(found) == [words[entry] for entry in entries]


def test_above_the_threshold_of_distinct_strings_the_column_becomes_direct() -> None:
    assert KEY_THRESHOLD == 0.8
    words = [b"a", b"b", b"c", b"d", b"e"]
    kept = canonical(column(words, [0, 1, 2, 3, 3]))  # 4 of 5 are not above 0.8
    assert kept.dictionary is not None
    direct = canonical(column(words, [0, 1, 2, 3, 4]))
    assert direct.dictionary is None
    assert values_of(direct) == words


def test_nulls_keep_their_slots() -> None:
    given = column([b"b", b"a"], [0, 1, 0])
    given.slots, given.present = 5, np.array([True, False, True, False, True])
    for found in (canonical(given), canonical(column([b"b", b"a"], []))):
        assert values_of(found) == ([b"b", b"a", b"b"] if found.slots else [])
    assert canonical(given).present is given.present
    assert (canonical(given).slots, canonical(given).count) == (5, 3)


def test_a_direct_column_is_left_alone() -> None:
    given = Column(kind=Kind.STRING, slots=1, lengths=longs(1), data=octets(b"a"))
    assert canonical(given) is given
