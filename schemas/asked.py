"""What readers' SQL is made of in DuckDB's dialect, as `schemas.dialect` wrote it down: nothing here takes time to import."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "duckdb"
_WORD = re.compile(r"\w+")


class Stored(NamedTuple):
    """A table under a name of readers': its own name, its layer, and its columns with their types in DuckDB."""

    table: str
    layer: str
    columns: Mapping[str, str]


def _text(name: str) -> str:
    """Return what a file says. On a cluster it lies in an archive, not in a folder; raises OSError if there is none."""
    found = pkgutil.get_data("schemas", f"{FOLDER.name}/{name}")
    if found is None:
        raise FileNotFoundError(name)
    return found.decode()


@cache
def stored() -> dict[str, Stored]:
    """Return the tables as they were published, by the name under which statements read them."""
    found = json.loads(_text("tables.json"))
    return {name: Stored(**table) for name, table in found.items()}


@cache
def statement(name: str) -> str | None:
    """Return the statement that makes a view or function; None for another name."""
    try:
        return _text(f"{name}.sql")
    except OSError:
        return None


@cache
def derived(table: str, column: str) -> str:
    """Return what a column that is not stored follows from."""
    return _text(f"column.{table}.{column}.sql")


@cache
def names() -> frozenset[str]:
    """Return the names of all views, functions and tables."""
    return frozenset(path.stem for path in FOLDER.glob("*.sql")) | frozenset(stored())


def needed(text: str, known: Iterable[str], made_by: Callable[[str], str]) -> list[str]:
    """Return those of the names `known` that a statement may touch, what others are made of first.

    Which words of a text are names of what is not asked: a column that is called like a view costs time, nothing else.
    """
    wanted, seen, found = frozenset(known), set[str](), list[str]()

    def visit(words: Iterable[str]) -> None:
        for name in words:
            if name in wanted and name not in seen:
                seen.add(name)
                visit(sorted(words_of(made_by(name))))
                found.append(name)

    visit(sorted(words_of(text)))
    return found


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case."""
    return frozenset(word.lower() for word in _WORD.findall(text))
