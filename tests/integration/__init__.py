"""Whole runs: the jobs' command lines on copies of the tables that real Hive wrote."""
