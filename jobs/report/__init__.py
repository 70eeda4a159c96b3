"""Pages for people: what happened in a stretch of time, and an index of all that a warehouse shows."""
