"""Rows in Arrow: SQL over them, between them and Python, digests that add up."""
