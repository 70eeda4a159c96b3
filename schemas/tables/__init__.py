"""One file for each gold table except the histories: its columns with comments, its key, and its rules.

The constant has the file's name in capitals. `schemas.gold` collects all tables.
"""
