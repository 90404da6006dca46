"""What a program sees of a verb: a signature with all arguments, and errors that are a sentence without its way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import Parameter, signature
from types import NoneType
from typing import Any, ParamSpec, TypeVar

from acidlib.errors import AcidError, DefectError, UsageError
from acidlib.wording import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")
_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "str | None": (str, NoneType),
    "str | bool | None": (str, bool, NoneType),
}
"""Types of arguments for which Python would take other values by their truth, or fail far from the caller."""
_SHOWN = "Shown"
"""The type of what shows the progress: a function, None or False."""
_PARTITION = re.compile(r"[A-Za-z0-9_]+=[^\s=]*(/[A-Za-z0-9_]+=[^\s=]*)*")
_CONDITION = re.compile(r"\S.*[\s<>=].*\S", re.DOTALL)
_TABLE = re.compile(r"[^\s.]+\.[^\s.]+")
_NAMED = {"partitions": _PARTITION, "where": _CONDITION, "tables": _TABLE}
"""Arguments that stand by their names alone, and texts that are likely meant as one, the likeliest first."""
_DRY_RUNS = {"dry_run": ("compact", "compaction")}
"""An argument that other verbs have, and the verbs of which plan() is that."""


def _misplaced(name: str, values: Sequence[object], others: Iterable[str]) -> UsageError:
    """Return the error for values of which no position tells what they are."""
    (value, *_), known = values, list(others)
    text = value if isinstance(value, str) else ""
    meant = next((other for other, form in _NAMED.items() if other in known and form.fullmatch(text)), None)
    hint = f"as {meant}={value!r}" if meant else f"it has {', '.join(f'{other}=' for other in known)}"
    return UsageError(f"Cannot call {name}(): say by its name what {value!r} is: {hint}")


def verb(options: Any = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: where Python would raise a TypeError, the function raises a UsageError; tracebacks end there.

    options  the class of `**options: Unpack[...]`, whose names stand in the signature
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        stated = signature(function)
        parameters = [each for each in stated.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        if options is not None:
            types = options.__annotations__
            parameters += [
                Parameter(name, Parameter.KEYWORD_ONLY, default=..., annotation=types[name].__forward_arg__)
                for name in types
            ]
        explicit = stated.replace(parameters=parameters)
        positional = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
        takes_any = any(each.kind is Parameter.VAR_POSITIONAL for each in parameters)

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs.keys() - explicit.parameters.keys():
                meant = did_you_mean(name, [other for other in explicit.parameters if other != "self"])
                if function.__name__ in _DRY_RUNS.get(name, ()):
                    meant = "; plan() does that"
                raise UsageError(f"Cannot call {function.__name__}(): it has no argument {name}{meant}")
            if more := () if takes_any else args[len(positional) :]:
                by_name = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
                raise _misplaced(function.__name__, more, by_name)
            try:
                explicit.bind(*args, **kwargs)
            except TypeError as error:
                raise UsageError(f"Cannot call {function.__name__}(): {error}") from None
            for name, value in kwargs.items():
                annotation = str(explicit.parameters[name].annotation)
                if annotation == _SHOWN and not (value is None or value is False or callable(value)):
                    raise UsageError(
                        f"Cannot call {function.__name__}(): {name} is a function of each step, None or False, and not "
                        f"{value!r}"
                    )
                kinds = _KINDS.get(annotation)
                if kinds is not None and not isinstance(value, kinds):
                    words = " or ".join("None" if kind is NoneType else kind.__name__ for kind in kinds)
                    raise UsageError(f"Cannot call {function.__name__}(): {name} is {words}, and not {value!r}")
            try:
                return function(*args, **kwargs)
            except AcidError as error:
                if error.is_callers and not isinstance(error, DefectError):
                    # the way to it is in the log, at the level DEBUG
                    raise error.with_traceback(None) from None
                raise

        called.__signature__ = explicit  # type: ignore[attr-defined]  # `inspect` and editors read it
        return called

    return decorate
