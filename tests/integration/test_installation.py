"""An installation that others use: its compiled kernels are theirs too, and nothing has to be writable to start."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from installed import build, environment, outside
from judges import merge
from long_runs import LONG, amount

from integration.children import NOBODY, open_to_others
from integration.harness import COMMANDS, ROOT, SMALL_SPARK, fixture

NOWHERE = {"HOME": "/nonexistent"}
ANOTHER_PROCESSOR = {"NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": ""}
# the interpreter may lie where only root looks
OTHER_USER = (
    "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip
ONE_KERNEL = "from acidlib.orc.kernels.jit import bit_length; assert bit_length(5) == 3"
EVERY_KERNEL = "from acidlib.rewrite.warm import main; main()"
# each kernel as its compiled forms are called
NAMES_OF_KERNELS = """
import sys
import acidlib.rewrite.warm
from numba.core.dispatcher import Dispatcher
modules = [module for name, module in list(sys.modules.items()) if name.startswith("acidlib.")]
named = [one for module in modules for one in vars(module).values()]
found = [one for one in (*named, *(getattr(one, "__wrapped__", None) for one in named)) if isinstance(one, Dispatcher)]
print(*{f"{one.__module__.rpartition('.')[2]}.{one.__qualname__}" for one in found})
"""
COMPACTION = """
from integration.harness import COMMANDS, IN_PROCESS
COMMANDS["{job}"].main([{options}, "--output", "json"], standalone_mode=False, obj=IN_PROCESS)
"""
# what is run, and how many compilations that took
COUNTED = """
import sys
from numba.core import event
import acidlib
assert acidlib.__file__.startswith(sys.argv[1]), acidlib.__file__
with event.install_recorder("numba:compile") as seen:
    try:
        exec(sys.argv[2])
    except SystemExit as end:
        assert end.code == 0, end.code
