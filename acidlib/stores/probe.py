"""Trying the promises of a store below a location, in a folder that goes again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from acidlib.acid.names import is_acid_directory_name
from acidlib.errors import AcidError, ConflictError, RefusedError
from acidlib.location import Location
from acidlib.model.results import PromiseState, TriedPromise
from acidlib.model.tables import is_partition_directory
from acidlib.stores.promises import BrokenPromiseError, Promise
from acidlib.stores.store import PROBE, Store


def try_promises(
    store: Store, location: Location, *, unique: str, only_quick: bool = False, note: Callable[[str], None]
) -> Iterator[TriedPromise]:
    """Try the promises of a store below a location, and yield each once it was tried.

    unique  a text that no other probe uses
    note    is told why the folder stays, if it does

    AcidError where the folder cannot be made.
    """
    with _folder(store, location, unique, note) as folder:
        for number, promise in enumerate(store.promises(), 1):
            if promise.is_quick or not only_quick:
                yield _tried(promise, f"{folder}/{number}")


def folders_left(store: Store, location: Location) -> tuple[str, ...]:
    """Return the folders of other probes below a location: those that were killed have left them."""
    try:
        entries = store.fs.list_directory(str(location), missing=ConflictError)
    except ConflictError:
        return ()
    left = [entry.name for entry in entries if entry.is_directory and entry.name.startswith(f"{PROBE}.")]
    return tuple(str(location.child(name)) for name in left)


def is_in_table(store: Store, location: Location) -> bool:
    """Return whether a location is a table or lies in one, as far as names tell: a record there counts for no table."""
    names = [entry.name for entry in store.fs.list_directory(str(location), missing=ConflictError)]
    return any(is_acid_directory_name(name) or is_partition_directory(name) for name in (*names, location.name))


def require_promises(store: Store, location: Location, *, unique: str) -> None:
    """Try the quick promises of a store below a location; RefusedError for a broken one."""
    with _folder(store, location, unique, lambda _: None) as folder:
        for number, promise in enumerate(store.promises(), 1):
            try:
                if promise.is_quick:
                    promise.trial(f"{folder}/{number}")
            except BrokenPromiseError as error:
                raise RefusedError(
                    f"Cannot publish to {location}: {error}, so that of two runs both would win; `acidlib probe` "
                    "tries all that its store has to keep"
                ) from error


@contextmanager
def _folder(store: Store, location: Location, unique: str, note: Callable[[str], None]) -> Iterator[str]:
    """Make a folder for trials, and remove it at the end, also after Ctrl-C."""
    name = f"{PROBE}.{unique}"
    folder = str(location.child(name))
    store.make_folder(folder)
    try:
        yield folder
    finally:
        try:
            store.fs.remove_tree(str(location), name)
        except ConflictError:
            pass  # nothing is in it
        except AcidError as error:
            note(f"{folder} is left, and holds nothing that is needed: {error}")


def _tried(promise: Promise, place: str) -> TriedPromise:
    state = PromiseState.HOLDS if promise.is_shown else PromiseState.NOT_TRIED
    try:
        seen = promise.trial(place)
    except BrokenPromiseError as error:
        state, seen = PromiseState.BROKEN, error.words
    except AcidError as error:
        state, seen = PromiseState.FAILED, error.words
    return TriedPromise(name=promise.name, sentence=promise.sentence, state=state, seen=seen)
