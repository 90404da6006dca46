"""A metastore of Hive 3.1: transactions and locks over thrift, requests in a SQL queue."""
