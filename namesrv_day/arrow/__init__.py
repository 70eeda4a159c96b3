"""Arrow tables: SQL over them, conversion from and to Python, digests that can be added."""
