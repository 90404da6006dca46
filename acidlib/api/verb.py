"""What a program sees of a verb: a signature with all arguments, and errors that are a sentence without its way."""

from __future__ import annotations

from collections.abc import Callable
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

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs.keys() - explicit.parameters.keys():
                meant = did_you_mean(name, [other for other in explicit.parameters if other != "self"])
                raise UsageError(f"Cannot call {function.__name__}(): it has no argument {name}{meant}")
            try:
                explicit.bind(*args, **kwargs)
            except TypeError as error:
                raise UsageError(f"Cannot call {function.__name__}(): {error}") from None
            for name, value in kwargs.items():
                kinds = _KINDS.get(str(explicit.parameters[name].annotation))
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
