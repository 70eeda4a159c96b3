"""Saved queries: common questions about a registry's history, in Spark's dialect.

Each is a file in the folder of its group, below `schemas/sql/queries`. Its head (see `schemas.sql_files`) has the question, the
parameters, written `:name` in the statement, and the columns of the answer.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from schemas.sql_files import Field, headed, with_shared

FOLDER = Path(__file__).parent / "sql" / "queries"
GROUPS = {
    "availability": "availability",
    "liveness": "liveness",
    "disagreement": "name servers that disagree",
    "identity": "identity and roles",
    "permissions": "permissions",
    "topics": "topics",
    "versions": "versions, load and audit",
}
"""Titles of the groups by folder, in order."""


class Query(NamedTuple):
    """A saved query: its question in words, its parameters, the columns of its answer with comments, its statement."""

    name: str
    question: str
    group: str
    parameters: tuple[Field, ...]
    columns: dict[str, str]
    sql: str


@cache
def queries() -> dict[str, Query]:
    """Return all queries by name, in the order of groups. Raises ValueError or KeyError for a malformed head."""
    found = dict[str, Query]()
    for folder, group in GROUPS.items():
        for path in sorted((FOLDER / folder).glob("*.sql")):
            parsed = headed(with_shared(path.read_text(encoding="utf-8")))
            if not parsed.words or not parsed.columns:
                raise ValueError(f"{path.name}: the head lacks a question, or columns")
            columns = {column.name: column.comment for column in parsed.columns}
            found[path.stem] = Query(path.stem, parsed.words, group, parsed.parameters, columns, parsed.sql)
    return found
