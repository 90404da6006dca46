"""What the definition of one setting says."""

import enum
from dataclasses import dataclass


class Kind(enum.Enum):
    """How the text of a setting is read; durations become whole milliseconds, sizes bytes."""

    COUNT = "a whole number"
    NUMBER = "a number"
    DURATION = "a duration such as 12h"
    SIZE = "a size such as 256m"
    FLAG = "true or false"
    TEXT = "a text"


class Spelling(enum.Enum):
    """What stands before a setting's name where databases and tables state it as a property.

    Hive Initiator has `compactorthreshold.`, Hive CompactorMR.overrideMRProps `compactor.`. PLAIN: nothing has to stand
    before it; `compactor.` may.
    """

    COMPACTOR = "compactor."
    THRESHOLD = "compactorthreshold."
    PLAIN = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting. Site files, acidlib.toml and `--set` may give it; properties only where it has a `spelling`.

    name              Hive's
    kind, unit, least  how its text is read, the unit of a bare number of time, and the least value; None = any
    default           as text
    meaning           sentences for people; without effect: why it has none, to follow a colon
    aliases           what else Hive calls it, besides `hive.compactor.x` for `metastore.compactor.x` and vice versa
    spelling          as a property of a database or table; None: it is the same for all tables
    of_readers        the table's own readers obey a table property of this name; `Target.matching` says when
    is_threshold      the initiator's decision goes by it
    inert             it is accepted, and nothing goes by it: Hive's services do, or would
    """

    name: str
    kind: Kind
    default: str
    meaning: str
    aliases: tuple[str, ...] = ()
    spelling: Spelling | None = None
    of_readers: bool = False
    unit: str = "s"
    least: float | None = 0
    is_threshold: bool = False
    inert: bool = False
