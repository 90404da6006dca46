"""Judges of the test suite: readers and checkers that share no code with the engine."""
