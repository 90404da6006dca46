"""Verification of results: when a run verifies, and whether readers see now what they saw before.

Does a result read as what it was made of? Both are read by another reader than the one that compacted.

What was seen before are the directories of the plan, which still lie there. The result is read where it is staged, as
readers would take it; or, where nothing that is staged can be read, once it is published, from a fresh listing. Both
go by the same write ids. A major is compared by the rows that are visible, a minor by the rows and the delete events
that it merged: with the same base below, as many and the same of both are the same visible rows, for every reader.
After a rebalance rows are in other buckets, under other ids: all of them together are the same rows of the same write
ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from acidlib.errors import AcidError, ConflictError, CorruptError, UnverifiedError
from acidlib.model.listing import ListedFile
from acidlib.model.names import BaseDir, parse_directory
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.units import DataFile, JoinUnit, JoinWay
from acidlib.planning.inputs import InputDirectory, Role, directories_read
from acidlib.planning.results import chosen_buckets, parse_verify_share, quarantine_reason, shows_unverified
from acidlib.planning.units import schema_file
from acidlib.report.results import Verification
from acidlib.rewrite.inputs import InputFiles
from acidlib.service.backend import CompactionHold
from acidlib.service.places import ListedPlace, Target
from acidlib.service.plan import Prepared, with_logical_lengths
from acidlib.service.schedule import run_tasks
from acidlib.service.services import Services, Task
from acidlib.service.tasks import AnyUnit, delete_buckets_task, reader_task, tally_task
from acidlib.stores.listing import list_location
from acidlib.stores.store import Stage, StagedDirectory
from acidlib.verify.tally import BucketView, PlainView, Tally

VERIFY = "acidlib.verify"
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What is to be verified.

    place      as it was listed before anything was made, with the `directories` that were read of it then
    kind       of the compaction as it was carried out
    schema     the file whose columns are the table's where these are not stated
    ways       how files of an insert-only table were joined, by their paths
    results    the directories of the result
    staged     these with their files, where they are not published yet; `stage` is the directory in which they lie
    marked     those of them that will have the mark of a compacted base
    """

    place: ListedPlace
    directories: tuple[InputDirectory, ...]
    kind: CompactionType
    schema: DataFile | None
    ways: dict[str, JoinWay]
    results: tuple[str, ...]
    staged: tuple[StagedDirectory, ...] = ()
    stage: str = ""
    marked: frozenset[str] = frozenset()

    @property
    def target(self) -> Target:
        """What was compacted."""
        return self.place.target

    def as_read(self, services: Services) -> ListedPlace:
        """Return the place as its readers see it once the result counts.

        By a fresh listing, or by what it will be once the result is published; a transaction of ours has not committed.
        """
        before, understood = self.place.listing, self.target.interpretation
        if self.staged:
            made = (
                ListedFile(path=f"{directory.name}/{name}", length=length, modified=0.0)
                for directory in self.staged
                for name, length in directory.files.items()
            )
            listing = replace(
                before,
                files=(*before.files, *made),
                directories=(*before.directories, *self.results),
                compacted_bases=before.compacted_bases | self.marked,
            )
        else:
            location = self.target.location
            listing = list_location(services.fs(location), location, missing=ConflictError)
        if understood.visible_on_commit and understood.visibility_txn is not None:
            txns = understood.txns.with_committed(understood.visibility_txn)
            understood = replace(understood, txns=txns)
        return replace(self.target, interpretation=understood).listed(listing)


