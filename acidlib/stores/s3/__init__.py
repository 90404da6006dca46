"""Buckets of S3: publication by completing uploads."""
