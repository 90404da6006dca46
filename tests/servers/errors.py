"""What goes wrong with the servers of the tests."""

from __future__ import annotations


class ServerError(Exception):
    """A server could not be brought, started or stopped; the message says which one and why."""
