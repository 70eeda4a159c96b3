"""The reference (`./spark-submit.sh reference`): every table, view and function, and what each of their columns says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from schemas import bronze, gold
from schemas.queries import queries
from schemas.table import type_name
from schemas.views import functions, views

_COMMENT = r"COMMENT '((?:[^']|'')*)'"
_COLUMN = re.compile(rf"^    (\w+)(?: ([A-Z][\w<>,: ]*?))? {_COMMENT},?$", re.MULTILINE)
_OF_ALL = re.compile(rf"^\)?{_COMMENT}$|^{_COMMENT}$", re.MULTILINE)
_RETURNS = re.compile(r"\(\n(?P<given>.*?)\n\)\nRETURNS TABLE\(\n(?P<returned>.*?)\n\)\n", re.DOTALL)


def text() -> str:
    """Return the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Tables, views and functions"
    yield ""
    yield "All instants are UTC. A `*` marks columns that are never NULL; *derived* ones follow from others and are not stored."
    for layer, tables in (("Bronze: what was recorded", bronze.TABLES), ("Gold: what follows from it", gold.TABLES)):
        yield f"\n## {layer}"
        for table in tables:
            cut = f"; cut by {', '.join(table.partition_by)}" if table.partition_by else ""
            yield f"\n### {table.name}\n"
            yield f"A row is {table.grain}. Key: {', '.join(f'`{name}`' for name in table.key)}{cut}.\n"
            columns = (
                (
                    f"`{of.name}`{'*' if of.required else ''}{' *derived*' if of.derived is not None else ''}",
                    type_name(of.type),
                    of.comment,
                )
                for of in table.columns
            )
            yield from _rows(("column", "type", "says"), columns)
    yield "\n## Views"
    for view in views():
        yield from _made(view.name, view.name, view.sql, _COLUMN.findall(view.sql.partition("\nAS\n")[0]))
    yield "\n## Functions"
    for function in functions():
        found = _RETURNS.search(function.sql)
        assert found is not None, function.name
        given = _COLUMN.findall(found["given"])
        call = f"{function.name}({', '.join(f'{name} {kind}' for name, kind, _ in given)})"
        yield from _made(function.name, call, function.sql, _COLUMN.findall(found["returned"]))
    yield "\n## Saved queries"
    yield ""
    yield "`ask query NAME --param NAME=VALUE`; `ask queries` lists what each is asked for."
    yield ""
    yield from _rows(("query", "answers"), ((f"`{one.name}`", one.question) for one in queries().values()))


def _made(name: str, call: str, sql: str, columns: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    said = next((one or other for one, other in _OF_ALL.findall(sql)), "")
    yield f"\n### {name}\n"
    yield f"`{call}`: {_plain(said)}.\n" if call != name else f"{_plain(said)}.\n"
    listed = [(f"`{column}`", kind, _plain(comment)) for column, kind, comment in columns]
    if any(kind for _, kind, _ in listed):
        yield from _rows(("column", "type", "says"), listed)
    elif listed:
        yield from _rows(("column", "says"), ((column, comment) for column, _, comment in listed))


def _rows(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _plain(comment: str) -> str:
    return comment.replace("''", "'")
