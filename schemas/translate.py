"""Readers' SQL in DuckDB's dialect, one statement a name; `schemas.asked` caches it, because translating takes seconds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from schemas import gold
from schemas.dialect import duckdb_body, duckdb_type
from schemas.queries import queries
from schemas.sql_files import Field
from schemas.table import Column, type_name
from schemas.views import COVERAGE_SPANS, quoted, statements, stored_tables

# Converts an argument, perhaps a text, to an instant. Without a zone or offset it is UTC, whatever the session's zone.
_UTC = """CREATE OR REPLACE MACRO utc(_t) AS CASE
    WHEN typeof(_t) = 'TIMESTAMP WITH TIME ZONE' THEN CAST(_t AS TIMESTAMPTZ)
    WHEN typeof(_t) = 'VARCHAR' AND regexp_matches(CAST(_t AS VARCHAR), ':.*([Zz]|[+-][0-9:]+| [A-Za-z].*)$')
        THEN CAST(_t AS TIMESTAMPTZ)
    ELSE timezone('UTC', CAST(_t AS TIMESTAMP))
END
"""


def _commented(kind: str, name: str, text: str, columns: Iterable[Field | Column] = ()) -> str:
    """Return the statements that set the comments of a view and its columns, or of a function."""
    of_columns = (f"COMMENT ON COLUMN {name}.{of.name} IS {quoted(of.comment)};\n" for of in columns)
    return f"COMMENT ON {kind} {name} IS {quoted(text)};\n{''.join(of_columns)}"


def texts() -> Iterator[tuple[str, str]]:
    """Yield names and texts of views, functions, saved queries, derived columns and comments; the text of `tables` is JSON."""
    tables = {
        name: {
            "table": table.name,
            "layer": table.layer,
            "columns": {column.name: duckdb_type(type_name(column.type)) for column in table.delta_schema},
            "cut": table.partition_by,
            "key": table.key,
            "ends": table.span[1],
            "has_intervals": table.has_intervals,
        }
        for name, table in stored_tables().items()
    }
    for table in stored_tables().values():
        for column in table.derived:
            yield f"column.{table.name}.{column.name}", duckdb_body(f"SELECT {column.derived}")[7:] + "\n"
    spans = ", ".join(f"{name}: {kind}" for name, kind in COVERAGE_SPANS.items())
    yield "column.coverage_spans.said", json.dumps([duckdb_type(f"STRUCT<{spans}>")])  # as from_json takes it
    yield "tables", json.dumps(tables, indent=1) + "\n"
    yield "utc", _UTC
    for name, statement in statements().items():
        parameters = {one.name: one.type for one in statement.parameters}
        body = duckdb_body(statement.body, name, parameters)
        if statement.columns:
            body = f"SELECT * FROM (\n{body}\n) AS made({', '.join(of.name for of in statement.columns)})"
        if parameters:
            given = ", ".join(f"_{parameter}" for parameter in parameters)
            yield name, f"CREATE OR REPLACE MACRO {name}({given}) AS TABLE\n{body}\n"
            yield f"comment.{name}", _commented("MACRO TABLE", name, statement.comment)
        else:
            yield name, f"CREATE OR REPLACE VIEW {name} AS\n{body}\n"
            # The columns of `runs` are the table's. If declared, `coverage` among them would be taken for the view of that name.
            columns = gold.RUNS.delta_columns if name == "runs" else statement.columns
            yield f"comment.{name}", _commented("VIEW", name, statement.comment, columns)
    for name, table in stored_tables().items():
        yield f"comment.{name}", _commented("VIEW", name, table.grain, table.delta_columns)
    for query in queries().values():
        types = {parameter.name: parameter.type for parameter in query.parameters}
        yield f"query.{query.name}", duckdb_body(query.sql, parameters=types) + "\n"
