"""Buckets: publication by pending files that one request each makes visible, under a record."""
