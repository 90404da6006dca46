"""Without a metastore: tables are directories, what is committed is stated, the queue is our own."""
