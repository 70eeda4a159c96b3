"""The replay of a name server's day: beats folded into runs, the core's loop, rows of the histories."""
