"""What a unit's stripes come to, once it is decided what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence

from acidlib.model.units import JoinUnit, PlannedAction, StripeAction, Unit, UnitResult
from acidlib.rewrite.inputs import OpenInput


def planned(unit: Unit | JoinUnit, actions: Sequence[StripeAction], files: Sequence[OpenInput]) -> UnitResult:
    """The result of a unit of rows as far as its actions tell it; their stripes are of `files`."""
    facts = [fact for action in actions for fact in action.stripes]
    copied = [action for action in actions if action.copy]
    rewritten = [action for action in actions if not action.copy]
    return UnitResult(
        directory=unit.directory,
        file_name=unit.file_name,
        bucket=unit.bucket,
        is_delete=False,
        path=None,
        length=0,
        rows_in=sum(fact.rows for fact in facts),
        rows_deleted=sum(fact.deleted for fact in facts),
        rows_aborted=sum(fact.aborted for fact in facts),
        rows_out=sum(fact.kept for fact in facts),
        bytes_copied=sum(action.length for action in copied),
        bytes_rewritten=sum(action.length for action in rewritten),
        stripes_copied=len(copied),
        stripes_rewritten=sum(len(action.stripes) for action in rewritten),
        actions=tuple(_shown(action, files) for action in actions),
    )


def _shown(action: StripeAction, files: Sequence[OpenInput]) -> PlannedAction:
    first = action.stripes[0]
    return PlannedAction(
        path=files[first.file].tail.name,
        first_stripe=first.number,
        stripes=len(action.stripes),
        copy=action.copy,
        bytes=action.length,
        rows=sum(stripe.rows for stripe in action.stripes),
        deleted=sum(stripe.deleted for stripe in action.stripes),
        aborted=sum(stripe.aborted for stripe in action.stripes),
        reason=action.reason,
    )