class Verifier:
    """Verifies the results of one run, if it is to; `release_held`: what is at a place counts, a person says so."""

    def __init__(self, services: Services, *, release_held: bool) -> None:
        self._services = services
        self._release_held = release_held
        self._share = parse_verify_share(services.settings.text(VERIFY))

    @property
    def is_wanted(self) -> bool:
        """True where results are verified."""
        return self._share is not None

    def tasks(self) -> list[Task]:
        """Return what has to go well before anything is made."""
        return [Task(reader_task, 0, "look")] if self.is_wanted else []

    @contextmanager
    def around_publication(self, held: CompactionHold, directories: tuple[str, ...]) -> Iterator[None]:
        """Surround the publication of what cannot be read before that: what readers see then is not verified yet."""
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

    async def compare(self, done: Compacted, request_id: int | None, share: float) -> Verification:
        """Compare so many of the buckets; UnverifiedError where something differs, or cannot be read."""
        found = Verification(share=share, before=_names(done.directories))
        try:
            return await _compare(self._services, done, found, request_id)
        except UnverifiedError:
            raise
        except AcidError as error:
            raise UnverifiedError(_reason(done, str(error), found)) from error

    def why_not(self, request: CompactionRequest | None, target: Target) -> str | None:
        """Return why nothing is done at a place that is held for a request; None where it is not, or this run verifies
        what it makes, or what is left there, before anything is made of it.
        """
        if request is None or self._release_held:
            return None
        insert_only = target.is_insert_only
        may_verify = not shows_unverified(request) or not (request.facts.differs or insert_only)
        if self.is_wanted and may_verify:
            return None
        return f"Cannot compact {target.ref}: {quarantine_reason(request, insert_only=insert_only)}"

    async def released(self, held: CompactionHold, place: ListedPlace) -> tuple[str | None, Verification | None, float]:
        """Return why nothing may be done at a place that is quarantined, what was compared to find that out, and the
        share of the buckets that are to be compared of the next result.

        What a run left that ended before it had verified it is verified here: all it was made of is still there. After
        a result that could not be verified all buckets are: another sample may not meet what was wrong.
        """
        request = held.quarantining_request(place.listing)
        why_not, share = self.why_not(request, place.target), self._share or 1.0
        if request is None or self._release_held or why_not is not None:
            return why_not, None, share
        if not shows_unverified(request):
            return None, None, 1.0
        held.will_verify(request.facts.unverified or ())
        left = left_behind(self._services, place, request.facts.unverified or ())
        found = await self.compare(left, request.id, share)
        verified = f"the result of request {request.id}, whose run had ended before that, is verified"
        self._services.progress.note(verified, place=str(held.target.ref))
        return None, found, share


def made_by(
    plan: Prepared,
    units: tuple[AnyUnit, ...],
    directories: tuple[StagedDirectory, ...],
    stage: Stage,
) -> Compacted:
    """Return what a compaction has made of its plan; it is published already where its stage cannot be read."""
    below = f"{stage.path.removeprefix(f'{plan.place.target.location}/')}" if stage.is_readable else ""
    ways: dict[str, JoinWay] = {}
    for unit in units:
        if isinstance(unit, JoinUnit):
            made = f"{unit.directory}/{unit.file_name}"
            ways[f"{below}/{made}" if below else made] = unit.way
            ways.update({file.path: unit.way for file in unit.inputs})
    return Compacted(
        place=plan.place,
        directories=plan.inputs.directories,
        kind=plan.inputs.kind,
        schema=plan.schema,
        ways=ways,
        results=tuple(directory.name for directory in directories),
        staged=directories if below else (),
        stage=below,
        marked=frozenset(
            output.name for output in plan.inputs.outputs if isinstance(output, BaseDir) and not output.visibility_txn
        ),
    )


def left_behind(services: Services, place: ListedPlace, published: tuple[str, ...]) -> Compacted:
    """Return what a run made at a full ACID place that ended before it had verified it; `place` is as it is now."""
    location, stores = place.target.location, services.stores
    before = place.target.listed(place.listing.without(published))
    is_base = any(isinstance(parse_directory(name, place.generation), BaseDir) for name in published)
    kind = CompactionType.MAJOR if is_base else CompactionType.MINOR
    directories = directories_read(before.state, before.listing, kind, insert_only=False)
    directories = with_logical_lengths(stores.fs(location), location, directories)
    files = InputFiles(location, stores.data(location))
    return Compacted(
        place=before,
        directories=directories,
        kind=kind,
        schema=schema_file(directories, lambda file: files.tail(file).rows > 0),
        ways={},
        results=published,
    )


async def _compare(services: Services, done: Compacted, found: Verification, request_id: int | None) -> Verification:
    location = done.target.location
    fs, insert_only = services.fs(location), done.target.is_insert_only
    place = done.as_read(services)
    read = directories_read(place.state, place.listing, done.kind, insert_only=insert_only)
    now = with_logical_lengths(fs, location, read)
    if done.staged:  # where their files can be read now
        staged = [
            replace(one, files=tuple(replace(file, path=f"{done.stage}/{file.path}") for file in one.files))
            for one in now
        ]
        now = tuple(lies if one.path in done.results else one for one, lies in zip(now, staged, strict=True))
    found = replace(found, now=_names(now))
    if (why_not := _not_taken(done, place)) is not None:
        raise UnverifiedError(_reason(done, why_not, found))
    about = await _buckets_of_deletes(services, done, now)
    buckets = {
        file.bucket for one in (*done.directories, *now) if one.role is not Role.DELETE_DELTA for file in one.files
    }
    if done.kind is CompactionType.MINOR:
        buckets |= set[int]().union(*about.values())
    rebalanced = done.kind is CompactionType.REBALANCE
    share = 1.0 if rebalanced else found.share
    chosen = chosen_buckets(buckets, share, place=str(location), request=request_id)
    views = [_view(services, done, about, side, bucket) for bucket in chosen for side in (done.directories, now)]
    tasks = [Task(partial(tally_task, one, services.stores), one.length, "verify") for one in views]
    tallies: list[Tally] = await run_tasks(*tasks)
    pairs = dict(zip(chosen, zip(tallies[::2], tallies[1::2], strict=True), strict=True))
    compared = [(f"bucket {bucket} has", *sides) for bucket, sides in pairs.items()]
    if rebalanced:
        before, after = (reduce(Tally.with_more, tallies[side::2], Tally()) for side in (0, 1))
        compared = [("all buckets together have", before, after)]
    different = [f"{what} {words}" for what, before, after in compared if (words := before.differs_from(after))]
    found = replace(
        found,
        share=share,
        buckets=chosen,
        of_buckets=len(buckets),
        rows=sum(before.rows for before, _ in pairs.values()),
        events=sum(before.events for before, _ in pairs.values()),
        seconds=sum(tally.seconds for tally in tallies),
    )
    if different:
        more = f" and {len(different) - _SHOWN} more buckets" if len(different) > _SHOWN else ""
        raise UnverifiedError(_reason(done, "; ".join(different[:_SHOWN]) + more, found))
    return found


