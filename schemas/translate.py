"""Readers' SQL in DuckDB's dialect, a statement a name; `schemas.asked` keeps it, so that who asks need not wait for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

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
_COMMENTED = re.compile(r"^\s+(\w+) COMMENT '((?:[^']|'')*)'", re.MULTILINE)
# An instant that a function is given, perhaps as text: without a zone, or an offset, it is UTC, whatever zone the session has.
_UTC = """CREATE OR REPLACE MACRO utc(_t) AS CASE
    WHEN typeof(_t) = 'TIMESTAMP WITH TIME ZONE' THEN CAST(_t AS TIMESTAMPTZ)
    WHEN typeof(_t) = 'VARCHAR' AND regexp_matches(CAST(_t AS VARCHAR), ':.*([Zz]|[+-][0-9:]+| [A-Za-z].*)$')
        THEN CAST(_t AS TIMESTAMPTZ)
    ELSE timezone('UTC', CAST(_t AS TIMESTAMP))
END
"""
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
        return f"CREATE OR REPLACE VIEW {name} AS\n{body}\n"
    given = ", ".join(f"_{parameter}" for parameter in parameters)
    return f"CREATE OR REPLACE MACRO {name}({given}) AS TABLE\n{body}\n"


def _comments(statement: Statement) -> str:
    """Return the statements that give a view, with its columns, or a function its comments in DuckDB."""
    found = _HEAD.fullmatch(statement.sql)
    assert found is not None, statement.name
    kind = "VIEW" if found["kind"] == "VIEW" else "MACRO TABLE"
    columns = dict(_COMMENTED.findall(found["first"] or "")) if kind == "VIEW" else {}
    return _commented(statement.name, kind, found["comment"] or "", columns)


def _commented(name: str, kind: str, comment: str, columns: Mapping[str, str]) -> str:
    """Return the same; texts are as between quotes."""
    of_columns = (f"COMMENT ON COLUMN {name}.{column} IS '{text}';\n" for column, text in columns.items())
    return f"COMMENT ON {kind} {name} IS '{comment}';\n{''.join(of_columns)}"


def texts() -> Iterator[tuple[str, str]]:
    """Yield the names of views, functions, saved queries and derived columns with their text; `tables` is JSON."""
    tables = {
        name: {
            "table": table.name,
            "layer": table.layer,
            "columns": {column.name: _type(column.type) for column in table.delta_schema},
            "cut": table.partition_by,
            "ends": table.span[1],
        }
        for name, table in stored_tables().items()
    }
    for table in stored_tables().values():
        for column in table.derived:
            yield f"column.{table.name}.{column.name}", duckdb_body(f"SELECT {column.derived}")[7:] + "\n"
    yield "tables", json.dumps(tables, indent=1) + "\n"
    yield "utc", _UTC
    for name, statement in statements().items():
        yield name, duckdb_statement(statement)
        yield f"comment.{name}", _comments(statement)
    for name, table in stored_tables().items():
        yield (
            f"comment.{name}",
            _commented(
                name,
                "VIEW",
                _quoted(table.grain),
                {of.name: _quoted(of.comment) for of in table.columns if not of.derived},
            ),
        )
    for query in queries().values():
        types = {parameter.name: parameter.type for parameter in query.parameters}
        yield f"query.{query.name}", duckdb_body(query.sql, parameters=types) + "\n"


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def _type(of: pa.DataType) -> str:
    if pa.types.is_struct(of):
        fields = (f'"{field.name}" {_type(field.type)}' for field in of)
        return f"STRUCT({', '.join(fields)})"
    if pa.types.is_list(of):
        return f"{_type(of.value_type)}[]"
    if pa.types.is_map(of):
        return f"MAP({_type(of.key_type)}, {_type(of.item_type)})"
    return _PRIMITIVES[of]
