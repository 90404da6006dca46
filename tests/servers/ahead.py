"""Brings and builds the servers of a usual run, beside the making of the environment, which it does not need.

    cd tests && python3 -m servers.ahead

What cannot be brought or built is named; a test that needs it says the same, or is skipped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from servers.errors import ServerError
from servers.go_programs import built
from servers.jars import bring_all


def main() -> None:
    """Does both at once: one waits for the network more than it works."""

    def say(work: Callable[[], object]) -> None:
        try:
            work()
        except ServerError as error:
            print(error, file=sys.stderr)

    with ThreadPoolExecutor() as pool:
        list(pool.map(say, (bring_all, lambda: built("versitygw"))))


if __name__ == "__main__":
    main()
