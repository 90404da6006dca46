"""How a driver is started: what is said to Spark and to the job, its environment, and the command `acidlib`."""
