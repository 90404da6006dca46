"""The first words over a connection: who we are, and which Hive the other side is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from acidlib.errors import RefusedError
from acidlib.metastore.connection import APPLICATION_ERRORS, SERVER_ERRORS, Connection
from acidlib.metastore.endpoint import CATALOG, ConnectionOptions
from acidlib.metastore.failures import is_unknown_method, one_line
from acidlib.metastore.idl import interface
from acidlib.metastore.link import LinkLost
from acidlib.model.generation import Generation
from acidlib.model.names import LONG_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What a metastore is: its generation, and the version it tells ("" if none).

    The versions 3.0 and 3.1 both tell `3.0`; Hive 4 tells its own, such as `4.0.1`.
    """

    generation: Generation
    version: str


def shake_hands(connection: Connection, options: ConnectionOptions, user: str) -> Peer:
    """Tells the server the user's name and asks what it is.

    Each answer has to come within the connect timeout. Raises LinkLost, and RefusedError when the server is no
    metastore of Hive 3.1 or 4.
    """
    if options.set_user and options.sasl is None:
        # as Hive's client: a server that does not want to know the user is no obstacle
        with suppress(*SERVER_ERRORS):
            connection.own(options.connect_timeout_seconds, "set_ugi", user, [])
    version = ""
    with suppress(*SERVER_ERRORS):
        version = connection.own(options.connect_timeout_seconds, "getVersion")
    return Peer(generation=_generation(connection, options, version), version=version)


def _generation(connection: Connection, options: ConnectionOptions, version: str) -> Generation:
    """Hive 4 if it has a call that only Hive 4 has, Hive 3 if it has one that came with Hive 3."""
    types = interface()
    asked = types.GetDatabaseRequest(name="default", catalogName=CATALOG)
    if _has(connection, options, "get_database_req", asked):
        return Generation.HIVE4
    nothing = types.GetValidWriteIdsRequest(fullTableNames=[], validTxnList=f"0:{LONG_MAX}::")
    if _has(connection, options, "get_valid_write_ids", nothing):
        return Generation.HIVE3
    told = f" (it tells version {version})" if version else ""
    raise RefusedError(
        f"Cannot use {connection.endpoint.uri}: because it is no metastore of Hive 3.1 or 4{told}: it has neither the "
        "call get_database_req nor get_valid_write_ids"
    )


def _has(connection: Connection, options: ConnectionOptions, call: str, request: object) -> bool:
    """Whether the server has a call: any answer that the interface provides for shows that it has."""
    try:
        connection.own(options.connect_timeout_seconds, call, request)
    except APPLICATION_ERRORS as error:
        if is_unknown_method(error):
            return False
        raise LinkLost(f"the server failed: {one_line(error)}") from None
    except SERVER_ERRORS:
        return True
    return True
