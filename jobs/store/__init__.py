"""Storage: Delta tables as files and logs, the ledger, and maintenance. No Spark."""
