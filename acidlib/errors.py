"""The one error root, and its children by what the caller can do about it.

A message reads "Cannot X: Y" and names the table, partition, path or transaction it is about.
"""

from typing import ClassVar


class AcidError(Exception):
    """Anything this library refuses or fails to do. Never raised itself. `kind` is what JSON calls it."""

    kind: ClassVar[str]

    @property
    def reason(self) -> str:
        """The message without its "Cannot X: ", for the message of another error."""
        text = str(self)
        return text.partition(": ")[2] or text


class RetryError(AcidError):
    """The surroundings failed (no space, no permission, a server away): the same call may succeed later."""

    kind = "retry"


class RefusedError(AcidError):
    """The request makes no sense or is not supported here: the same call will be refused again."""

    kind = "refused"


class UsageError(RefusedError):
    """The command line is wrong, or contradicts what it names: another one has to be given."""

    kind = "usage"


class MissingError(RefusedError):
    """What is named does not exist: a location, a table, or any partition that matches."""

    kind = "missing"


class ConflictError(AcidError):
    """Somebody else works on, or has changed, the same partition: look again, then decide."""

    kind = "conflict"


class BusyError(ConflictError):
    """Another run of this engine has the partition, and lives: it is done there, or later."""


WHEN_FREE = "try again when that run has ended; one that died is taken over after 10 minutes"
"""What to do where another run works."""


class CorruptError(AcidError):
    """An input is damaged, truncated, missing or of a kind this version does not understand."""

    kind = "corrupt"


class UnverifiedError(AcidError):
    """A result is visible that reads otherwise than what it was made of, or could not be read: a person has to look."""

    kind = "unverified"


class UnknownOutcomeError(AcidError):
    """An effect was asked for and its result is not known: look before anything is undone."""

    kind = "unknown outcome"


class DefectError(AcidError):
    """This library is at fault, not the caller or the data: please report it."""

    kind = "defect"
