"""A metastore of Hive 3.1 or 4: its catalog, transactions, locks and compactions as typed calls."""
