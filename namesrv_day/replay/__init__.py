"""A pack of units replayed: the core's loop, quiet units tried and carried forward, rows of the histories."""
