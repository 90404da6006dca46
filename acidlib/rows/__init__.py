"""Rows of full ACID tables in ORC files: the files that hold them, their row ids, and the events that delete them."""
