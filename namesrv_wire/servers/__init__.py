"""One name server as a capture shows it: its connections, exchanges, life, and the rows that follow."""
