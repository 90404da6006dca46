"""What the program does: initiate, compact, clean, undo; with a metastore and without."""
