"""The directories of places as their readers see them. Changes nothing; starts no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from acidlib.acid.names import LONG_MAX, may_have_side_files, parse_directory, side_file_name
from acidlib.acid.state import PlacePart, ReaderRole, acid_state, place_parts
from acidlib.errors import AcidError, OverMemoryError, RefusedError, known_error
from acidlib.execute.in_threads import in_threads
from acidlib.execute.services import Services, step_seconds
from acidlib.memory import DRIVER_MEMORY
from acidlib.model.results import PlacesDocument, PlaceTotals, ShownPart, ShownPlace
from acidlib.orc.reader import read_tail
from acidlib.parquet.footer import read_footer
from acidlib.places.listing import list_places
from acidlib.places.place import ListedPlace, Place
from acidlib.places.selection import Selection
from acidlib.ports.backend import Backend
from acidlib.stores.listing import flush_length, list_location
from acidlib.wording import plural

_ORC, _PARQUET = b"ORC", b"PAR1"
_Rows = int | None | AcidError


def show_places(services: Services, backend: Backend, selection: Selection) -> tuple[PlacesDocument, tuple[str, ...]]:
    """Return the selected places as documents have them, and notes; a place that cannot be shown has an error.

    RefusedError when a named place does not exist.
    """
    selected = backend.tables.select(selection, automatic=False)
    chosen, notes = selected.places, selected.notes
    if selection.idle_seconds is not None:
        _, young = list_places(services, chosen, selection.idle_seconds)
        left_out = {(passed.place.ref, passed.place.location) for passed in young}
        chosen = tuple(place for place in chosen if (place.ref, place.location) not in left_out)
        if young:
            notes = (*notes, f"{plural(len(young), 'place is', 'places are')} left out: {young[0].reason}")
    places = [_shown(services, place) for place in chosen]
    places += [_unknown(passed.place, passed.reason) for passed in selected.passed_over]
    damaged = sum(place.error is not None or any(part.damage for part in place.parts) for place in places)
    return PlacesDocument(places=tuple(places), totals=PlaceTotals(places=len(places), damaged=damaged)), notes


def _shown(services: Services, place: Place) -> ShownPlace:
    """Return a place, as far as it can be shown."""
    try:
        listing = list_location(services.fs(place.location), place.location, without_unfinished=True)
        listed = place.listed(listing)
        state_of = partial(
            acid_state,
            listing,
            listed.write_ids,
            names=listed.hive.names,
            txns=place.interpretation.txns,
        )
        try:
            state, error = state_of(), None
        except RefusedError as refusal:  # no reader can read it
            state, error = state_of(require_history=False), refusal.words
    except Exception as failure:
        return _unknown(place, known_error(failure, f"show {place.ref}").words)
    parts = place_parts(listing, state, listed.hive.names)
    rows = _rows(
        services, listed, [path for part in parts if part.role is not ReaderRole.HIDDEN for path in part.files]
    )
    write_ids = listed.write_ids
    return replace(
        _unknown(place, error),
        hive_version=listed.hive.names.value,
        high_water_mark=None if write_ids.high_water_mark == LONG_MAX else write_ids.high_water_mark,
        open_write_ids=tuple(write_ids.open_ids),
        aborted_write_ids=tuple(write_ids.aborted_ids),
        parts=tuple(_part(part, [rows[path] for path in part.files if path in rows]) for part in parts),
    )


def _unknown(place: Place, error: str | None) -> ShownPlace:
    """Return a place of which nothing but the location is known."""
    return ShownPlace(**place.ref._asdict(), location=str(place.location), error=error)


def _rows(services: Services, listed: ListedPlace, paths: Sequence[str]) -> dict[str, _Rows]:
    """Return the rows of each file, or the error that kept it from being read.

    None where its format does not say, or its tail is too large to be read for this.
    """
    location = listed.place.location
    lengths = {file.path: file.length for file in listed.listing.files}
    data, fs = replace(services.stores, memory=DRIVER_MEMORY).data(location), services.fs(location)

    def rows_of(path: str) -> int | None:
        length = lengths[path]
        side = side_file_name(path)
        directory = parse_directory(path.partition("/")[0], listed.hive.names)
        if side in lengths and may_have_side_files(directory, listed.hive.names):  # a streaming writer's
            length = flush_length(fs, f"{location}/{side}", length)
        if not length:
            return 0
        with closing(data.open(f"{location}/{path}", length)) as source:
            start = source.read(0, min(len(_PARQUET), length))
            try:
                if start == _PARQUET:
                    return read_footer(source).rows
                if start.startswith(_ORC) or not listed.place.is_insert_only:
                    return read_tail(source).rows
            except OverMemoryError:
                return None
        return None

    return dict(zip(paths, in_threads(rows_of, paths, seconds=step_seconds(services.settings)), strict=True))


def _part(part: PlacePart, rows: Sequence[_Rows]) -> ShownPart:
    first, last = part.write_ids or (None, None)
    known = [count for count in rows if isinstance(count, int)]
    damaged = [error.words for error in rows if isinstance(error, AcidError)]
    return ShownPart(
        path=part.path,
        kind=part.kind,
        first_write_id=first,
        last_write_id=last,
        reader=part.role.value,
        why=part.why,
        files=len(part.files),
        bytes=part.bytes,
        rows=sum(known) if len(known) == len(rows) and part.role is not ReaderRole.HIDDEN else None,
        damage=damaged[0] if damaged else None,
    )
