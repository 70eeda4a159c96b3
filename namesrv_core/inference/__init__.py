"""Inference of what the wire does not show, from whole recordings: orders of racing events, and settings."""
