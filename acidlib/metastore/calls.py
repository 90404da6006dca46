"""What the groups of calls have in common."""

from __future__ import annotations

from typing import Any

from acidlib.errors import RefusedError
from acidlib.metastore.caller import Caller, Effect
from acidlib.metastore.failures import UnknownCallError
from acidlib.metastore.idl import interface, need
from acidlib.model.generation import Generation


class Calls:
    """A group of calls over one `Caller`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._types: Any = interface()
        self._need = need

    @property
    def generation(self) -> Generation:
        """The generation of the metastore, found by asking it."""
        return self._caller.generation

    @property
    def _is_hive4(self) -> bool:
        return self._caller.generation is Generation.HIVE4

    def _read(self, action: str, call: str, *arguments: object, missing: str = "") -> Any:
        """A call that leaves nothing behind, through our own interface."""
        return self._caller.own(action, call, *arguments, effect=Effect.NONE, missing=missing)

    def _if_known(self, action: str, call: str, *arguments: object) -> Any:
        """A read that some versions of a generation have; None from one that has not."""
        try:
            return self._read(action, call, *arguments)
        except UnknownCallError:
            return None

    def _only_hive4(self, action: str) -> None:
        if not self._is_hive4:
            raise RefusedError(f"Cannot {action}: because a Hive 3.1 metastore has no such call")
