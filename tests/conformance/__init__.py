"""Conformance with Hive: its tables, its results, its readers."""
