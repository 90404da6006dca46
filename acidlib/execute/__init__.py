"""How work is done: steps of places in turns, tasks in processes or on Spark, threads for what waits."""
