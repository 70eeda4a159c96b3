"""A night: which days, the passes over them, what is published."""
