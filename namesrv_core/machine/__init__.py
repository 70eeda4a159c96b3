"""The state machine: tables, transitions, one dispatch."""
