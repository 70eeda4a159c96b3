"""Ingest of captures and event logs into the bronze tables, in processes or Spark tasks."""

STANDARD_INPUT = "-"
"""The input that is read from a pipe."""
