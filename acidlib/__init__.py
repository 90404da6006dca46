"""A Spark-native compaction engine for Hive ACID tables.

The names in `__all__` are public, and kept compatible (docs/operations.md, Versions). They are loaded when they are
first used: Spark's executors import only what their tasks need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from acidlib.version import __version__

if TYPE_CHECKING:
    from acidlib.api.compaction import CompactionJob, CompactionPlan, CompactionTask, TaskResult
    from acidlib.api.connect import connect, directory, probe, register, warehouse
    from acidlib.api.lake import CompactionOptions, Lake, LakeOptions, Table
    from acidlib.errors import (
        AcidError,
        BusyError,
        ConflictError,
        CorruptError,
        DefectError,
        MissingError,
        RefusedError,
        RetryError,
        UnknownOutcomeError,
        UnverifiedError,
        UsageError,
    )
    from acidlib.report.answers import Cancellations, Checks, Places, Probe, Requests, Status, Undo
    from acidlib.report.progress import Step
    from acidlib.report.run import Cleanings, Compactions, Decisions, Plan
    from acidlib.report.values import Result
    from acidlib.runs.snapshot import Snapshot

__all__ = [
    "AcidError",
    "BusyError",
    "Cancellations",
    "Checks",
    "Cleanings",
    "CompactionJob",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "Compactions",
    "ConflictError",
    "CorruptError",
    "Decisions",
    "DefectError",
    "Lake",
    "LakeOptions",
    "MissingError",
    "Places",
    "Plan",
    "Probe",
    "RefusedError",
    "Requests",
    "Result",
    "RetryError",
    "Snapshot",
    "Status",
    "Step",
    "Table",
    "TaskResult",
    "Undo",
    "UnknownOutcomeError",
    "UnverifiedError",
    "UsageError",
    "__version__",
    "connect",
    "directory",
    "probe",
    "register",
    "warehouse",
]

_ANSWERS = dict.fromkeys(
    ("Cancellations", "Checks", "Places", "Probe", "Requests", "Status", "Undo"), "acidlib.report.answers"
)
_RUNS = dict.fromkeys(("Cleanings", "Compactions", "Decisions", "Plan"), "acidlib.report.run")
_LAKES = dict.fromkeys(("connect", "directory", "probe", "register", "warehouse"), "acidlib.api.connect")
_VERBS = dict.fromkeys(("CompactionOptions", "Lake", "LakeOptions", "Table"), "acidlib.api.lake")
_OTHERS = {
    "Result": "acidlib.report.values",
    "Snapshot": "acidlib.runs.snapshot",
    "Step": "acidlib.report.progress",
}
_JOBS = dict.fromkeys(("CompactionJob", "CompactionPlan", "CompactionTask", "TaskResult"), "acidlib.api.compaction")
_MODULES = _ANSWERS | _JOBS | _RUNS | _LAKES | _VERBS | _OTHERS
"""The modules of public names; errors are in `acidlib.errors`."""


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'acidlib' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES.get(name, "acidlib.errors")), name)
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
