"""A simulated fleet: what it sends to its name servers, written as if it had been recorded, and the truth about it."""
