"""Readers' SQL in DuckDB's dialect, a statement a name; `schemas.asked` keeps it, so that who asks need not wait for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pyarrow as pa

from schemas.dialect import duckdb_body
from schemas.queries import queries
from schemas.views import Statement, statements, stored_tables

_HEAD = re.compile(
    r"CREATE OR REPLACE TEMPORARY (?P<kind>VIEW|FUNCTION) (?P<name>\w+)\s*(?:\((?P<first>.*?)\n\)\n)?"
    r"(?:RETURNS TABLE\((?P<returned>.*?)\n\)\n)?(?:COMMENT '(?P<comment>(?:[^']|'')*)'\n)?(?:AS|RETURN)\n(?P<body>.*)",
    re.DOTALL,
)
_DECLARED = re.compile(r"^\s+(\w+) (\w+)", re.MULTILINE)
_PRIMITIVES = {
    pa.string(): "TEXT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    pa.float64(): "DOUBLE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
    pa.date32(): "DATE",
}


def duckdb_statement(statement: Statement) -> str:
    """Return the statement that makes the same view or function in DuckDB."""
    found = _HEAD.fullmatch(statement.sql)
    assert found is not None, statement.name
    kind, name = found["kind"], found["name"]
    parameters = dict(_DECLARED.findall(found["first"] or "")) if kind == "FUNCTION" else {}
    body = duckdb_body(found["body"], name, parameters)
    columns = [column for column, _ in _DECLARED.findall((found["returned"] if parameters else found["first"]) or "")]
    if columns:
        body = f"SELECT * FROM (\n{body}\n) AS made({', '.join(columns)})"  # noqa: S608  text of ours
    if kind == "VIEW":
        return f"CREATE OR REPLACE TEMPORARY VIEW {name} AS\n{body}\n"
    given = ", ".join(f"_{parameter}" for parameter in parameters)
    return f"CREATE OR REPLACE TEMPORARY MACRO {name}({given}) AS TABLE\n{body}\n"


def texts() -> Iterator[tuple[str, str]]:
    """Yield the names of views, functions, saved queries and derived columns with their text; `tables` is JSON."""
    tables = {
        name: {
            "table": table.name,
            "layer": table.layer,
            "columns": {column.name: _type(column.type) for column in table.delta_schema},
            "cut": table.partition_by,
        }
        for name, table in stored_tables().items()
    }
    for table in stored_tables().values():
        for column in table.derived:
            yield f"column.{table.name}.{column.name}", duckdb_body(f"SELECT {column.derived}")[7:] + "\n"
    yield "tables", json.dumps(tables, indent=1) + "\n"
    for name, statement in statements().items():
        yield name, duckdb_statement(statement)
    for query in queries().values():
        yield f"query.{query.name}", duckdb_body(query.sql) + "\n"


def _type(of: pa.DataType) -> str:
    if pa.types.is_struct(of):
        fields = (f'"{field.name}" {_type(field.type)}' for field in of)
        return f"STRUCT({', '.join(fields)})"
    if pa.types.is_list(of):
        return f"{_type(of.value_type)}[]"
    if pa.types.is_map(of):
        return f"MAP({_type(of.key_type)}, {_type(of.item_type)})"
    return _PRIMITIVES[of]
