"""Looks into places as their readers do, for people who ask what is in a table. Changes nothing; starts no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from acidlib.errors import AcidError, RefusedError
from acidlib.model.names import LONG_MAX, side_file_name
from acidlib.orc.reader import read_tail
from acidlib.parquet.footer import read_footer
from acidlib.planning.state import AcidState, Role, SeenPart, acid_state, seen_parts
from acidlib.report.places import ShownPart, ShownPlace
from acidlib.service.backend import Backend
from acidlib.service.places import ListedPlace, Selection, Target
from acidlib.service.services import Services, in_threads
from acidlib.stores.listing import flush_length, list_location

_ORC, _PARQUET = b"ORC", b"PAR1"
_Rows = int | None | AcidError


def show_places(services: Services, backend: Backend, selection: Selection) -> list[ShownPlace]:
    """What is in each place that is selected; what cannot be shown says why.

    RefusedError when what is named does not exist.
    """
    found = backend.select(selection, automatic=False)
    shown = [_shown(services, target) for target in found.targets]
    return [*shown, *(replace(_named(one.target), error=one.reason) for one in found.passed_over)]


def _shown(services: Services, target: Target) -> ShownPlace:
    try:
        listing = list_location(services.fs(target.location), target.location, without_unfinished=True)
        place = target.listed(listing)
        state, unreadable = _readers_state(place)
    except AcidError as error:
        return replace(_named(target), error=str(error))
    parts = seen_parts(listing, state, place.generation)
    rows = _rows(services, place, [path for part in parts if part.role is not Role.HIDDEN for path in part.files])
    write_ids = place.write_ids
    return replace(
        _named(target),
        hive_version=place.generation.value,
        high_water_mark=None if write_ids.high_water_mark == LONG_MAX else write_ids.high_water_mark,
        open_write_ids=write_ids.open_ids,
        aborted_write_ids=write_ids.aborted_ids,
        error=unreadable,
        parts=tuple(_part(part, [rows[path] for path in part.files if path in rows]) for part in parts),
    )


def _named(target: Target) -> ShownPlace:
    return ShownPlace(
        ref=target.ref,
        location=str(target.location),
    )


def _readers_state(place: ListedPlace) -> tuple[AcidState, str | None]:
    """The state for a reader's write ids, and why no reader can read it; None when it can."""
    txns = place.target.interpretation.txns
    state_of = partial(acid_state, place.listing, place.write_ids, generation=place.generation, txns=txns)
    try:
        return state_of(), None
    except RefusedError as error:
        return state_of(require_history=False), str(error)


def _rows(services: Services, place: ListedPlace, paths: Sequence[str]) -> dict[str, _Rows]:
    """The rows of each file, None where its format does not say, or the error that kept it from being read."""
    location = place.target.location
    lengths = {file.path: file.length for file in place.listing.files}
    data, fs = services.stores.data(location), services.fs(location)

    def rows_of(path: str) -> int | None:
        length = lengths[path]
        side = side_file_name(path)
        if side in lengths:  # a streaming writer has it open, or died
            length = flush_length(fs, f"{location}/{side}", length)
        if not length:
            return 0
        with closing(data.open(f"{location}/{path}", length)) as source:
            start = source.read(0, min(len(_PARQUET), length))
            if start == _PARQUET:
                return read_footer(source).rows
            if start.startswith(_ORC) or not place.target.is_insert_only:
                return read_tail(source).rows
        return None

    done = in_threads(rows_of, paths, on_progress=lambda _: None)
    return {path: one.outcome for path, one in zip(paths, done, strict=True)}


def _part(part: SeenPart, rows: Sequence[_Rows]) -> ShownPart:
    known = [count for count in rows if isinstance(count, int)]
    damaged = [str(error) for error in rows if isinstance(error, AcidError)]
    return ShownPart(
        path=part.path,
        kind=part.kind,
        first_write_id=None if part.write_ids is None else part.write_ids[0],
        last_write_id=None if part.write_ids is None else part.write_ids[1],
        reader=part.role.value,
        why=part.why,
        files=len(part.files),
        bytes=part.bytes,
        rows=sum(known) if len(known) == len(rows) and part.role is not Role.HIDDEN else None,
        damage=damaged[0] if damaged else None,
    )
