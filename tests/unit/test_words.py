"""The words of the code: what a docstring begins with, who acts in it, and names that say what they hold."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from acidlib import errors
from acidlib.cli.launch import JOBS

PACKAGE = Path(__file__).parents[2] / "acidlib"
MODULES = sorted(PACKAGE.rglob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NOT_A_VERB = frozenset(
    (
        *("a", "an", "the", "this", "that", "these", "those", "it", "its", "what", "which", "who", "whose", "where"),
        *("when", "why", "how", "whether", "if", "no", "not", "all", "any", "each", "every", "one", "two", "as", "at"),
        *("by", "for", "from", "in", "into", "of", "on", "to", "with", "without", "until", "while", "only", "there"),
    )
)
"""Words that begin a noun or a clause: after one of them the first sentence of a function does not say what it does."""
ACTOR = re.compile(r"\b(nobody|somebody|someone|whoever|whomever)\b", re.IGNORECASE)
"""Persons in place of actors: the run, the worker, the cleaner, a reader, another compactor, the operator."""
FIELDS_OF_JSON = {"model/results.py": {"found"}, "status/doctor.py": {"found"}}
"""Names that documents have."""
LIMITS = re.compile(r"_?(MOST|LEAST|LONGEST|SHORTEST|FEWEST|LARGEST|SMALLEST)_")
"""Beginnings of a constant that is a limit: that is MAX_ or MIN_."""
OF_THE_COMMAND_LINE = ("cli/", "arguments.py", "documents.py", "execute/spark_options.py", "config/keys.py")
"""What is told on the command line alone, and the tables of words: there options are named as they are."""
ERRORS = frozenset(name for name, each in vars(errors).items() if isinstance(each, type) and each is not Path)
MEANT = frozenset(
    (
        ("config/settings.py", "--set"),
        ("model/results.py", "--idle"),
        ("queue/tables.py", "str(error) has the words of the command line: .words"),
        ("stores/listing.py", "str(error) has the words of the command line: .words"),
    )
)
"""A source of settings, an explanation in the documents, what is stored, and a key."""
SHARED_NAMES = frozenset({"main", "probe", "Bytes", "Longs"})
"""Names that several modules may define: what starts a process, a verb that is a command, and types of arrays, which
kernels state themselves.
"""
EMPTY_NAMES = frozenset({"found", "one", "told", "said", "asked", "thing"})
"""Names that say nothing of what they hold."""


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and (text := ast.get_docstring(node)):
            yield node, text


def is_property(node: ast.AST) -> bool:
    return isinstance(node, FUNCTIONS) and any(
        "property" in ast.unparse(decorator) for decorator in node.decorator_list
    )


def texts_of_code(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that are no docstrings and no comments on a definition or field."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.lineno, node.value


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_text_names_arguments_so_that_each_door_says_them_in_its_words(module: Path) -> None:
    name, tree, wrong = str(module.relative_to(PACKAGE)), ast.parse(module.read_text()), []
    if name.startswith(OF_THE_COMMAND_LINE):
        return
    options = {option for job in JOBS for parameter in job.load().params for option in parameter.opts}
    for line, text in texts_of_code(tree):
        wrong += [f"line {line}: {option}" for option in re.findall(r"--[a-z][a-z-]+", text) if option in options]
        wrong += [f"line {line}: {command}" for command in re.findall(r"acidlib (?:show|undo|cancel)\b", text)]
    for handler in ast.walk(tree):
        if isinstance(handler, ast.ExceptHandler) and handler.name and set(names_in(handler.type)) <= ERRORS:
            wrong += [
                f"line {node.lineno}: str({handler.name}) has the words of the command line: .words"
                for node in ast.walk(handler)
                if ast.unparse(node) == f"str({handler.name})"
            ]
    assert [each for each in wrong if (name, each.partition(": ")[2]) not in MEANT] == []


def names_in(node: ast.AST | None) -> Iterator[str]:
    """Yield the names of classes in the head of a handler."""
    if node is not None:
        yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_words(module: Path) -> None:
    source = module.read_text()
    tree = ast.parse(source)
    wrong = []
    for node, text in docstrings(tree):
        first = re.sub(r"[^\w'-]", "", text.split()[0]).lower()
        if isinstance(node, FUNCTIONS) and not is_property(node) and first in NOT_A_VERB:
            wrong.append(f"line {node.lineno}: the docstring of {node.name} does not begin with a verb: {first!r}")
        wrong += [f"a docstring names no actor, but {word!r}: {text[:60]!r}" for word in ACTOR.findall(text)]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            wrong += [
                f"line {token.start[0]}: a comment names no actor, but {word!r}" for word in ACTOR.findall(token.string)
            ]
        elif token.type == tokenize.STRING and ": because" in token.string:
            wrong.append(f"line {token.start[0]}: a message reads 'Cannot X: Y', without 'because'")
    empty = EMPTY_NAMES - FIELDS_OF_JSON.get(str(module.relative_to(PACKAGE)), set())
    for node in ast.walk(tree):
        name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else None
        if (
            name is not None
            and LIMITS.match(name)
            and name.isupper()
            and isinstance(getattr(node, "ctx", None), ast.Store)
        ):
            wrong.append(f"line {node.lineno}: the limit {name} does not begin with MAX_ or MIN_")
        if name in empty and not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
            wrong.append(f"line {getattr(node, 'lineno', 0)}: the name {name!r} does not say what it holds")
    assert wrong == []


def defined_names(module: Path) -> Iterator[str]:
    """The public classes, functions and types that a module defines; the overloads of a function are one."""
    names = set()
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            names.add(node.name)
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name) and target.id[0].isupper()}
    return (name for name in names if not name.startswith("_") and not name.isupper())


def test_a_public_name_is_of_one_thing_in_the_package() -> None:
    modules = defaultdict(list)
    for module in MODULES:
        for name in defined_names(module):
            modules[name].append(str(module.relative_to(PACKAGE)))
    assert {name: found for name, found in modules.items() if len(found) > 1 and name not in SHARED_NAMES} == {}
