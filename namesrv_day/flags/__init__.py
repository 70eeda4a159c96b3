"""What an operator should know of a day: expired brokers, route changes, findings."""
