"""What a program sees of a verb: a signature with all arguments, and errors that are a sentence without its way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from acidlib.errors import AcidError, DefectError, UsageError
from acidlib.wording import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")
_FORMS: dict[str, tuple[Callable[[object], bool], str]] = {
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "str | None": (lambda value: value is None or isinstance(value, str), "a text or None"),
    "str | bool | None": (
        lambda value: value is None or isinstance(value, str | bool),
        "a text such as 'all' or 'sample=0.1', True, False or None",
    ),
    "Shown": (
        lambda value: value is None or value is False or callable(value),
        "a function of each step, None or False",
    ),
    "TextOrTexts": (lambda value: isinstance(value, Iterable), "a text, or several"),
}
"""What an argument of a type is, and how that is said: Python would take another value by its truth, or fail later."""
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
                fits, form = _FORMS.get(str(explicit.parameters[name].annotation), (None, ""))
                if fits is not None and not fits(value):
                    raise UsageError(f"Cannot call {function.__name__}(): {name} is {form}, and not {value!r}")
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
