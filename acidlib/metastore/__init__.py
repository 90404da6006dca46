"""Catalogs and transactions: standalone, where the caller says what is committed, or a metastore of Hive 3.1 or 4."""
