"""The verbs: what a Python program and the command line do with tables. `acidlib` exports what is public."""
