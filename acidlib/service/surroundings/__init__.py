"""What a run works with: directories alone, Hive 3.1, or Hive 4."""
