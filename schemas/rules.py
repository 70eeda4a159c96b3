"""The rules of every table, as data: a rule is a SQL boolean (DuckDB's) and its sentence.

Critical rules state what this software promises: breaking one is an error of the software and stops publication.
Warnings state what brokers and operators usually do: real input may break them, and is then reported, not refused.
No rule forbids a state that a name server can really have: live entries without a group, a cluster set with the
name of a group that is gone, one address in several groups.
"""

from __future__ import annotations

from typing import Final

from schemas import bronze, gold
from schemas.gold import of_history
from schemas.table import Rule, present, unique

TABLES: Final = {table.name: table for table in (*bronze.TABLES, *gold.TABLES)}
# Histories need no rule of unique keys: their intervals do not overlap.
_SHARED = {table.name: (present(table), unique(table.name, table.key)) for table in TABLES.values()} | {
    table.name: of_history(table) for table in gold.HISTORY_TABLES
}
RULES: dict[str, tuple[Rule, ...]] = {name: (*_SHARED[name], *table.rules) for name, table in TABLES.items()}
"""The rules of every table, by its name."""
