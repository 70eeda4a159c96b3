"""From captures and event logs into the bronze tables, in this process and without Spark."""

STANDARD_INPUT = "-"
"""The input that is read from a pipe."""
