"""The command line: what users type and see."""
