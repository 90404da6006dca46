"""What `acidlib` exports: that alone, documented and typed, and loaded when it is first used."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

import acidlib
from acidlib.documents import ROOT


@pytest.mark.parametrize("name", acidlib.__all__)
def test_a_public_name_is_there_and_described(name: str) -> None:
    value = getattr(acidlib, name)
    if name.startswith("__"):
        return
    assert inspect.getdoc(value)
    members = [value] if inspect.isfunction(value) else [item for key, item in vars(value).items() if key[0] != "_"]
    for member in members:
        if isinstance(member, property):
            member = member.fget
        if inspect.isfunction(member):
            assert inspect.getdoc(member), f"{name}.{member.__name__}"
            parameters = inspect.signature(member).parameters.values()
            untyped = [
                one.name for one in parameters if one.annotation is one.empty and one.name not in ("self", "cls")
            ]
            assert not untyped, f"{name}.{member.__name__}"
            assert inspect.signature(member).return_annotation is not inspect.Signature.empty, (
                f"{name}.{member.__name__}"
            )


def test_nothing_else_is_public() -> None:
    assert dir(acidlib) == sorted(acidlib.__all__)
    with pytest.raises(AttributeError, match=r"^module 'acidlib' has no attribute 'compact'$"):
        _ = acidlib.compact  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [acidlib.Lake, acidlib.Table])
def test_what_a_lake_and_a_table_have_is_on_the_page(kind: type) -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    described = {name for pair in re.findall(r"`(\w+)(?:\(\))?`|\.(\w+)\(", page) for name in pair}
    assert {name for name in vars(kind) if not name.startswith("_")} <= described


def test_an_executor_that_needs_an_error_loads_no_verb() -> None:
    script = """
import sys
import acidlib, acidlib.errors
from acidlib import __version__
rooms = {name for name in sys.modules if name.startswith("acidlib")}
light = ("arguments", "errors", "masking", "version", "wording")
assert rooms == {"acidlib", *(f"acidlib.{name}" for name in light)}, rooms
assert acidlib.RefusedError is acidlib.errors.RefusedError
acidlib.connect
rooms = {"pyspark", "numba", "pyarrow", "sqlalchemy", "thrift", "boto3"} & set(sys.modules)
assert not rooms, rooms
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_verbs_of_a_table_have_the_options_of_those_of_a_lake() -> None:
    for name in ("clean", "files", "undo", "plan", "compact"):
        of_lake = inspect.signature(getattr(acidlib.Lake, name)).parameters.keys()
        of_table = inspect.signature(getattr(acidlib.Table, name)).parameters.keys()
        assert of_lake - {"tables", "exclude"} == of_table


def test_lakes_are_told_apart() -> None:
    assert repr(acidlib.connect("none")) == "<Lake: the queue alone>"
    assert repr(acidlib.warehouse("/w")) == "<Lake: /w>"
    assert repr(acidlib.directory("/w/t")) == "<Table: /w/t>"
    assert repr(acidlib.connect("thrift://a:1,thrift://b:2").table("d.t")) == "<Table: d.t>"
    with pytest.raises(acidlib.UsageError, match="nonsense"):
        acidlib.connect("http://nonsense:x")
    with pytest.raises(acidlib.UsageError, match=r"^Cannot set acidlib.none: there is no such setting$"):
        acidlib.connect("none", settings={"acidlib.none": "1"})
