"""Views and table functions for readers, one file each, in Spark's dialect.

They read the tables as published (`runs` as `runs_committed`; a table with derived columns as `<name>_stored`), `known_run`
(`finished_time` of the run as of which is read), and `coverage_spans` (what is recorded of each instant).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from schemas import bronze, gold
from schemas.findings import CATALOGUE, THRESHOLDS, Thresholds
from schemas.sql_files import Field, headed, query
from schemas.table import Table, type_name, words

# Tables of a name server: `<name>_rows_at` returns the rows at an instant, `<name>_table_at` also a row for each name server
# that is not known in full.
_HELD = {
    "topic_queue": "topicQueueTable as every name server held it at t",
    "broker_addr": "brokerAddrTable as every name server held it at t, one row for each member",
    "cluster_addr": "clusterAddrTable as every name server held it at t",
    "broker_live": "brokerLiveTable as every name server held it at t, with the exact lastUpdateTimestamp",
    "filter_server": "filterServerTable as every name server held it at t",
    "kv_config": "The KV configuration as every name server held it at t",
}
_ROUTES = (
    "The routes of all topics at t on every name server, one row for each broker name, columns as mqadmin topicRoute -l"
)
COVERAGE_SPANS = {
    "from_time": "TIMESTAMP",
    "until": "TIMESTAMP",
    "nowhere": "BOOLEAN",
    "recorded": "STRING",
    "said": "ARRAY<STRUCT<namesrv_id: STRING, is_covered: BOOLEAN, recorded: BOOLEAN, running: BOOLEAN, known: BOOLEAN, "
    "known_since: TIMESTAMP, coverage: STRING, nothing: STRING>>",
}
"""Columns of `coverage_spans` with their types: one row for each name server and time of equal coverage.

`from_time` NULL: no start; `until` NULL: no end. `nowhere`: no name server is recorded then; `recorded`: the recorded times in
words; `said`: the row that `coverage_at` returns, in a list of one.
"""


class Statement(NamedTuple):
    """A view or, with parameters, a table function: its comment, its declared columns (typed in a function), its query."""

    name: str
    comment: str
    parameters: tuple[Field, ...]
    columns: tuple[Field, ...]
    body: str

    @property
    def sql(self) -> str:
        """Return the statement that creates it in a Spark session."""
        comment = f"COMMENT {quoted(self.comment)}"
        if not self.parameters:
            return f"CREATE OR REPLACE TEMPORARY VIEW {self.name}{_declared(self.columns)}\n{comment}\nAS\n{self.body}"
        head = f"FUNCTION {self.name}{_declared(self.parameters)}\nRETURNS TABLE{_declared(self.columns)}"
        return f"CREATE OR REPLACE TEMPORARY {head}\n{comment}\nRETURN\n{self.body}"


def _declared(columns: Sequence[Field]) -> str:
    fields = (f"{of.name} {of.type} COMMENT {quoted(of.comment)}" for of in columns)
    return f" ({', '.join(fields)})" if columns else ""


def stored_tables() -> dict[str, Table]:
    """Return the tables by the names under which readers' SQL reads their published rows."""
    under = {"runs_committed": gold.RUNS}
    under |= {f"{table.name}_stored": table for table in bronze.TABLES if table.derived}
    others = (table for table in (*gold.TABLES, *bronze.TABLES) if table not in under.values())
    return under | {table.name: table for table in others}


def statements() -> dict[str, Statement]:
    """Return all views and functions by name."""
    known = "SELECT r.* FROM runs_committed AS r WHERE r.finished_time <= (SELECT finished_time FROM known_run)"
    made = [Statement("runs", "The ledger, up to the run that is read as of", (), (), known)]
    for table in (of for of in bronze.TABLES if of.derived):
        values = ", ".join(f"{of.derived} AS {of.name}" if of.derived else of.name for of in table.columns)
        columns = tuple(Field(of.name, "", of.comment) for of in table.columns)
        made.append(Statement(table.name, table.grain, (), columns, f"SELECT {values} FROM {table.name}_stored"))
    return {one.name: one for one in (*made, *views(), *functions())}


def views() -> list[Statement]:
    """Return the views over the bronze and gold views."""
    codes: list[str] = []
    for finding in CATALOGUE:
        texts, threshold = finding.texts, "CAST(NULL AS STRING)"
        if "threshold" in texts:
            name = texts["threshold"]
            field, unit = THRESHOLDS[name]
            threshold = quoted(f"{name} = {getattr(Thresholds(), field) // unit}")
        quoted_texts = (quoted(text) for text in (finding.code, texts["meaning"], texts["severity"]))
        of_code = (*quoted_texts, threshold, quoted(texts["remedy"]), str(finding.is_static).upper())
        codes.append(f"({', '.join(of_code)})")
    values = {
        "finding_codes": {"codes": ",\n    ".join(codes)},
        "restatements": {"recorded": words(of.name for of in bronze.RECORDED_TABLES)},
    }
    texts = {name: query(f"views/{name}") for name in _names_in("views")}
    return [_made(name, text.format(**values[name]) if name in values else text) for name, text in texts.items()]


def functions() -> list[Statement]:
    """Return the table functions."""
    rows = {name: _made(name, query(f"functions/{name}")) for name in _names_in("functions")}
    for history in gold.HISTORY_TABLES:
        of = history.name.removesuffix("_history")
        if of in _HELD and (name := f"{of}_rows_at") not in rows:
            columns = [column for column in history.columns if column not in gold.INTERVAL]
            values = {
                "rows": name,
                "history": history.name,
                "declared": "\n".join(f"-- column {of.name} {type_name(of.type)}: {of.comment}" for of in columns),
                "columns": ", ".join(f"r.{column.name}" for column in columns),
            }
            rows[name] = _made(name, query("at/rows").format(**values))
    at = [_at(f"{of}_table_at", rows[f"{of}_rows_at"], comment) for of, comment in _HELD.items()]
    return [*rows.values(), *at, _at("routes_at", rows["routes_rows_at"], _ROUTES)]


def _names_in(folder: str) -> list[str]:
    return sorted(file.name.removesuffix(".sql") for file in (files("schemas") / "sql" / folder).iterdir())


def _made(name: str, text: str) -> Statement:
    parsed = headed(text, in_capitals=True)
    columns = parsed.columns if parsed.parameters else tuple(of._replace(type="") for of in parsed.columns)
    return Statement(name, parsed.words, parsed.parameters, columns, parsed.sql)


def _at(name: str, rows: Statement, comment: str) -> Statement:
    """Return the function that adds to `rows` one row for each name server that is not known in full."""

    def nothing(spark_type: str) -> str:
        # NULL of a type. `c.nothing` hides from the planner that it is NULL; else it would drop the rows before `coverage_at` runs.
        if spark_type == "STRING":
            return "c.nothing"
        return f"CAST({'NULL' if '<' in spark_type else 'c.nothing'} AS {spark_type})"

    missing = "NULL: not a row of the table; it says that rows may be missing, and why"
    columns = tuple(
        of._replace(comment=f"{of.comment}; {missing}") if of.name.endswith("opened_by") else of for of in rows.columns
    )
    _, *others, _, _ = (nothing(of.type) for of in columns)  # all have namesrv_id first, and known and coverage last
    body = f"""
SELECT c.namesrv_id, {", ".join(others)}, c.known, c.coverage FROM coverage_at({name}.t) AS c WHERE NOT c.known
UNION ALL
SELECT r.* FROM {rows.name}({name}.t) AS r
"""
    return Statement(name, comment, rows.parameters, columns, body)


def quoted(text: str) -> str:
    """Return a text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"
