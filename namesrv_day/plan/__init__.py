"""What of a day must be replayed, in which units, and which event belongs to which."""
