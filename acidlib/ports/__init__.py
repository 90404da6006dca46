"""What a run works with, as protocols, and their kinds side by side: directories alone, Hive 3.1, Hive 4."""
