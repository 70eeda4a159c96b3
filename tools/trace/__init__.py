"""Event traces: the exchange format for comparing name servers."""
