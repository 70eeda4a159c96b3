"""Event logs: lines read, known ones as columns, and written."""
