"""Spark jobs: the only package that starts a session, reads or writes a table."""

__version__ = "0.1.0"
