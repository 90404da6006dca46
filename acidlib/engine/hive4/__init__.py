"""A metastore of Hive 4: a whole compaction worker, initiator and cleaner, over thrift alone."""
