"""Translation of Spark's SQL to DuckDB's dialect: readers' statements have one source, the Spark text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import ErrorLevel, exp, parse, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

_ANSI = re.compile(r"\x1b\[\d*m")
_LETTER = re.compile(r"(?<!%)(?<!%-)[A-SU-Ya-z]")
_WHOLE = (  # named once, as it may hold others: typeof DOUBLE and DECIMAL
    "list_transform([given], lambda n: CASE WHEN typeof(n) LIKE 'D%' "
    "THEN {cast}(trunc(TRY_CAST(n AS DOUBLE)) AS {to}) ELSE {cast}(n AS {to}) END)[1]"
)


class NotTranslatedError(ValueError):
    """A statement that is not SQL, has no counterpart in DuckDB, or is not a query."""


class _Spark4(Spark):
    """Spark 4's dialect: an impossible CAST fails, a doubled quote means one, and of a date's patterns some more are known."""

    TIME_MAPPING = {**Spark.TIME_MAPPING, "SSS": "%g", "'T'": "T", "'Z'": "Z"}  # noqa: RUF012  as sqlglot declares it

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'"]  # noqa: RUF012  as sqlglot declares it

    class Parser(SparkParser):
        STRICT_CAST = True
        FUNCTIONS = {  # noqa: RUF012  as above
            **SparkParser.FUNCTIONS,
            "GET": lambda args: exp.Bracket(this=args[0], expressions=[args[1]]),
            "MAP_CONTAINS_KEY": lambda args: exp.ArrayContains(this=exp.MapKeys(this=args[0]), expression=args[1]),
            "FORMAT_STRING": lambda args: _call("printf", *args),
            "RAISE_ERROR": lambda args: _call("error", *args),
            **dict.fromkeys(
                ("TIMESTAMPDIFF", "DATEDIFF", "DATE_DIFF"),
                lambda args: (
                    _call("date_sub", exp.Literal.string(args[0].name), *args[1:])
                    if len(args) == 3
                    else SparkParser.FUNCTIONS["DATEDIFF"](args)
                ),
            ),
            "DATE_PART": lambda args: exp.Extract(this=exp.var(args[0].name), expression=args[1]),
            "DAYOFWEEK": lambda args: exp.Extract(this=exp.var("DAYOFWEEK"), expression=exp.cast(args[0], "DATE")),
            "WEEKDAY": lambda args: exp.Paren(
                this=exp.Sub(this=_call("isodow", exp.cast(args[0], "DATE")), expression=exp.Literal.number(1))
            ),
            "TO_UTC_TIMESTAMP": lambda args: _call(
                "timezone", args[1], _call("timezone", exp.Literal.string("UTC"), exp.cast(args[0], "TIMESTAMPTZ"))
            ),
            "DATE_ADD": lambda args: exp.Paren(this=exp.Add(this=exp.cast(args[0], "DATE"), expression=args[1])),
            "DATE_SUB": lambda args: exp.Paren(this=exp.Sub(this=exp.cast(args[0], "DATE"), expression=args[1])),
        }


def duckdb_queries(sql: str) -> list[str]:
    """Return the queries in a user's text, in DuckDB's dialect. Raises NotTranslatedError."""
    try:
        trees = [tree for tree in parse(sql, read=_Spark4) if not isinstance(tree, (exp.Semicolon, type(None)))]
        for tree in trees:
            if not isinstance(tree, (exp.Query, exp.Values, exp.Describe)):
                answered = "only SELECT, WITH, VALUES, DESCRIBE and SHOW TABLES are answered"
                raise NotTranslatedError(f"no question: {tree.sql().split()[0]}; {answered}")
        return [_written(tree.transform(_cut_off)) for tree in trees]
    except SqlglotError as error:
        raise NotTranslatedError(_ANSI.sub("", str(error)).strip()) from error
    except RecursionError as error:
        raise NotTranslatedError("nested too deeply") from error


def _cut_off(node: exp.Expr) -> exp.Expr:
    """Return a number that becomes a whole one without its fraction, where DuckDB would round it."""
    given = node.this
    is_known = isinstance(given, exp.Literal) and (given.is_string or given.is_int)
    if not isinstance(node, exp.Cast) or not node.to.is_type(*exp.DataType.INTEGER_TYPES) or is_known:
        return node
    cast = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    whole = parse_one(_WHOLE.format(cast=cast, to=node.to.sql("duckdb")), read="duckdb")
    for column in [*whole.find_all(exp.Column)]:
        if column.name == "given":
            column.replace(given.transform(_cut_off))
    return exp.alias_(whole, node.sql("spark")) if isinstance(node.parent, exp.Select) else whole


def duckdb_body(sql: str, function: str = "", parameters: Mapping[str, str] | None = None) -> str:
    """Return the body of a view, function or saved query in DuckDB's dialect; its result is the same in any session time zone.

    `parameters`: types by name. In a function they get a _ before their name, in a saved query (no `function`) a $.
    """
    tree = parse_one(sql, read=_Spark4)
    return _written(_by_twos(_in_utc(_bound(tree, function, parameters or {}))), pretty=True)


def duckdb_type(name: str) -> str:
    """Return DuckDB's name of a Spark SQL type."""
    return exp.DataType.build(name, dialect=_Spark4).sql("duckdb", identify=True)


