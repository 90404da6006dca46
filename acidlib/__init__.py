"""A Spark-native compaction engine for Hive ACID tables."""

__version__ = "0.1.0"
