"""The replay of recorded events in order, and what it learns from them while the past is not known."""
