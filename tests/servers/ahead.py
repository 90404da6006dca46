"""Brings and builds the servers of a usual run, beside the making of the environment, which it does not need.

    cd tests && python3 -m servers.ahead

What cannot be brought or built is named; a test that needs it says the same, or is skipped.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from servers.errors import ServerError
from servers.go_programs import built
from servers.jars import bring_all


def main() -> None:
    """Does all at once: they wait for the network more than they work."""

    def say(work: Callable[[], object]) -> None:
        try:
            work()
        except ServerError as error:
            print(error, file=sys.stderr)

    with ThreadPoolExecutor() as pool:
        list(pool.map(say, (bring_all, lambda: built("versitygw"), _module_of_kerberos)))


def _module_of_kerberos() -> None:
    """For this Python, which makes the environment, too; the script itself says what goes wrong."""
    script = Path(__file__).with_name("gssapi.sh")
    subprocess.run([script, sys.executable, "--no-install"])


if __name__ == "__main__":
    main()
