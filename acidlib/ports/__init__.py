"""The interfaces between a run and its surroundings, each implemented for directories alone, Hive 3.1 and Hive 4."""
