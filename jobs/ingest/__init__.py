"""From captures, event logs and snapshots into the bronze tables, in this process and without Spark."""
