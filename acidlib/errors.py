"""The root of all errors, and its children by what the caller can do about them.

A message reads "Cannot X: Y" and names the table, partition, path or transaction. It holds no secret.
"""

from pathlib import Path
from traceback import extract_tb, format_exception
from typing import ClassVar

from acidlib.arguments import Word, said
from acidlib.masking import masked
from acidlib.wording import brief

_PACKAGE = str(Path(__file__).parent)


class AcidError(Exception):
    """Anything this library refuses or fails to do. Only its children are raised."""

    kind: ClassVar[str]
    """The name of the class in JSON documents."""

    def __init__(self, message: str = "", /) -> None:
        """Keep the message, with its secrets masked, up to the length that results and the queue take.

        What it names by `acidlib.arguments` has the words of the command line in `str(error)`, until a door puts its
        own. Within another text, as in `f"{error}"`, it stays an argument that the door of that text says.
        """
        self.words = brief(masked(message))
        self.is_callers = False
        super().__init__(said(self.words))

    def put(self, word: Word) -> None:
        """Have the message name arguments in the words of a door, whose caller is to see it."""
        self.args = (said(self.words, word),)
        self.is_callers = True

    def __format__(self, form: str) -> str:
        return format(str(self) if self.is_callers else self.words, form)

    @property
    def reason(self) -> str:
        """The message without its "Cannot X: ", for the message of another error."""
        text = f"{self}"
        return text.partition(": ")[2] or text

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback: the sentence, and the line of the caller's own."""
        frames = [frame for frame in extract_tb(self.__traceback__) if not frame.filename.startswith(_PACKAGE)]
        line = [f"  line {frame.lineno}: {frame.line}" for frame in frames[-1:] if frame.line]
        return [f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ()), *line]


class RetryError(AcidError):
    """The surroundings failed (no space, no permission, an unreachable server): the same call may succeed later."""

    kind = "retry"


class HangingError(RetryError):
    """A call has not been answered for so long that its thread was left behind: the place may be worked on later."""


class RefusedError(AcidError):
    """The request is invalid or not supported here: the same call will be refused again."""

    kind = "refused"


class OverMemoryError(RefusedError):
    """An input takes more memory once it is decoded than may be used."""


class UsageError(RefusedError):
    """The arguments are wrong, or contradict the place or the data they name: they have to be changed."""

    kind = "usage"


class MissingError(RefusedError):
    """The named location or table does not exist, or no partition matches."""

    kind = "missing"


class ConflictError(AcidError):
    """Another program works on, or has changed, the same place: look again, then decide."""

    kind = "conflict"


class ReplacedError(ConflictError):
    """Another directory has the name of a place now than when it was looked at before: look at that one."""


class BusyError(ConflictError):
    """Another live run of this engine works on the place: that run compacts it, or a later one."""


WHEN_FREE = "try again when that run has ended; the place of a run that died is taken over after 10 minutes"
"""The advice in messages about a place on which another run works."""


class CorruptError(AcidError):
    """An input is damaged, truncated, missing or of a kind this version does not support."""

    kind = "corrupt"


class UnverifiedError(AcidError):
    """A visible result differs from its inputs, or could not be compared with them: the operator has to look at it."""

    kind = "unverified"


class UnknownOutcomeError(AcidError):
    """A call may or may not have taken effect: look before anything is undone."""

    kind = "unknown outcome"


class UnnotedResultError(UnknownOutcomeError):
    """A result is visible and right, and only the queue does not know it: nothing may be undone, either."""


class DefectError(AcidError):
    """This library is at fault, not the caller or the data: please report it."""

    kind = "defect"

    def _render_traceback_(self) -> list[str]:
        """Return the whole traceback, for the report."""
        return format_exception(self)


def known_error(error: Exception, cannot: str) -> AcidError:
    """Return an error of any class as one of ours, for the entry of a place; one of Python's is a defect.

    cannot  what could not be done, as in "compact db.table"
    """
    if isinstance(error, AcidError):
        return error
    return DefectError(f"Cannot {cannot}: unexpected {type(error).__name__}: {error}")
