"""Stores that publish by renaming directories: local disks and HDFS."""
