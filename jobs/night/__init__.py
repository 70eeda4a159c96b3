"""A run: its days, the passes over them, and publication."""
