"""Parquet files are joined by copying their row groups under one new footer. No page is decoded.

Sources of the rules: parquet.thrift, PageIndex.md, BloomFilter.md and BinaryProtocolExtensions.md of parquet-format.
"""
