"""A compaction that is asked for, and what is known of it so far: all that its result tells, wherever it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from acidlib.engine.backend import Taken
from acidlib.engine.target import ListedPlace, Target
from acidlib.engine.units import filled_directories
from acidlib.model.names import DeltaDir, parse_directory
from acidlib.model.requests import CompactionType
from acidlib.model.units import UnitResult
from acidlib.planning.inputs import CompactionInputs
from acidlib.report.results import CompactionResult, Outcome, Verification
from acidlib.storage.publishing import Published

MAX_LOCK_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One compaction to carry out.

    taken   our request; None plans only (dry run)
    named   asked for by name in this run: after a conflict it is not left in the queue
    why     the initiator's reason, where there is one
    listed  the place as the run has listed it before, where it has
    wanted_buckets  into how many it is to be rebalanced, where that is planned only
    """

    target: Target
    kind: CompactionType
    taken: Taken | None
    named: bool
    why: str | None = None
    listed: ListedPlace | None = None
    wanted_buckets: int | None = None

    @property
    def buckets(self) -> int | None:
        """Into how many buckets a place is to be rebalanced, where that is stated."""
        return self.wanted_buckets if self.taken is None else self.taken.request.bucket_count

    @property
    def lock_tries(self) -> int:
        """How often an exclusive lock for two renames was not granted."""
        return self.taken.request.facts.lock_tries if self.taken is not None else 0


@dataclass(slots=True, kw_only=True)
class SoFar:
    """What is known of a compaction so far: all that its result tells when it ends here.

    ready  when the run could run tasks; until then a compaction has waited for that, not for its own work
    """

    job: Job
    clock: Callable[[], float]
    start: float
    ready: Callable[[], float]
    target: Target
    place: ListedPlace | None = None
    inputs: CompactionInputs | None = None
    units: tuple[UnitResult, ...] | None = None
    published: Published | None = None
    verification: Verification | None = None
    may_be_visible: bool = False

    def result(
        self,
        state: Outcome,
        reason: str,
        *,
        units: tuple[UnitResult, ...] | None = None,
        published: Published | None = None,
    ) -> CompactionResult:
        """The result of a compaction that ends like this, now."""
        target, inputs, listed = self.target, self.inputs, self.place or self.job.listed
        result = CompactionResult(
            id=None if self.job.taken is None else self.job.taken.request.id,
            database=target.database,
            table=target.table,
            location=str(target.location),
            partition=target.partition,
            type=self.job.kind.label.lower(),
            state=state,
            reason=reason,
            units=units,
            start_ms=int(self.start * 1000),
            seconds=max(0.0, self.clock() - max(self.start, self.ready())),
            deltas_before=None if listed is None else listed.deltas,
            verification=self.verification,
        )
        if inputs is None:
            return replace(result, deltas_after=None if result.is_bad else result.deltas_before)
        directories = () if units is None else filled_directories(inputs, units)
        visible = directories if published is None else published.directories
        return replace(
            result,
            type=inputs.kind.label.lower(),
            publication=str(inputs.publication.value) if published is None else published.kind,
            min_write_id=inputs.min_write_id,
            max_write_id=inputs.max_write_id,
            high_water_mark=inputs.high_water_mark,
            inputs=tuple(entry.path or "original files" for entry in inputs.directories),
            empty_files=inputs.empty_files,
            output_directories=visible,
            deltas_after=None if units is None or listed is None else deltas_after(listed, inputs, visible),
            bytes_in=sum(file.length for entry in inputs.directories for file in entry.files),
        )


def deltas_after(place: ListedPlace, inputs: CompactionInputs, results: Sequence[str]) -> int:
    """How many deltas a reader has to merge when results have taken the place of their inputs."""
    merged = {entry.path for entry in inputs.directories}
    left = sum(delta.path not in merged for delta in place.state.deltas)
    return left + sum(isinstance(parse_directory(name, place.generation), DeltaDir) for name in results)


def why_so(job: Job, inputs: CompactionInputs) -> str:
    """Why this was done, in this way."""
    changed = inputs.kind is not inputs.requested
    parts = [job.why] if job.why is not None else []
    if changed and job.lock_tries >= MAX_LOCK_TRIES:
        parts.append(
            f"an exclusive lock for two renames was not granted {MAX_LOCK_TRIES} times, so it is done as a major"
        )
    elif changed or not parts:
        parts.append(inputs.reason)
    return "; ".join(parts)
