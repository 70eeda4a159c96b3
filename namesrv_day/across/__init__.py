"""What crosses days and name servers: addresses that are one server's, days that change, a run in numbers."""
