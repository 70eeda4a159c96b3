"""Comparison of tables by content, and rows in a form with a reproducible digest."""
