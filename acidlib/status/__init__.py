"""How tables are doing, and whether jobs can work here."""
