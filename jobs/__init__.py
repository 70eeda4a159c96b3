"""Spark jobs: the only package that starts a session, reads or writes a table."""

__version__ = "1.0.0"
IS_INSTALLED = __name__ != "jobs"
"""Whether this is the program that pip installed: all packages lie below `namesrv_history` then; else this is a checkout."""
PROGRAM = "namesrv-history" if IS_INSTALLED else "spark-submit.sh"
