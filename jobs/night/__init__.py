"""A run: which days, the passes over them, what is published."""
