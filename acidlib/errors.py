"""The one error root, and its children by what the caller can do about it.

A message reads "Cannot X: because Y" and names the table, partition, path or transaction it is about.
"""


class AcidError(Exception):
    """Anything this library refuses or fails to do. Never raised itself."""


class RetryError(AcidError):
    """The surroundings failed (no space, no permission, a server away): the same call may succeed later."""


class RefusedError(AcidError):
    """The request makes no sense or is not supported here: the same call will be refused again."""


class ConflictError(AcidError):
    """Somebody else works on, or has changed, the same partition: look again, then decide."""


class CorruptError(AcidError):
    """An input is damaged, truncated, missing or of a kind this version does not understand."""


class UnknownOutcomeError(AcidError):
    """An effect was asked for and its result is not known: look before anything is undone."""


class DefectError(AcidError):
    """This library is at fault, not the caller or the data: please report it."""
