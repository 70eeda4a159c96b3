"""A name server's day replayed: beats folded into runs, the core's loop, rows of the histories."""
