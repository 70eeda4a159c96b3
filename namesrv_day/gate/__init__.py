"""What the gate asks of recorded rows: rules counted, keys that no two rows share, clocks."""
