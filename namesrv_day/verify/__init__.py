"""Recorded answers held against the replayed tables."""
