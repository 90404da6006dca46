"""Major compaction."""

from acidlib.cli.jobs.compact import compaction_command
from acidlib.model.requests import CompactionType

main = compaction_command(CompactionType.MAJOR, "major_compact")
