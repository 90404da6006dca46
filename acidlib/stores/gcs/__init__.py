"""Buckets of Google Cloud Storage: publication by composing objects."""
