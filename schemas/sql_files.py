"""Statements that have a file of their own in `schemas/sql`: all that are longer than a few lines."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def query(name: str) -> str:
    """Return the text of one file, by its path without `.sql`."""
    return (files("schemas") / "sql" / f"{name}.sql").read_text(encoding="utf-8")
