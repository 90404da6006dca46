"""Which tasks run together: small ones share a task of the executor, because each of those costs more than their work.

Starting a task of Spark takes some ten milliseconds, joining two small files one. So small tasks are dealt out over the
executors' free places, as many to each as wait; a large one has a place of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from acidlib.model.units import MEBIBYTE

SMALL_BYTES = 8 * MEBIBYTE
"""A task with less input than this is small: it takes about as long as it takes to start one."""
BATCH_BYTES = 64 * MEBIBYTE
"""Small tasks with more input than this together are not worth one task."""
BATCH_TASKS = 64
_LIKE = 4


def batches(lengths: Sequence[int], free: int) -> list[list[int]]:
    """The tasks to start now on so many free places, by their numbers: each list shares one place.

    lengths  input bytes of the tasks that wait, those that wait longest first; what does not fit goes on waiting
    """
    large: list[int] = []
    small: list[int] = []
    for number, length in enumerate(lengths):
        if length >= SMALL_BYTES and len(large) + bool(small) < free:
            large.append(number)
        elif length < SMALL_BYTES and len(large) < free:
            small.append(number)
    return [[number] for number in large] + _dealt(lengths, small, free - len(large))


def _dealt(lengths: Sequence[int], small: Sequence[int], places: int) -> list[list[int]]:
    """Small tasks over some places, the largest first: in turns, so that none gets all that are large."""
    waiting = list(small[: places * BATCH_TASKS])
    dealt: list[list[int]] = [[] for _ in range(min(places, len(waiting)))]
    filled = [0] * len(dealt)
    for turn, number in enumerate(sorted(waiting, key=lambda number: -lengths[number])):
        place = turn % len(dealt)
        if not dealt[place] or filled[place] + lengths[number] <= BATCH_BYTES:
            dealt[place].append(number)
            filled[place] += lengths[number]
    return dealt


def alike(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Batches, by their numbers, that take about as long as each other: who waits for all waits for none in vain.

    most  so many at a time: the more there are, the longer the last one takes
    """
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    group: list[int] = []
    for number in order:
        unlike = group and lengths[number] * _LIKE < lengths[group[0]] and lengths[group[0]] >= SMALL_BYTES
        if unlike or len(group) == most:
            yield group
            group = []
        group.append(number)
    if group:
        yield group