open(sys.argv[3], "w").write(str(sum(one.is_start for _, one in seen.buffer)))
"""


@dataclass(frozen=True, slots=True)
class Used:
    """What somebody's process said, and how many kernels it compiled."""

    compiled: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Installation:
    """A copy of the package, or a zip of it."""

    path: Path

    def use(self, what: str, work: Path, *, as_owner: bool = False, **environment: str) -> Used:
        """Runs something as a user who is not the owner, where we may."""
        count = work / "count"
        count.touch()
        count.chmod(0o666)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA_", "XDG_", "PYTHON"))}
        path = {"PYTHONPATH": os.pathsep.join([str(self.path), str(ROOT / "tests")])}
        another = OTHER_USER if os.geteuid() == 0 and not as_owner else ()
        ran = subprocess.run(
            [*another, sys.executable, "-B", "-c", COUNTED, str(self.path), what, str(count)],
            env=kept | path | environment, cwd=work, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return Used(int(count.read_text()), ran.stdout, ran.stderr)


def give(path: Path) -> None:
    """Let it be the other user's."""
    if os.geteuid() == 0:
        for one in (path, *path.rglob("*")):
            os.chown(one, NOBODY, NOBODY)


@dataclass(frozen=True, slots=True)
class Built:
    """What a release consists of, and an environment with it."""

    sdist: Path
    wheel: Path
    environment: Path

    def acidlib(self, *words: str, another: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
        """Its command, called from where nothing is."""
        user = OTHER_USER if another and os.geteuid() == 0 else ()
        line = [*user, self.environment / "bin" / "acidlib", *words]
        return subprocess.run(
            line, env=outside(**environment), cwd="/", check=False, capture_output=True, text=True, timeout=300
        )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    sdist, wheel = build(tmp_path_factory.mktemp("built"))
    place = tmp_path_factory.mktemp("made") / "environment"
    environment(place, wheel, compiled=False)
    open_to_others(place / "bin" / "acidlib")
    return Built(sdist, wheel, place)


@pytest.fixture(scope="module")
def installation(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Made by its owner, then brought to another place without its times, where nobody may write.

    In a usual run what the checkout has compiled is laid there before, but for what is of row ids: it takes a minute.
    """
    (made,) = built.environment.glob("lib/*/site-packages/acidlib")
    if not LONG:
        compiled_before = (ROOT / "acidlib" / "orc" / "kernels" / "__pycache__").glob("[!r]*.nbc")
        (made / "orc/kernels/__pycache__").mkdir(exist_ok=True)
        for path in compiled_before:
            shutil.copy2(path, made / "orc/kernels/__pycache__")
    warmed = built.acidlib("warm", **NOWHERE)
    assert warmed.returncode == 0, warmed.stderr
    assert f"kept in {made}/orc/kernels/__pycache__" in warmed.stderr
    compiled = list((made / "orc/kernels/__pycache__").glob("*.nbc"))
    assert compiled
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in compiled)
    place = tmp_path_factory.mktemp("elsewhere") / "installed"
    shutil.copytree(made, place / "acidlib")
    open_to_others(place / "acidlib")
    for path in (*place.rglob("*"), place):
        os.utime(path, (1_600_000_000, 1_600_000_000))
        path.chmod(0o555 if path.is_dir() else 0o444)
    return Installation(place)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A directory of the other user."""
    open_to_others(tmp_path / "x")
    give(tmp_path)
    return tmp_path


def test_a_wheel_and_an_sdist_are_the_whole_product(built: Built) -> None:
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "acidlib").glob("**/*") if path.is_file()}
    package |= {f"acidlib/conf/{name}" for name in ("acidlib.toml", "log4j2.properties")}
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        others = {name.partition("/")[2] for name in wheel.namelist()} - names
    assert names == {name for name in package if "__pycache__" not in name and not name.endswith(".sh")}
    assert {"licenses/LICENSE", "entry_points.txt"} <= others
    with tarfile.open(built.sdist) as sdist:
        sources = {name.partition("/")[2] for name in sdist.getnames()}
    beside = {
        path.relative_to(ROOT).as_posix() for name in ("jobs/*.py", "conf/*", "docs/*.md") for path in ROOT.glob(name)
    }
    assert names | beside | {"spark-submit.sh", "LICENSE", "README.md", "CHANGELOG.md"} <= sources


def test_the_command_of_another_user(built: Built, installation: Installation, work: Path) -> None:
    ran = built.acidlib("show", "--metastore-uri", "none", another=True, HOME=str(work))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "no requests\n"
    assert (work / ".local/state/acidlib/queue.db").exists()
    gone = built.acidlib("show", another=True, HOME=str(work), ACIDLIB_CONF_DIR=str(work / "none"))
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "ACIDLIB_CONF_DIR names no directory there" in gone.stderr


HOMES = {"no home": NOWHERE, "an empty one": {"HOME": ""}}


@pytest.mark.parametrize("home", amount(["an empty one"], long=list(HOMES)))
def test_another_user_compiles_nothing(installation: Installation, work: Path, home: str) -> None:
    assert installation.use(EVERY_KERNEL, work, **HOMES[home]) == Used(0, "", "")


def test_every_kernel_is_compiled_ahead(installation: Installation, work: Path) -> None:
    compiled = (installation.path / "acidlib/orc/kernels/__pycache__").glob("*.nbc")
    names = installation.use(NAMES_OF_KERNELS, work, **NOWHERE).out.split()
    assert len(names) > 50
    assert set(names) - {path.name.rpartition("-")[0] for path in compiled} == set()


@pytest.mark.parametrize("job", amount(["minor_compact"], long=["major_compact", "minor_compact"]))
def test_the_first_job_of_another_user_compiles_nothing(installation: Installation, work: Path, job: str) -> None:
    place = fixture("hive3/a_crud", work / "t")
    rows = merge.read(place)
    give(place)
    options = ["--location", str(place), "--all-committed", "--queue-url", f"sqlite:///{work}/queue.db"]
    if job == "minor_compact":
        options += ["--minor-as-major-bytes", "0"]
    used = installation.use(COMPACTION.format(job=job, options=str(options)[1:-1]), work, **NOWHERE)
    assert used.compiled == 0
    assert json.loads(used.out)["compactions"][0]["state"] == "ready for cleaning"
    assert "compiling" not in used.err
    assert merge.read(place) == rows


def test_another_processor_is_compiled_for_once_a_user(installation: Installation, work: Path) -> None:
    home = ANOTHER_PROCESSOR | {"HOME": str(work)}
    first = installation.use(ONE_KERNEL, work, **home)
    assert (first.compiled, first.out) == (1, "")
    (line,) = first.err.splitlines()
    assert line.startswith("acidlib: compiling kernels for this processor (nehalem)")
    assert line.endswith(f"kept in {work}/.cache/acidlib")
    assert installation.use(ONE_KERNEL, work, **home) == Used(0, "", "")
    assert installation.use(ONE_KERNEL, work, HOME=str(work)) == Used(0, "", "")
    elsewhere = ANOTHER_PROCESSOR | NOWHERE | {"NUMBA_CACHE_DIR": str(work / "named")}
    assert f"kept in {work}/named/acidlib" in installation.use(ONE_KERNEL, work, **elsewhere).err
    assert installation.use(ONE_KERNEL, work, **elsewhere) == Used(0, "", "")


def test_another_processor_where_nothing_can_be_written(installation: Installation, work: Path) -> None:
    used = installation.use(ONE_KERNEL, work, **(ANOTHER_PROCESSOR | NOWHERE))
    assert (used.compiled, used.out) == (1, "")
    (line,) = used.err.splitlines()
    assert line.endswith("not kept, for no directory is writable; set NUMBA_CACHE_DIR to one that is")


@pytest.mark.parametrize("damage", amount(["changed"], long=["cut", "changed"]))
def test_compiled_code_that_is_damaged_is_not_run(installation: Installation, work: Path, damage: str) -> None:
    home = ANOTHER_PROCESSOR | {"HOME": str(work)}
    installation.use(ONE_KERNEL, work, **home)
    (kept,) = (work / ".cache/acidlib").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-100] if damage == "cut" else whole[:-100] + bytes(100))
    assert installation.use(ONE_KERNEL, work, **home).compiled == 1
    assert installation.use(ONE_KERNEL, work, **home).compiled == 0


