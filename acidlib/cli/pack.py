"""Commands that prepare an installation: `warm` compiles its kernels, `pack` makes an archive. Neither starts Spark."""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path

import click

from acidlib.cli.command import flag, job_command
from acidlib.errors import RefusedError, RetryError
from acidlib.wording import human_bytes


@job_command("warm", help="Compile the kernels, once for an installation and a kind of processor.", example="warm")
def warm() -> None:
    """Compile the kernels that are not compiled yet; a line on standard error names the directory that keeps them."""
    from acidlib.rewrite.warm import main as compile_all

    compile_all()
    click.echo("The kernels are compiled for this processor.")


_NOT_PACKED = ("*/site-packages/pyspark/jars/*", "*/site-packages/pyspark/examples/*")
"""Left out of the archive: the machine that unpacks it has its own Spark."""
_ENDING = ".tar.gz"


@job_command(
    "pack",
    help="Make one archive of this Python environment, with compiled kernels, for spark-submit's --archives.",
    example="pack acidlib.tar.gz",
)
@click.argument("output", type=click.Path(path_type=Path), default=f"acidlib{_ENDING}")
@click.option(
    "--python-prefix",
    metavar="DIR",
    help="Folder of Python itself on the machines of the cluster, e.g. /usr; default: that of this machine.",
)
@flag("--force", help="Replace an archive that exists.")
def pack(*, output: Path, python_prefix: str | None, force: bool) -> None:
    """Make the archive, and print a command line that uses it."""
    if not output.name.endswith(_ENDING):
        raise click.UsageError(f"{output} does not end in {_ENDING}")
    if output.exists() and not force:
        raise RefusedError(f"Cannot write {output}: it is there already; --force replaces it")
    if linked := _linked_packages():
        raise RefusedError(
            f"Cannot pack {sys.prefix}: {', '.join(linked)} is only linked into it (pip install --editable), "
            "so the archive would lack it; install wheels into an environment of their own"
        )
    try:
        import venv_pack  # before anything is compiled
    except ImportError:
        raise RefusedError(
            f"Cannot pack {sys.prefix}: venv-pack is not installed there: pip install 'acidlib[pack]'"
        ) from None
    from acidlib.rewrite.warm import main as compile_all

    compile_all()
    half = output.with_name(f".{output.name}.half{_ENDING}")
    try:
        environment = venv_pack.Env(sys.prefix)
        for pattern in _NOT_PACKED:
            environment = environment.exclude(pattern)
        environment.pack(str(half), format="tar.gz", python_prefix=python_prefix, force=True)
        half.chmod(0o644)  # readable for all users, as the environment is
        half.replace(output)
    except venv_pack.VenvPackException as error:
        raise RefusedError(f"Cannot pack {sys.prefix}: {error}") from error
    except OSError as error:
        raise RetryError(f"Cannot write {output}: the operating system said: {error.strerror}") from error
    finally:
        half.unlink(missing_ok=True)
    click.echo(f"{output}: {human_bytes(output.stat().st_size)}. For example:")
    click.echo(f"  acidlib --master yarn --archives {output}#environment major-compact --time-budget 40m")


def _linked_packages() -> list[str]:
    """Return the names of the packages that pip only linked into the environment."""
    import importlib.metadata  # slow to import

    linked = set()
    for package in importlib.metadata.distributions(path=[sysconfig.get_path(name) for name in ("purelib", "platlib")]):
        text = package.read_text("direct_url.json")
        if text and json.loads(text).get("dir_info", {}).get("editable"):
            linked.add(str(package.name))
    return sorted(linked)