def _not_taken(done: Compacted, now: ListedPlace) -> str | None:
    """Return why readers do not take the result in place of what it was made of, over what was below it; None if so."""
    base = None if now.state.base is None else now.state.base.path
    if done.kind.makes_base and base not in done.results:
        return f"readers take {base or 'no base'}, not {', '.join(done.results)}"
    kept = {one.path for one in done.directories if one.path} & {delta.path for delta in now.state.deltas}
    if kept:
        return f"readers still take {min(kept)}, which was compacted"
    if done.kind is CompactionType.MINOR and _below(done.place) != _below(now):
        return "what lies below the deltas has changed"
    return None


def _below(place: ListedPlace) -> Any:
    state, listing = place.state, place.listing
    base = None if state.base is None else state.base.path
    files = [file for file in listing.files if file.directory == base] if base is not None else state.originals
    return base, tuple(files)


async def _buckets_of_deletes(
    services: Services, done: Compacted, now: tuple[InputDirectory, ...]
) -> dict[str, frozenset[int]]:
    """Return the buckets of each delete file, by its path: Hive 3.1 leaves events in files of any number."""
    files = {
        file.path: file
        for one in (*done.directories, *now)
        if one.role is Role.DELETE_DELTA
        for file in one.files
        if not file.aborted
    }
    look = partial(delete_buckets_task, services.stores, done.target.location)
    answers = await run_tasks(*(Task(partial(look, file), file.length, "look") for file in files.values()))
    return dict(zip(files, answers, strict=True))


def _view(
    services: Services,
    done: Compacted,
    about: dict[str, frozenset[int]],
    side: Sequence[InputDirectory],
    bucket: int,
) -> BucketView | PlainView:
    """Return a bucket as one side has it, to be read and counted."""
    target, place = done.target, done.place
    files = tuple(
        file for one in side if one.role is not Role.DELETE_DELTA for file in one.files if file.bucket == bucket
    )
    if target.is_insert_only:
        files = tuple(file for file in files if not file.aborted)
        if unknown := [file.path for file in files if file.path not in done.ways]:
            raise CorruptError(f"Cannot verify {unknown[0]}: it is not known how it was made")
        ways = tuple((file, done.ways[file.path]) for file in files)
        return PlainView(location=target.location, bucket=bucket, files=ways)
    return BucketView(
        location=target.location,
        bucket=bucket,
        files=files,
        deletes=tuple(
            file
            for one in side
            if one.role is Role.DELETE_DELTA
            for file in one.files
            if bucket in about.get(file.path, ())
        ),
        applied=done.kind.makes_base,
        renumbered=done.kind is CompactionType.REBALANCE,
        write_ids=place.write_ids.for_compactor(),
        results=done.results,
        columns=target.row_type(),
        schema=done.schema,
        matching=target.matching(services.settings, place.generation),
        generation=place.generation,
    )


def _names(directories: Sequence[InputDirectory]) -> tuple[str, ...]:
    return tuple(one.path or "original files" for one in directories)


def _reason(done: Compacted, what: str, found: Verification) -> str:
    """Return what differs, between which directories, what readers see, and what to do."""
    target = done.target
    sides = f"before: {', '.join(found.before)}; now: {', '.join(found.now) or 'not listed'}"
    if done.staged or target.interpretation.visible_on_commit:
        then = (
            "Nothing was published: readers see what they saw. Compact it again with --verify, or with --release-held "
            "if the result is right; without either it is refused"
        )
    else:
        then = (
            "Readers see the result, and all it was made of is still there. Nothing is cleaned or compacted there "
            f"until the operator decides: remove {' and '.join(done.results)} if that is wrong, or run the compaction "
            "again with --release-held if it is right"
        )
    return f"Cannot vouch for the compaction of {target.ref}: {what} ({sides}). {then}"
