"""Real servers for the tests: PostgreSQL, Hive metastores of both generations and HiveServer2.

They run on this machine under free ports, from jars that Maven brings once into ``.servers`` of the checkout.
Every server is stopped when the process that started it ends, however it ends (see ``guard``).
"""
