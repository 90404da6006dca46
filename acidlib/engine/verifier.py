"""When results of a run are verified, and what that does to a place."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from acidlib.engine.backend import HeldPlace
from acidlib.engine.runner import Done, Task
from acidlib.engine.services import Services
from acidlib.engine.target import ListedPlace, Target
from acidlib.engine.units import Errand
from acidlib.engine.verification import VERIFY, Checking, Compacted, left_behind, verify
from acidlib.engine.verify_tasks import reader_task
from acidlib.errors import AcidError, ConflictError
from acidlib.model.requests import CompactionRequest
from acidlib.planning.verification import has_failed, share_of, shows, why_held
from acidlib.report.results import Verification
from acidlib.storage.listing import list_location


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """That nothing holds a place, or `why_not`; and what was compared to find that out.

    share  of the buckets that are to be compared of the next result; all after one that could not be verified, for
           another sample may not meet what was wrong
    """

    why_not: str | None = None
    verification: Verification | None = None
    share: float = 1.0


class Verifier:
    """Verifies the results of one run, if it is to; `release_held`: what is at a place counts, a person says so."""

    def __init__(self, services: Services, *, release_held: bool) -> None:
        self._services = services
        self._release_held = release_held
        self._share = share_of(services.settings.text(VERIFY))

    @property
    def is_wanted(self) -> bool:
        """Whether results are verified."""
        return self._share is not None

    def tasks(self) -> list[Task]:
        """What has to go well before anything is made."""
        return [Task(reader_task, None, 0, "look")] if self.is_wanted else []

    @contextmanager
    def around_publication(self, held: HeldPlace, directories: tuple[str, ...]) -> Iterator[None]:
        """Around the publication of what cannot be read before that: what readers see then is not verified yet."""
        held.will_verify(directories)
        try:
            yield
        except AcidError:
            with suppress(AcidError):  # what is noted for nothing does no harm, but a status tells it
                location = held.target.location
                there = list_location(self._services.fs(location), location, missing=ConflictError).top_directories()
                if not any(name in there for name in directories):
                    held.will_verify(())
            raise

    def compared(self, done: Compacted, request_id: int, share: float) -> Checking:
        """Compare so many of the buckets; UnverifiedError where the result is not what it was made of."""
        return (yield from verify(self._services, done, share=share, request_id=request_id))

    def why_not(self, request: CompactionRequest | None, target: Target) -> str | None:
        """Return why nothing is done at a place that is held for a request; None where it is not, or this run verifies
        what it makes, or what is left there, before anything is made of it.
        """
        if request is None or self._release_held:
            return None
        insert_only = target.is_insert_only
        may_verify = not shows(request) or not (has_failed(request) or insert_only)
        if self.is_wanted and may_verify:
            return None
        return f"Cannot compact {target.name}: {why_held(request, insert_only=insert_only)}"

    def released(self, held: HeldPlace, place: ListedPlace) -> Generator[tuple[Errand, ...], list[Done[Any]], Released]:
        """Return whether a place is held for a result that was not verified.

        What a run left that ended before it had verified it is verified here: all it was made of is still there.
        """
        request = held.unverified(place.listing)
        why_not, share = self.why_not(request, place.target), self._share or 1.0
        if request is None or self._release_held or why_not is not None:
            return Released(why_not=why_not, share=share)
        if not shows(request):
            return Released()
        held.will_verify(request.facts.unverified or ())
        left = left_behind(self._services, place, request.facts.unverified or ())
        found = yield from self.compared(left, request.id, share)
        verified = f"the result of request {request.id}, whose run had ended before that, is verified"
        self._services.progress.note(verified, place=held.target.name)
        return Released(verification=found, share=share)
