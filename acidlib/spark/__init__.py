"""Snapshots as Spark reads them: a data frame, and a data source."""
