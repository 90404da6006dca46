"""What quickstart says at each step."""

OPENING = """b_part has three partitions, f_abort none. For now they hold only Hive's first transactions: inserts, one
    of which was rolled back (write id 2 of f_abort). Rows are read by a small reader of this page
    alone, with pyarrow."""
SCAN = """The initiator applies Hive's thresholds. Hive waits for more than 10 deltas; for these small tables more
    than 1 is enough. This is a dry run: it decides, and queues nothing. W stands for the warehouse."""
MINOR = """Hive's rule asks for a major where there is no base yet. A minor, which joins deltas, can be asked for by
    name, as with ALTER TABLE ... COMPACT 'minor'. Whole stripes are copied as they are; those with rows of the
    transaction that was rolled back are rewritten. On a real table a stripe below 256 KiB is not copied but joined with
    its neighbours; all stripes here are that small, so for this page the limit is off."""
MORE = """Now the rest of what Hive did: an update, deletes, late inserts, and in f_abort a rolled back update and a
    rolled back delete. New directories are marked with +."""
AGAIN = """This time the requests are queued, each with the reason."""
MAJOR = """Without a table's name the job takes what waits in the queue. Deleted rows and rolled back rows go; the
    result is a base, one directory that appears with a single rename. Until it is cleaned, the old files stay."""
CLEAN = """The cleaner removes what the two compactions made obsolete. As a rule it waits for a day, for readers that
    still use the old files; here it does not wait. The write ids to which that applies were recorded with each
    request."""
HISTORY = """In the columns of Hive's SHOW COMPACTIONS (some of them)."""
NEXT = """Try it on a copy of a table of yours, or with --dry-run first, which changes nothing. --all-committed says
    that nobody writes, nothing is open and nothing was rolled back; else give --write-ids (see docs/directories.md)."""
