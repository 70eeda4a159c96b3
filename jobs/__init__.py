"""Spark jobs: the only package that starts a session, reads or writes a table."""
