"""Event logs, read and written; a name server's own log, read."""
