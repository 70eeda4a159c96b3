"""A simulated fleet: the events that it sends to its name servers, written as if they had been recorded, and the truth about them."""
