"""Where the tables lie: Delta tables as their files and their logs, the ledger, and their care. No Spark."""
