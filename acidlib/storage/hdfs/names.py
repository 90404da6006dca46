"""Names of files: whole URIs here, paths as the name node has them there."""

from __future__ import annotations

from dataclasses import dataclass

from acidlib.errors import RefusedError


@dataclass(frozen=True, slots=True)
class NameSpace:
    """That of one name node or name service, by its authority."""

    authority: str

    @property
    def uri(self) -> str:
        """What all names begin with, without a slash at its end."""
        return f"hdfs://{self.authority}"

    def inside(self, uri: str) -> str:
        """A path as the name node has it. Raises `RefusedError` for one that does not lie here."""
        rest = uri.removeprefix(self.uri)
        if rest == uri or rest[:1] not in ("", "/") or "\0" in rest:
            raise RefusedError(f"Cannot open {uri!r}: because it does not name something on {self.uri}")
        return rest.rstrip("/") or "/"

    def outside(self, path: str) -> str:
        """The reverse of `inside`."""
        return self.uri + path