@pytest.mark.parametrize("changed", amount(["bytes_bits"], long=["bytes_bits", "jit"]))
def test_a_kernel_is_compiled_anew_when_one_that_it_may_call_has_changed(
    installation: Installation, work: Path, changed: str
) -> None:
    other = work / "other"
    shutil.copytree(installation.path / "acidlib", other / "acidlib")
    assert Installation(other).use(ONE_KERNEL, work, **NOWHERE).compiled == 0
    source = other / f"acidlib/orc/kernels/{changed}.py"
    source.chmod(0o644)
    source.write_text(source.read_text() + "# changed\n")
    assert Installation(other).use(ONE_KERNEL, work, **NOWHERE).compiled == 1


def test_a_zip_has_no_place_for_compiled_code(installation: Installation, work: Path) -> None:
    made = Path(shutil.make_archive(str(work / "package"), "zip", installation.path, "acidlib"))
    home = {"HOME": str(work)}
    first = Installation(made).use(ONE_KERNEL, work, **home)
    assert (first.compiled, first.out) == (1, "")
    assert f"kept in {work}/.cache/acidlib" in first.err
    assert Installation(made).use(ONE_KERNEL, work, **home) == Used(0, "", "")


@pytest.mark.parametrize("job", [*COMMANDS, "quickstart"])
def test_an_import_that_fails_is_told_on_standard_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], job: str
) -> None:
    """Spark joins the two streams of a driver; the process above it, here this one, has both."""
    (tmp_path / "click.py").write_text("raise RuntimeError('cannot be imported')")
    with capfd.disabled(), (tmp_path / "err").open("w") as error:
        before = os.dup(2)
        os.dup2(error.fileno(), 2)
        try:
            ran = subprocess.run(
                [sys.executable, str(ROOT / f"jobs/{job}.py"), "--help"],
                env=os.environ | {"PYSPARK_GATEWAY_PORT": "1", "PYTHONPATH": str(tmp_path)},
                check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
        finally:
            os.dup2(before, 2)
            os.close(before)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "RuntimeError: cannot be imported" in (tmp_path / "err").read_text()


@pytest.mark.skipif(not LONG, reason="fetches everything that the wheel depends on")
def test_what_the_wheel_depends_on_is_enough(built: Built, tmp_path: Path) -> None:
    python = tmp_path / "environment" / "bin" / "python"
    venv.create(tmp_path / "environment", with_pip=True)
    words = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{built.wheel}[pack]"]
    subprocess.run(words, env=outside(), check=True, capture_output=True)
    whole = Built(built.sdist, built.wheel, tmp_path / "environment")
    looked = whole.acidlib("--master", "local[2]", "doctor", HOME=str(tmp_path), **SMALL_SPARK)
    assert looked.returncode == 0, looked.stdout + looked.stderr
    made = whole.acidlib("pack", str(tmp_path / "packed.tar.gz"), HOME=str(tmp_path))
    assert made.returncode == 0, made.stderr
    with tarfile.open(tmp_path / "packed.tar.gz") as archive:
        names = archive.getnames()
    assert any("/acidlib/orc/kernels/__pycache__/" in name and name.endswith(".nbc") for name in names)
    assert not any("/pyspark/jars/" in name for name in names)
