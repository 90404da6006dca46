"""Real servers for the tests: PostgreSQL, Hive metastores of both generations, HiveServer2 and a cluster of Spark.

They run on this machine under free ports; Hive from jars that Maven brings once into ``.servers`` of the checkout.
Every server is stopped when the process that started it ends, however it ends (see ``guard``).
"""
