"""Random histories of an ACID table, and a naive model that knows what every reader has to see."""
