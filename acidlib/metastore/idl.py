"""The interface of `hive_metastore.thrift` as Python classes, and the check that an answer is whole."""

from __future__ import annotations

import io
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any

import thriftpy2
from thriftpy2.thrift import TPayload

from acidlib.errors import CorruptError

_FILE = "hive_metastore.thrift"


@cache
def interface() -> ModuleType:
    """The structures, the exceptions and the service `Metastore` of the interface file (read once, about 50 ms)."""
    text = resources.files(__package__ or "acidlib.metastore").joinpath(_FILE).read_text(encoding="utf-8")
    return thriftpy2.load_fp(io.StringIO(text), "acidlib_metastore_thrift")


def missing_field(call: str, field: str) -> CorruptError:
    """The error for an answer without a field that has to be there."""
    return CorruptError(f"Cannot read the answer of {call}: because field {field} is missing")


def required(value: Any, call: str, field: str) -> Any:
    """The value of a field that has to be there; raises CorruptError when it is None."""
    if value is None:
        raise missing_field(call, field)
    return value


def check_required(answer: object, call: str) -> None:
    """Raises CorruptError, naming the field with its path, when a required field is missing anywhere in an answer.

    The Thrift library does not look: it leaves None where a field is missing or of an unexpected type.
    """
    _check(answer, call, "")


def _check(value: object, call: str, path: str) -> None:
    if isinstance(value, TPayload):
        for _, (_, name, *_, required) in value.thrift_spec.items():
            member = getattr(value, name)
            if member is None and required:
                raise missing_field(call, path + name)
            _check(member, call, f"{path}{name}.")
    elif isinstance(value, list):
        # lists of plain values hold hundreds of thousands of ids, and nothing to look into
        if value and isinstance(value[0], TPayload):
            for member in value:
                _check(member, call, path)
    elif isinstance(value, dict):
        for member in value.values():
            _check(member, call, path)
