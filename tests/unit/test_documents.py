"""The documents: what is made of definitions is up to date, links lead somewhere, and options that are named exist."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from acidlib.cli.launch import JOBS as ALL_JOBS
from acidlib.cli.launch import log_file
from acidlib.cli.main import group
from acidlib.documents import (
    JOBS,
    JSON,
    OPTIONS,
    PROMISES,
    ROOT,
    STORES,
    TOML,
    json_page,
    options_text,
    stores_page,
    toml_text,
)
from acidlib.errors import UsageError
from acidlib.execute.spark_options import split_words
from acidlib.location import KINDS, VIEWFS
from acidlib.planning import orc_settings
from acidlib.report import values
from acidlib.spark.source_options import source_options

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
ARCHITECTURE = ROOT / "docs" / "architecture.md"
OF_OTHERS = {
    "airflow": {"--conn-host", "--conn-type"},
    "docker": {"--file", "--tag"},
    "kubectl": {"--from", "--from-file"},
    "pip": {"--upgrade"},
    "spark-submit": {
        *("--master", "--conf", "--deploy-mode", "--executor-memory", "--num-executors", "--queue"),
        *("--packages", "--jars", "--archives", "--driver-java-options", "--driver-class-path"),
        *("--principal", "--keytab", "--properties-file"),
    },
    "bench": {
        "--deleted",
        "--flat-deltas",
        "--no-pyarrow",
        "--moved",
        "--rows",
        "--small",
        "--places",
        "--only",
        "--text",
        "--metastore",
    },
}
LONGEST_LINE_OF_CODE = 100
MOST_WORDS = 26_000
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")


def in_checkout(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_outside_code(path: Path) -> str:
    return re.sub(r"^\s*```.*?^\s*```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """What GitHub makes of the headings."""
    titles = re.findall(r"^#+ (.+)$", text_outside_code(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(path: Path) -> Iterator[tuple[Path, str]]:
    """Where the links to other documents lead: the file, and the anchor or an empty text."""
    for target in _LINK.findall(text_outside_code(path)):
        if not target.startswith("https://"):
            name, _, anchor = target.partition("#")
            yield ((path.parent / name).resolve() if name else path), anchor


def names_of_nothing(text: str) -> set[str]:
    """Paths, modules, calls and other names in backticks that are not, or no longer, in the tree."""
    code = "\n".join(
        file.read_text() for folder in ("acidlib", "jobs", "tests") for file in (ROOT / folder).rglob("*.py")
    )
    spans = set(re.findall(r"`([^`\n]+)`", text))
    paths = {span for span in spans if "/" in span} | set(re.findall(r"[\w/]+\.py\b", text))
    modules = set(re.findall(r"(?<![\w/])acidlib(?:\.\w+)+", text))
    calls = set(re.findall(r"(\w+)\(\)", text))
    return {
        *(path for path in paths if not any((folder / path).exists() for folder in (ROOT, ROOT / "acidlib"))),
        *(module for module in modules if not (ROOT / module.replace(".", "/")).with_suffix(".py").exists()),
        *(call for call in calls if f"def {call}(" not in code),
        *(
            name
            for name in spans
            if name.isidentifier()
            and not re.search(rf"^ *(?:class |import )?{name}(?:\(|:| = |$)", code, flags=re.MULTILINE)
        ),
    }


def lines(path: Path) -> Iterator[str]:
    """The lines of the shell in a document: those of its blocks, those in strings of Python, and those within text."""
    text = path.read_text()
    blocks = re.compile(r"^ *```(\w*)\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
    for language, block in blocks.findall(text):
        if language == "python":
            yield from (str(node.value) for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Constant))
        else:
            yield from block.replace("\\\n", " ").splitlines()
    yield from (span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", blocks.sub("", text)))


def commands(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The jobs that are run in the examples of a document, each with the words behind it."""
    for line in lines(path):
        for part in re.split(r"(?:^| )#|;| [|&]", line):
            if match := re.search(r"spark-submit.* jobs/([a-z_]+)\.py(.*)", part):
                yield next(job.name for job in ALL_JOBS if job.module == match[1]), shlex.split(match[2])
            elif match := re.search(r"(?:^|/|(?<!-n)\s)acidlib +([a-z-].*)", part):
                _, words = split_words(shlex.split(match[1]))
                if words:
                    name, _, behind = group.resolve_command(click.Context(group), list(words))
                    assert name is not None
                    yield name, behind


def options_of_jobs() -> set[str]:
    options = (option for job in JOBS.values() for option in job.params if isinstance(option, click.Option))
    return {name for option in options for name in option.opts} | {"--help"}


def test_what_is_made_of_definitions_is_up_to_date() -> None:
    why = "python -m acidlib.documents writes it anew"
    assert TOML.read_text() == toml_text(), why
    assert OPTIONS.read_text() == options_text(OPTIONS.read_text()), why
    assert JSON.read_text() == json_page(JSON.read_text()), why
    assert STORES.read_text() == stores_page(STORES.read_text()), why


def test_the_promises_of_every_kind_of_store_are_told() -> None:
    assert {*PROMISES, VIEWFS} == set(KINDS.values())


def test_every_option_of_every_job_is_in_the_lists() -> None:
    made = OPTIONS.read_text().partition("<!-- end of options -->")[0]
    rows = [line for line in made.splitlines() if line.startswith("- `--")]
    assert {re.split(r"[ `]", row)[2] for row in rows} == options_of_jobs() - {"--help"}
    for job in JOBS.values():
        assert all(option.help for option in job.params if isinstance(option, click.Option))


def test_a_document_without_the_marks_is_refused() -> None:
    for end in ("options", "settings"):
        with pytest.raises(ValueError, match=f"no .*{end}"):
            options_text(OPTIONS.read_text().replace(f"<!-- end of {end} -->", ""))


