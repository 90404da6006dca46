"""Verification of results: when a run verifies, and whether readers see the same rows as before.

A second reader, other than the one that compacted, reads the inputs and the result. The inputs are the directories of
the plan, which still lie there. The result is read where it is staged, as readers would take it; if a stage cannot be
read, the result is read from a fresh listing once it is published. Both sides have the same write ids. A major is
compared by the visible rows, a minor by the rows and delete events that it merged: over the same base, equal rows and
events are equal visible rows for every reader. After a rebalance rows are in other buckets and have other ids, so all
of them together have to be the same rows of the same write ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from acidlib.acid.listing import ListedFile
from acidlib.acid.names import METADATA_ACID_FILE, BaseDir, parse_directory
from acidlib.arguments import RELEASE_HELD
from acidlib.arguments import VERIFY as VERIFY_ARGUMENT
from acidlib.errors import AcidError, ConflictError, CorruptError, UnverifiedError
from acidlib.execute.schedule import run_tasks
from acidlib.execute.services import Services
from acidlib.execute.task import Task
from acidlib.execute.tasks import delete_buckets_task, reader_task, tally_task
from acidlib.model.requests import CompactionRequest, CompactionType
from acidlib.model.results import Verification
from acidlib.model.units import DataFile, JoinUnit, JoinWay
from acidlib.places.place import ListedPlace, Place
from acidlib.planning.inputs import InputDirectory, directories_read
from acidlib.planning.results import chosen_buckets, parse_verify_share, quarantine_reason, shows_unverified
from acidlib.planning.units import delete_files, row_files
from acidlib.ports.holds import CompactionHold
from acidlib.runs.plan import PlacePlan, Tails, schema_file, with_logical_lengths, with_tails
from acidlib.stores.listing import list_location
from acidlib.stores.store import Stage, StagedDirectory, marker_files
from acidlib.verify.tally import BucketView, PlainView, Tally

VERIFY = "acidlib.verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultToVerify:
    """The result of a compaction, and the inputs with which it is compared.

    listed       as it was listed before the compaction, with the directories that were its `inputs`
    kind         of the compaction as it was carried out
    schema       the file whose columns are the table's where these are not stated
    ways         how files of an insert-only table were joined, by their paths
    directories  the names of the result's directories
    staged       the same with their files, if they are not published yet; `stage` is the directory in which they lie
    """

    listed: ListedPlace
    inputs: tuple[InputDirectory, ...]
    kind: CompactionType
    schema: DataFile | None
    ways: Mapping[str, JoinWay]
    directories: tuple[str, ...]
    staged: tuple[StagedDirectory, ...] = ()
    stage: str = ""


def result_to_verify(plan: PlacePlan, directories: tuple[StagedDirectory, ...], stage: Stage) -> ResultToVerify:
    """Return the result of a compaction; it is verified once it is published if its stage cannot be read."""
    listed, inputs = plan.listed, plan.inputs
    below = stage.path.removeprefix(f"{listed.place.location}/") if stage.is_readable else ""
    ways: dict[str, JoinWay] = {}
    for unit in plan.files:
        if isinstance(unit, JoinUnit):
            path = f"{unit.directory}/{unit.file_name}"
            ways[f"{below}/{path}" if below else path] = unit.way
            ways.update({file.path: unit.way for file in unit.inputs})
    return ResultToVerify(
        listed=listed,
        inputs=inputs.directories,
        kind=inputs.kind,
        schema=inputs.schema,
        ways=ways,
        directories=tuple(directory.name for directory in directories),
        staged=directories if below else (),
        stage=below,
    )


def _unverified_result(
    services: Services, listed: ListedPlace, published: tuple[str, ...], tails: Tails
) -> ResultToVerify:
    """Return the result that a dead run published at a full ACID place and did not verify; `listed` is as it is now."""
    location, stores = listed.place.location, services.stores
    before = listed.place.listed(listed.listing.without(published))
    is_base = any(isinstance(parse_directory(name, listed.hive.names), BaseDir) for name in published)
    kind = CompactionType.MAJOR if is_base else CompactionType.MINOR
    inputs = directories_read(before.state, before.listing, kind, names=listed.hive.names, insert_only=False)
    inputs = with_logical_lengths(stores.fs(location), location, inputs)
    return ResultToVerify(
        listed=before,
        inputs=inputs,
        kind=kind,
        schema=schema_file(inputs, tails),
        ways={},
        directories=published,
    )


class Verifier:
    """Verifies the results of one run if the settings ask for it.

    release_held  the operator has declared quarantined results right (`--release-held`)
    """

    def __init__(self, services: Services, *, release_held: bool) -> None:
        self._services = services
        self._release_held = release_held
        share = parse_verify_share(services.settings.text(VERIFY))
        self.is_wanted = share is not None
        """Whether results are verified."""
        self.share = share or 1.0
        """The share of their buckets that is compared."""

    def tasks(self) -> list[Task]:
        """Return the tasks that have to succeed before any file is made."""
        return [Task(reader_task, 0, "look")] if self.is_wanted else []

    def refusal_reason(self, request: CompactionRequest, place: Place) -> str | None:
        """Return why a place that is quarantined for a request is not compacted, or None.

        None also if this run will verify: its own new result, or first the unverified result of the crashed run.
        """
        if self._release_held:
            return None
        insert_only = place.is_insert_only
        may_verify = not shows_unverified(request) or not (request.facts.differs or insert_only)
        if self.is_wanted and may_verify:
            return None
        return f"Cannot compact {place.ref}: {quarantine_reason(request, insert_only=insert_only)}"

    async def lift_quarantine(
        self, hold: CompactionHold, listed: ListedPlace, request: CompactionRequest
    ) -> tuple[Verification | None, float]:
        """Return the comparison that lets a place be compacted that is quarantined for a request, and a share.

        The share is that of the buckets of the next result to compare. A result that a dead run left unverified is
        verified here: its inputs are all still there. After a result that failed its verification all buckets are
        compared: another sample may miss the fault.
        """
        if self._release_held:
            return None, self.share
        if not shows_unverified(request):
            return None, 1.0
        directories = request.facts.unverified or ()
        hold.will_verify(directories)
        result = await with_tails(
            self._services.stores,
            listed.place.location,
            lambda tails: _unverified_result(self._services, listed, directories, tails),
        )
        verification = await self.compare(result, request.id, self.share)
        note = f"the result of request {request.id}, whose run had ended before that, is verified"
        self._services.progress.note(note, place=str(hold.place.ref))
        return verification, self.share

    @contextmanager
    def around_publication(self, hold: CompactionHold, directories: tuple[str, ...]) -> Iterator[None]:
        """Surround a publication whose result is verified only afterwards: until then readers see it unverified."""
        hold.will_verify(directories)
        try:
            yield
        except AcidError:
            with suppress(AcidError):  # a note about a result that is not there does no harm, but the status shows it
                location = hold.place.location
                there = list_location(self._services.fs(location), location, missing=ConflictError).top_directories()
                if not any(name in there for name in directories):
                    hold.will_verify(())
            raise

    async def compare_staged(self, hold: CompactionHold, result: ResultToVerify, share: float) -> Verification:
        """Compare as `compare` does, before readers see the result; ConflictError if the stage may have been taken."""
        hold.will_verify(())
        try:
            return await self.compare(result, hold.request.id, share)
        except UnverifiedError:
            hold.assert_mine()
            raise

    async def compare(self, result: ResultToVerify, request_id: int | None, share: float) -> Verification:
        """Compare a share of the buckets; UnverifiedError if something differs, or cannot be read."""
        verification = Verification(share=share, before=_labels(result.inputs))
        try:
            return await _compare(self._services, result, verification, request_id)
        except UnverifiedError:
            raise
        except AcidError as error:
            raise UnverifiedError(_message(result, error.words, verification)) from error


_SHOWN = 3


async def _compare(
    services: Services, result: ResultToVerify, verification: Verification, request_id: int | None
) -> Verification:
    location = result.listed.place.location
    now = _place_with_result(services, result)
    read = directories_read(
        now.state, now.listing, result.kind, names=now.hive.names, insert_only=now.place.is_insert_only
    )
    after = with_logical_lengths(services.fs(location), location, read)
    verification = replace(verification, now=_labels(after))
    if (reason := _not_read_reason(result, now)) is not None:
        raise UnverifiedError(_message(result, reason, verification))
    if result.staged:  # the files lie in the stage still
        in_stage = [
            replace(entry, files=tuple(replace(file, path=f"{result.stage}/{file.path}") for file in entry.files))
            for entry in after
        ]
        pairs = zip(after, in_stage, strict=True)
        after = tuple(staged if entry.path in result.directories else entry for entry, staged in pairs)
    sides = (result.inputs, after)
    directories = (*result.inputs, *after)
    # Hive 3.1 leaves delete events in files of any number
    events = {file.path: file for file in delete_files(directories) if not file.aborted}
    look, memory = partial(delete_buckets_task, services.stores, location), services.stores.memory
    answers = await run_tasks(
        *(Task(partial(look, file), file.length, "look", f"{location}/{file.path}", memory) for file in events.values())
    )
    delete_buckets: dict[str, frozenset[int]] = dict(zip(events, answers, strict=True))
    buckets = {file.bucket for file in row_files(directories)}
    if result.kind is CompactionType.MINOR:
        buckets |= set[int]().union(*delete_buckets.values())
    is_rebalance = result.kind is CompactionType.REBALANCE
    share = 1.0 if is_rebalance else verification.share
    chosen = chosen_buckets(buckets, share, place=str(location), request=request_id)
    views = [_view(services, result, delete_buckets, side, bucket) for bucket in chosen for side in sides]
    tasks = [
        Task(
            partial(tally_task, view, services.stores),
            view.length,
            "verify",
            f"bucket {view.bucket} of {location}",
            memory,
        )
        for view in views
    ]
    tallies: list[Tally] = await run_tasks(*tasks)
    tally_pairs = list(zip(tallies[::2], tallies[1::2], strict=True))
    compared = [(f"bucket {bucket} has", *pair) for bucket, pair in zip(chosen, tally_pairs, strict=True)]
    if is_rebalance:
        total_before, total_after = (reduce(Tally.with_more, tallies[side::2], Tally()) for side in (0, 1))
        compared = [("all buckets together have", total_before, total_after)]
    differences = [
        f"{subject} {words}"
        for subject, tally_before, tally_after in compared
        if (words := tally_before.differs_from(tally_after))
    ]
    verification = replace(
        verification,
        share=share,
        buckets=chosen,
        of_buckets=len(buckets),
        rows=sum(tally_before.rows for tally_before, _ in tally_pairs),
        events=sum(tally_before.events for tally_before, _ in tally_pairs),
        seconds=sum(tally.seconds for tally in tallies),
    )
    if differences:
        more = f" and {len(differences) - _SHOWN} more buckets" if len(differences) > _SHOWN else ""
        raise UnverifiedError(_message(result, "; ".join(differences[:_SHOWN]) + more, verification))
    return verification


def _place_with_result(services: Services, result: ResultToVerify) -> ListedPlace:
    """Return the place as its readers see it once the result counts, our own transaction committed.

    A published result is listed afresh; a staged one is added to the listing from before.
    """
    before, place = result.listed.listing, result.listed.place
    if result.staged:
        files = (
            ListedFile(path=f"{directory.name}/{name}", length=length, modified=0.0)
            for directory in result.staged
            for name, length in directory.files.items()
        )
        marked = {name for name in result.directories if METADATA_ACID_FILE in marker_files(name)}
        listing = replace(
            before,
            files=(*before.files, *files),
            directories=(*before.directories, *result.directories),
            compacted_bases=before.compacted_bases | marked,
        )
    else:
        listing = list_location(services.fs(place.location), place.location, missing=ConflictError)
    interpretation = place.interpretation
    if interpretation.visible_on_commit and interpretation.visibility_txn is not None:
        txns = interpretation.txns.with_committed(interpretation.visibility_txn)
        interpretation = replace(interpretation, txns=txns)
    return replace(place, interpretation=interpretation).listed(listing)


def _not_read_reason(result: ResultToVerify, now: ListedPlace) -> str | None:
    """Return why readers do not read the result in place of its inputs, over the same base; None if they do."""
    base = None if now.state.base is None else now.state.base.path
    if result.kind.makes_base and base not in result.directories:
        return f"readers take {base or 'no base'}, not {', '.join(result.directories)}"
    inputs = {directory.path for directory in result.inputs}
    if kept := inputs.intersection(delta.path for delta in now.state.deltas):
        return f"readers still take {min(kept)}, which was compacted"
    if result.kind is CompactionType.MINOR and _base_files(result.listed) != _base_files(now):
        return "the base, or the original files, below the deltas have changed"
    return None


def _base_files(listed: ListedPlace) -> tuple[str | None, tuple[Any, ...]]:
    """Return the base with its files; without one, None with the original files."""
    state = listed.state
    if state.base is None:
        return None, tuple(state.originals)
    base = state.base.path
    return base, tuple(file for file in listed.listing.files if file.directory == base)


def _view(
    services: Services,
    result: ResultToVerify,
    delete_buckets: Mapping[str, frozenset[int]],
    side: Sequence[InputDirectory],
    bucket: int,
) -> BucketView | PlainView:
    """Return a bucket of one side, to be read and counted."""
    place, listed = result.listed.place, result.listed
    files = tuple(file for file in row_files(side) if file.bucket == bucket)
    if place.is_insert_only:
        files = tuple(file for file in files if not file.aborted)
        if unknown := [file.path for file in files if file.path not in result.ways]:
            raise CorruptError(f"Cannot verify {unknown[0]}: no file that was joined or made has this name")
        ways = tuple((file, result.ways[file.path]) for file in files)
        return PlainView(location=place.location, bucket=bucket, files=ways)
    return BucketView(
        location=place.location,
        bucket=bucket,
        files=files,
        deletes=tuple(file for file in delete_files(side) if bucket in delete_buckets.get(file.path, ())),
        applied=result.kind.makes_base,
        renumbered=result.kind is CompactionType.REBALANCE,
        write_ids=listed.write_ids.for_compactor(),
        results=result.directories,
        columns=place.row_type(),
        schema=result.schema,
        matching=place.matching(services.settings, listed.hive.reader),
        reader=listed.hive.reader,
    )


def _labels(directories: Sequence[InputDirectory]) -> tuple[str, ...]:
    return tuple(directory.path or "original files" for directory in directories)


def _message(result: ResultToVerify, difference: str, verification: Verification) -> str:
    """Return the difference, the compared directories, what readers see, and what to do."""
    place = result.listed.place
    sides = f"before: {', '.join(verification.before)}; now: {', '.join(verification.now) or 'not listed'}"
    if result.staged or place.interpretation.visible_on_commit:
        advice = (
            f"Nothing was published: readers see the same as before. Compact it again with {VERIFY_ARGUMENT}, or with "
            f"{RELEASE_HELD} if the result is right; without either it is refused"
        )
    else:
        advice = (
            "Readers see the result, and all its inputs are still there. Nothing is cleaned or compacted there until "
            f"the operator decides: remove {' and '.join(result.directories)} if that is wrong, or run the compaction "
            f"again with {RELEASE_HELD} if it is right"
        )
    return f"Cannot vouch for the compaction of {place.ref}: {difference} ({sides}). {advice}"
