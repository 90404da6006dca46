"""How a job gets to spark-submit: its options, the environment it runs in, and the command `acidlib`."""
