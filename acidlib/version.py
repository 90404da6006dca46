"""The version of this package, which every room may import."""

__version__ = "0.1.0"