@pytest.mark.parametrize("document", DOCUMENTS, ids=in_checkout)
def test_links_lead_somewhere(document: Path) -> None:
    for target, anchor in links(document):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{in_checkout(target)}#{anchor}"


def test_the_site_is_built_without_a_dead_link_or_a_visit_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    page = (tmp_path / "index.html").read_text()
    assert re.findall(r'<(?:link|script|img)[^>]* (?:href|src)="?(?:https?:)?//[^ >]*', page) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=in_checkout)
def test_lines_of_code_fit_a_window_of_1280_pixels(document: Path) -> None:
    """A long run looks at the site itself (test_site_in_browser); GitHub has about as much room."""
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    code = [line for language, block in blocks if language != "mermaid" for line in block.splitlines()]
    assert [line for line in code if len(line) > LONGEST_LINE_OF_CODE] == []


def test_the_documents_are_short_enough_to_be_read() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert sum(len(page.read_text().split()) for page in pages) <= MOST_WORDS


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            waiting += [target for target, _ in links(page)]
    assert set(DOCUMENTS) <= reached


@pytest.mark.parametrize("document", DOCUMENTS, ids=in_checkout)
def test_options_that_are_named_exist(document: Path) -> None:
    known = options_of_jobs().union(*OF_OTHERS.values())
    assert set(_OPTION.findall(document.read_text())) <= known


def test_the_architecture_names_what_exists() -> None:
    assert names_of_nothing(ARCHITECTURE.read_text()) == set()


def test_a_name_of_nothing_is_found() -> None:
    text = "`runs/none.py`, acidlib.none, `none/` and queue/none.py: none_such(), `NoneSuch`; `runs/` has `THREADS`"
    missing = {"runs/none.py", "acidlib.none", "none/", "queue/none.py", "none_such", "NoneSuch"}
    assert names_of_nothing(text) == missing


def test_the_readme_begins_with_the_two_commands_of_a_new_user() -> None:
    first = (ROOT / "README.md").read_text().partition("## Try it")[2].split("```")[1]
    assert first == "\n./spark-submit.sh jobs/quickstart.py\n./tests/run\n"


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if list(commands(path))], ids=in_checkout)
def test_the_examples_are_understood(document: Path) -> None:
    for job, words in commands(document):
        # a command alone is a name of it, and need not say what it is about
        JOBS[job].make_context(job, log_file(words)[0], resilient_parsing=not words).close()


@pytest.mark.parametrize("document", DOCUMENTS, ids=in_checkout)
def test_an_installation_has_what_the_examples_name(document: Path) -> None:
    """There are no jobs/ and no spark-submit.sh where pip has put the package."""
    named = re.findall(r"/opt/acidlib/?([\w./-]*)", document.read_text())
    there = {"", "bin", "bin/acidlib", "bin/pip", "bin/python", "bin/spark-submit"}
    assert {name for name in named if not name.startswith("lib/python3.11/site-packages/acidlib/")} <= there


def test_the_files_of_a_checkout_are_listed() -> None:
    named = re.findall(r"`jobs/(\w+)\.py`", (ROOT / "docs" / "clusters.md").read_text())
    assert {job.module for job in ALL_JOBS if job.file} <= set(named)


def test_jobs_are_named_by_their_commands() -> None:
    """Their files are those of a checkout, which are named with their folder."""
    modules = "|".join(job.module for job in ALL_JOBS if job.file)
    texts = {path: path.read_text() for path in (*DOCUMENTS, ROOT / "docs" / "alert-rules.yml") if path != ARCHITECTURE}
    assert {in_checkout(path) for path, text in texts.items() if re.search(rf"(?<!/)\b({modules})\.py", text)} == set()


def test_every_extra_of_the_package_is_described() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", (ROOT / "docs" / "clusters.md").read_text(), flags=re.MULTILINE)
    assert extras == {name for row in rows for name in re.findall(r"\w+", row)}


def test_every_option_of_the_format_of_spark_is_described() -> None:
    with pytest.raises(UsageError, match="hive_acid knows") as raised:
        source_options({"nosuch": "1"})
    known = re.search(r"knows (.*), and settings", str(raised.value))
    assert known is not None
    section = (ROOT / "docs" / "python.md").read_text().partition("### In Spark")[2].partition("### ")[0]
    assert {name for name in known[1].split(", ") if f"`{name}`" not in section} == set()


def test_properties_of_tables_and_exit_statuses_are_described() -> None:
    described = OPTIONS.read_text()
    names = [name for name in vars(orc_settings).values() if isinstance(name, str) and name.startswith("orc.")]
    assert len(names) == 7
    assert all(f"\n| `{name}` |" in described for name in names)
    statuses = re.findall(r"^\| ([0-9]) \|", (ROOT / "docs" / "operations.md").read_text(), flags=re.MULTILINE)
    ours = [value for name, value in vars(values).items() if name.startswith("EXIT_")]
    assert statuses == [str(status) for status in sorted([*ours, click.UsageError.exit_code])]


@pytest.mark.parametrize("dag", sorted((ROOT / "docs" / "airflow").glob("*.py")), ids=lambda path: path.stem)
def test_a_dag_names_jobs_and_options_that_there_are(dag: Path) -> None:
    """Airflow itself runs them in a long run."""
    text = dag.read_text()
    compile(text, str(dag), "exec")
    named = {job.name: job for job in ALL_JOBS if re.search(rf"[\" ]{job.name}[\" ]", text)}
    assert "major-compact" in named
    taken = {name for job in named.values() for option in job.load().params for name in option.opts}
    assert {option for option in _OPTION.findall(text) if option not in OF_OTHERS["spark-submit"]} <= taken
