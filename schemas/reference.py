"""The reference (`./spark-submit.sh reference`): every table, view, function and saved query, with each column's comment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schemas import bronze, gold
from schemas.queries import queries
from schemas.table import type_name
from schemas.views import Statement, functions, views


def text() -> str:
    """Return the page in Markdown."""
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
        yield from _made(view, view.name)
    yield "\n## Functions"
    for function in functions():
        yield from _made(
            function, f"{function.name}({', '.join(f'{of.name} {of.type}' for of in function.parameters)})"
        )
    yield "\n## Saved queries"
    yield ""
    yield "`ask query NAME --param NAME=VALUE`; `ask queries` lists what each is asked for."
    yield ""
    yield from _rows(("query", "answers"), ((f"`{one.name}`", one.question) for one in queries().values()))


def _made(made: Statement, call: str) -> Iterator[str]:
    yield f"\n### {made.name}\n"
    yield f"`{call}`: {made.comment}.\n" if made.parameters else f"{made.comment}.\n"
    columns = ((f"`{of.name}`", *([of.type] if made.parameters else []), of.comment) for of in made.columns)
    yield from _rows(("column", "type", "says") if made.parameters else ("column", "says"), columns)


def _rows(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
