"""Hive's format: names of directories and files, lists of write ids, and what readers read of a directory."""
