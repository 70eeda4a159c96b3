"""A file for each gold table but the histories: its columns with their comments, its key, and its rules.

The table is named as its file is, in capitals. `schemas.gold` has them all.
"""
