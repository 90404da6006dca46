"""Reading a snapshot: the rows that a reader with a list of write ids sees, as Arrow batches."""
