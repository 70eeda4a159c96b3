"""Steps across days and name servers: several addresses of one server, and a run's numbers."""
