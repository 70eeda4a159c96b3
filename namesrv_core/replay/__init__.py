"""Recorded events taken in their order: the loop, and what it learns where the past is not known."""
