"""Hadoop in the JVM of the driver: what it alone can open, and its secrets, tokens and mount tables."""
