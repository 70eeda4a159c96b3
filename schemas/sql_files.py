"""Statements that have a file of their own in `schemas/sql`: all that are longer than a few lines.

What several of them share is a file of `schemas/sql/shared`, in words that Spark and DuckDB both have: `{name(column, other)}` in a
statement stands for the file `name`, with these in place of the names in braces there, in the order in which it has them.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_SHARED, _PLACE = re.compile(r"\{(\w+)\(([\w., ]*)\)\}"), re.compile(r"\{\w+\}")


@cache
def query(name: str) -> str:
    """Return the text of one file, by its path without `.sql`."""
    return with_shared((files("schemas") / "sql" / f"{name}.sql").read_text(encoding="utf-8"))


def with_shared(sql: str) -> str:
    """Return a statement with what it shares with others. Raises ValueError where it gives that too little or too much."""

    def shared(found: re.Match[str]) -> str:
        lines = query(f"shared/{found[1]}").splitlines()
        text = "\n".join(line for line in lines if not line.startswith("--"))
        places = dict.fromkeys(_PLACE.findall(text))
        given = dict(zip(places, re.findall(r"[\w.]+", found[2]), strict=True))
        return _PLACE.sub(lambda place: given[place[0]], text)

    return _SHARED.sub(shared, sql)
