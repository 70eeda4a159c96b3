"""Flags of a day for operators: expired brokers, route changes, orphaned topics, findings."""
