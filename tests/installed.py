"""The project as others get it: built, and installed into an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEPENDENCIES = sysconfig.get_path("purelib")
_SOURCES = ("acidlib", "conf", "docs", "jobs")
_KERNELS = Path("orc/kernels/__pycache__")


def build(directory: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is made of it; of a copy, for a build leaves its traces."""
    copy = directory / "source"
    for name in _SOURCES:
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy2(path, copy)
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", directory / "built", copy]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    ((sdist,), (wheel,)) = ((directory / "built").glob(pattern) for pattern in ("*.tar.gz", "*.whl"))
    return sdist, wheel


def environment(place: Path, wheel: Path, *, compiled: bool) -> Path:
    """A new environment with the wheel; what it depends on it finds among the packages of the tests.

    compiled  with the kernels that the checkout has compiled
    Gives the folder of the package.
    """
    venv.create(place, symlinks=True)
    words = [sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "--quiet"]
    words += ["--no-deps", "--no-index", "--disable-pip-version-check", wheel]
    subprocess.run(words, check=True, env=outside(), capture_output=True)
    (packages,) = (place / "lib").glob("python*/site-packages")
    # not by a path of its own: the folder has a link to the checkout, which is followed only from a first folder
    (packages / "dependencies.pth").write_text(f"import sys; sys.path.append({DEPENDENCIES!r})\n")
    if compiled:
        (packages / "acidlib" / _KERNELS).mkdir(exist_ok=True)
        for kernel in (ROOT / "acidlib" / _KERNELS).glob("*.nbc"):
            shutil.copy2(kernel, packages / "acidlib" / _KERNELS)
    return packages / "acidlib"


def alone(place: Path, wheel: Path, *extras: str, python: Path = Path(sys.executable)) -> Path:
    """An environment with the wheel and all that it depends on, as pip fetches it; its command.

    python  whose it is
    """
    subprocess.run([python, "-m", "venv", place], env=outside(), check=True, capture_output=True)
    words = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    done = subprocess.run([*words, wanted], env=outside(), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place / "bin" / "acidlib"


def packed(command: Path, archive: Path) -> Path:
    """The archive that an installation makes of itself."""
    done = subprocess.run([command, "pack", archive], env=outside(), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"--archives {archive}#environment" in done.stdout
    return archive


def outside(**more: str) -> dict[str, str]:
    """Variables of somebody who knows nothing of the checkout."""
    ours = ("PYTHON", "PYSPARK_", "SPARK_", "NUMBA_", "XDG_", "ACIDLIB_", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | more
