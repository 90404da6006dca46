"""Clients of hdfs-native, one per process and name service; they are never taken along through a fork."""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from hdfs_native import Client, WriteOptions

from acidlib.errors import RetryError
from acidlib.storage.hdfs.configuration import block_size, client_uri, new_mode, replication
from acidlib.storage.hdfs.deadline import NoAnswerError, in_time
from acidlib.storage.hdfs.errors import FINAL, NotAskedError, raising_acid_errors
from acidlib.storage.tokens import asks_for_kerberos

_Answer = TypeVar("_Answer")
Configuration = tuple[tuple[str, str], ...]
"""Names and values of Hadoop's configuration, sorted: what `frozen` makes."""

# one that is away is asked again for about a minute, as long as a failover may take; hdfs-native's own 15 are 3 minutes
_MOST_TRIES = "dfs.client.failover.max.attempts"
_DEFAULTS = {_MOST_TRIES: "8"}
# for how long hdfs-native keeps connections to data nodes that were read from, in one place for all its clients
_KEPT_SECONDS = 3.0
# hdfs-native itself waits for ever: for a connection that is not refused, and for an answer
_CONNECTION_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 15.0
"""Between two tries of hdfs-native to reach a name node."""
# never emptied: the threads that a client of the parent process would wait for when it ends are not in a fork
_CLIENTS: dict[tuple[int, str, Configuration], Client] = {}
_GIVEN_UP: list[Client] = []
_forked_at: float | None = None


def _forked() -> None:
    """Notes, in a process that was just forked off one with clients, from when its inherited connections get old.

    Both processes would send requests over them, and each would read what the other asked for.
    """
    global _forked_at
    if _CLIENTS:
        _forked_at = time.monotonic()


os.register_at_fork(after_in_child=_forked)


def frozen(configuration: Mapping[str, str]) -> Configuration:
    """A configuration that can be pickled and compared."""
    return tuple(sorted(configuration.items()))


def client(authority: str, configuration: Configuration) -> Client:
    """The client of this process. The first one after a fork waits a few seconds, see `_forked`.

    Raises `RetryError` for a host that nobody knows, `RefusedError` for a name service that is not configured,
    `NotAskedError`, which is an `OSError`, for what does not answer as a name node does.
    """
    key = os.getpid(), authority, configuration
    found = _CLIENTS.get(key)
    if found is None:
        settings = _DEFAULTS | dict(configuration)
        uri = client_uri(authority, settings)
        host = _known_host(uri)
        _wait_after_fork()
        with raising_acid_errors("open", f"hdfs://{authority}"):
            made = Client(uri, settings)
        if host is not None:
            _require_answer(made, host, settings)
        found = _CLIENTS.setdefault(key, made)
    return found


def answered(authority: str, configuration: Configuration, question: Callable[[], _Answer]) -> _Answer:
    """The answer to a question that changes nothing; `NotAskedError` when none comes in time.

    The next one gets a client of its own, with a new connection.
    """
    tries = dict(configuration).get(_MOST_TRIES, "")
    # the first question of a process waits for a connection and an answer before it is asked
    seconds = _CONNECTION_SECONDS + 2 * _ANSWER_SECONDS
    seconds += _LONGEST_PAUSE_SECONDS * int(tries if tries.isdecimal() else _DEFAULTS[_MOST_TRIES])
    before = _CLIENTS.get((os.getpid(), authority, configuration))
    try:
        return in_time(seconds, question)
    except NoAnswerError as error:
        key = os.getpid(), authority, configuration
        if before is not None and _CLIENTS.get(key) is before:
            _GIVEN_UP.append(_CLIENTS.pop(key))
        raise NotAskedError(f"hdfs://{authority} takes requests and gives {error}") from None


def write_options(configuration: Configuration) -> WriteOptions:
    """How new files are made; never with the directories above them, which somebody may have removed on purpose."""
    properties = dict(configuration)
    return WriteOptions(
        block_size=block_size(properties),
        replication=replication(properties),
        permission=new_mode(properties, is_directory=False),
        overwrite=False,
        create_parent=False,
    )


def _known_host(uri: str) -> tuple[str, int] | None:
    """Host and port of a name node; None of a name service. Says at once what hdfs-native would try for minutes."""
    host, _, port = uri.removeprefix("hdfs://").rpartition(":")
    if not host:
        return None
    try:
        socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise RetryError(
            f"Cannot open {uri}: because {host} is neither a known host nor, in the configuration of Hadoop, a name "
            f"service ({error})"
        ) from error
    return host.strip("[]"), int(port)


def _require_answer(made: Client, host: tuple[str, int], settings: Mapping[str, str]) -> None:
    """Raises `NotAskedError` unless something answers; one that refuses connections may be starting, and has time."""
    name = f"{host[0]}:{host[1]}"
    try:
        socket.create_connection(host, _CONNECTION_SECONDS).close()
    except TimeoutError as error:
        raise NotAskedError(f"no connection to {name} within {_CONNECTION_SECONDS:g} s") from error
    except OSError:
        return
    failed: list[OSError] = []

    def ask() -> None:
        try:
            made.get_file_info("/")
        except (*FINAL, RuntimeError):
            pass  # an answer, too
        except OSError as error:
            failed.append(error)

    asking = threading.Thread(target=ask, name="acidlib-name-node", daemon=True)
    asking.start()
    asking.join(_ANSWER_SECONDS)
    if asking.is_alive():
        raise NotAskedError(f"{name} takes connections and gives no answer within {_ANSWER_SECONDS:g} s")
    if failed:
        hint = "" if asks_for_kerberos(settings) else "; does it ask for Kerberos, of which core-site.xml says nothing?"
        raise NotAskedError(f"{name} does not answer as a name node does: {failed[0]}{hint}") from failed[0]


def _wait_after_fork() -> None:
    if _forked_at is not None:
        time.sleep(max(0.0, _forked_at + _KEPT_SECONDS + 1 - time.monotonic()))
