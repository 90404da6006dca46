"""Which generation of Hive a directory belongs to, where nobody says so."""

from __future__ import annotations

from acidlib.model.generation import Generation
from acidlib.model.listing import Listing, has_hidden_part
from acidlib.model.names import BucketFile, has_visibility_suffix, parse_file


def detect_generation(listing: Listing) -> tuple[Generation, str]:
    """Hive 4 when a visibility suffix or a bucket file with an attempt is there, which Hive 3 cannot read; else Hive 3.

    Returns the generation and what it was told by.
    """
    for name in listing.top_directories():
        if has_visibility_suffix(name):
            return Generation.HIVE4, f"{name} has a visibility suffix"
    for file in listing.files:
        parsed = parse_file(file.name)
        if isinstance(parsed, BucketFile) and parsed.attempt is not None and not has_hidden_part(file.path):
            return Generation.HIVE4, f"{file.path} has an attempt suffix"
    return Generation.HIVE3, "nothing there is of Hive 4"
