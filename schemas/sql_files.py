"""Statements that have a file of their own in `schemas/sql`: all that are longer than a few lines.

What several of them share is an expression in `schemas/sql/shared`, in words that Spark and DuckDB both have: `{name(column)}` in a
statement stands for the file `name`, of that column.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_SHARED = re.compile(r"\{(\w+)\((\w+(?:\.\w+)?)\)\}")


@cache
def query(name: str) -> str:
    """Return the text of one file, by its path without `.sql`."""
    return with_shared((files("schemas") / "sql" / f"{name}.sql").read_text(encoding="utf-8"))


def with_shared(sql: str) -> str:
    """Return a statement with the shared expressions that it names."""

    def shared(found: re.Match[str]) -> str:
        lines = query(f"shared/{found[1]}").splitlines()
        return "\n".join(line for line in lines if not line.startswith("--")).replace("{addr}", found[2])

    return _SHARED.sub(shared, sql)
