"""The tables: columns, comments, keys, rules, SQL views and functions. Nothing here runs or opens a session."""