def _written(tree: exp.Expr, *, pretty: bool = False) -> str:
    return tree.transform(_adapted).sql("duckdb", pretty=pretty, unsupported_level=ErrorLevel.RAISE)


def _bound(tree: exp.Expr, function: str, parameters: Mapping[str, str]) -> exp.Expr:
    """Return the body of a function or saved query with its parameters renamed so that no column has their names."""

    def bind(node: exp.Expr) -> exp.Expr:
        is_named = (
            isinstance(node, exp.Column) and node.table == function if function else isinstance(node, exp.Placeholder)
        )
        if not is_named or node.name not in parameters:
            return node
        given = exp.column(f"_{node.name}") if function else node.copy()
        if parameters[node.name] == "TIMESTAMP":
            # A function that the parameter is passed on to converts it itself.
            return given if isinstance(node.parent, exp.Anonymous) else _call("utc", given)
        return exp.Cast(this=given, to=exp.DataType.build(parameters[node.name], dialect=_Spark4)) if function else node

    return tree.transform(bind)


def _in_utc(tree: exp.Expr) -> exp.Expr:
    """Return a body with days, hours and texts of instants in UTC, where DuckDB would use the session's time zone."""
    for node in [*tree.find_all(exp.TsOrDsToDate, exp.TimestampTrunc, exp.TimeToStr)]:
        given = node.this.this if isinstance(node.this, (exp.Cast, exp.TsOrDsToTimestamp)) else node.this
        at = _call("timezone", exp.Literal.string("UTC"), exp.cast(given.copy(), "TIMESTAMPTZ"))
        if isinstance(node, exp.TsOrDsToDate):
            node.replace(exp.cast(at, "DATE"))
            continue
        node.set("this", at)
        if isinstance(node, exp.TimestampTrunc):
            node.replace(_call("timezone", exp.Literal.string("UTC"), node.copy()))
    return tree


def _by_twos(tree: exp.Expr) -> exp.Expr:
    """Return a body with unions nested in twos: older DuckDBs cannot read longer ones in a view that a newer DuckDB stored."""
    for node in reversed([*tree.find_all(exp.Union)]):
        if isinstance(node.this, exp.Union):
            node.set("this", exp.select("*").from_(node.this.copy().subquery("others")))
    return tree


def _adapted(node: exp.Expr) -> exp.Expr:
    """Return a node corrected where the translator is wrong; a replacement is not visited again."""
    if isinstance(node, exp.Struct) and isinstance(node.expressions[0], exp.Column) and node.expressions[0].is_star:
        return exp.column(node.expressions[0].table)  # a row as a struct
    if isinstance(node, exp.FromJson):
        kind = exp.DataType.build(f"STRUCT<{node.expression.name}>", dialect=_Spark4).sql("duckdb")
        # Spark makes a struct of NULLs from a text that is not JSON.
        text = exp.case().when(_call("json_valid", node.this.copy()), node.this.copy())
        text = text.when(node.this.copy().is_(exp.null()).not_(), exp.Literal.string("{}"))
        return _call("from_json", text, exp.Literal.string(f'"{kind}"'))
    if isinstance(node, exp.Cast) and node.to.is_type(exp.DataType.Type.TIMESTAMP):
        node.set("to", exp.DataType.build("TIMESTAMPTZ"))
    if isinstance(node, exp.RegexpReplace):
        for literal in node.args["replacement"].find_all(exp.Literal):
            literal.set("this", re.sub(r"\$(\d)", r"\\\1", literal.this))
    if isinstance(node, (exp.ArgMax, exp.ArgMin)):
        # Spark's function returns NULL if the row of the greatest has NULL.
        name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
        return _call(name, node.this.transform(_adapted), node.expression.transform(_adapted))
    if isinstance(node, exp.Quantile):
        name = "quantile_disc" if isinstance(node, exp.ApproxQuantile) else "quantile_cont"
        return _call(name, node.this.transform(_adapted), node.args["quantile"].transform(_adapted))
    if (
        isinstance(node, (exp.Like, exp.ILike))
        and "\\" in node.expression.name
        and not isinstance(node.parent, exp.Escape)
    ):
        like = node.copy()
        like.set("this", like.this.transform(_adapted))
        return exp.Escape(this=like, expression=exp.Literal.string("\\"))
    if isinstance(node, exp.Extract) and node.name.upper() in ("DOW", "DAYOFWEEK"):
        return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))
    is_pattern = isinstance(node, (exp.TimeToStr, exp.StrToTime))
    is_outer = isinstance(node, exp.Lateral) and node.args.get("outer")
    if is_outer or (is_pattern and _LETTER.search(node.text("format").replace("strict", ""))):
        raise NotTranslatedError(f"{node.sql('spark').strip()}: DuckDB would answer otherwise")
    of = node.this if isinstance(node, exp.Filter) else node
    if isinstance(of, exp.ArrayAgg) and not isinstance(node.parent, (exp.Filter, exp.Window)):
        # Spark's list of no rows is empty, not NULL.
        inner = node.copy()
        for child in (inner.this, inner.expression) if isinstance(inner, exp.Filter) else (inner,):
            child.set("this", child.this.transform(_adapted))
        return exp.Coalesce(this=inner, expressions=[exp.Array(expressions=[])])
    return node


def _call(name: str, *values: exp.Expr) -> exp.Expr:
    """Return a call of a DuckDB function by its name."""
    return exp.Anonymous(this=name, expressions=list(values))
