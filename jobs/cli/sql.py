"""`sql`: statements for Spark, from an argument, a file, or a shell at a terminal; and the names that they find in its session.

Reads   what the last published row of `runs` pins, or an earlier one
Makes   temporary views and temporary SQL table functions, of all names or of those that a text touches
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import re
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from jobs.ask.engine import Value, distinct
from jobs.cli.output import Console, opened, write_rows
from jobs.errors import JobError, NotRecordedError, UsageError, first_line
from jobs.store.check import Holder, require_all, require_readable
from jobs.store.coverage import NOT_RECORDED, Covered, span_rows
from jobs.store.delta_log import Version, head_of
from jobs.store.ledger import Run
from jobs.store.places import table_path
from jobs.store.published import require_kept, run_id_in_force
from jobs.store.warehouse import Warehouse
from schemas import asked, gold
from schemas.table import Table
from schemas.views import COVERAGE_SPANS, statements, stored_tables

VERIFIED = "spark.namesrvHistory.verified"
# First words of statements that list names.
_ASKS_FOR_NAMES = frozenset({"show", "list"})

_LONGEST_COMMENT: Final = 256
# In another time zone a session would put an instant on another day.
_IN_UTC: Final = """CASE WHEN current_timezone() IN ('UTC', 'Etc/UTC', 'Z', 'GMT', '+00:00') THEN TRUE ELSE raise_error(concat(
    'instants are UTC here; this session has another zone: spark.sql.session.timeZone=', current_timezone())) END"""


class Views:
    """The tables, views and functions of a session, as of the last published run or an earlier one.

    A table that the run did not know is empty.
    """

    def __init__(
        self,
        spark: SparkSession,
        warehouse: Warehouse,
        as_known_at: str | dt.datetime | None = None,
        *,
        is_verified: bool = False,
        is_permanent: bool = False,
    ) -> None:
        """Find the run: the last one; one by its id; or the last one published by an instant (with a time zone).

        `is_permanent`: names are made in the session's current database, which all sessions of its catalog have. `is_verified`,
        or the session's setting `spark.namesrvHistory.verified`: tables are held against the ledger before they are asked. Raises
        as `run_in_force`, LedgerBehindError.
        """
        _require_reader(spark, warehouse.path)
        self.spark, self._warehouse, self._is_permanent = spark, warehouse, is_permanent
        self._run = run_in_force(warehouse, as_known_at)
        self._opened: dict[str, int] = {}
        is_verified |= str(spark.conf.get(VERIFIED, "false")).lower() == "true"
        self._holder = Holder(warehouse, self._run) if is_verified else None
        self._stored, self._statements = stored_tables(), statements()
        self._of_ledger = {
            "known_run": lambda: f"SELECT {_literal(self._run.finished_time)} AS finished_time",
            "coverage_spans": self._coverage_spans,
        }
        self.made: set[str] = set()

    def register(self, text: str | None = None) -> None:
        """Create the views and functions that a text may read, unless they exist; None: all."""
        known = [*self._stored, *self._statements, *self._of_ledger]

        def made_by(name: str) -> str:
            return self._statements[name].sql if name in self._statements else ""

        words = asked.words_of(text or "")
        wanted = known if text is None or words & _ASKS_FOR_NAMES else asked.needed(text, known, made_by)
        for name in asked.needed(" ".join(wanted), known, made_by):
            if name in self.made:
                continue
            if name in self._of_ledger:
                self._sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {self._of_ledger[name]()}")
            elif name in self._statements:
                self._sql(self._statements[name].sql)
            else:
                self._make_stored(name, self._stored[name])
            self.made.add(name)

    @cached_property
    def coverage(self) -> list[Covered]:
        """Return what is recorded of each name server, as the run knew it."""
        return self._warehouse.coverage(self._run)

    def _sql(self, statement: str) -> None:
        self.spark.sql(statement.replace(" TEMPORARY ", " ", 1) if self._is_permanent else statement)

    def _make_stored(self, name: str, table: Table) -> None:
        """Create the view of a table's rows in the version that the run pinned; the ledger's is the newest."""
        version = self._run.versions.get(table.name, -1)
        if table is gold.RUNS:
            version = head_of(self._warehouse.path, table)
        if version < 0:
            columns = (f"CAST(NULL AS {of.dataType.simpleString()}) AS {of.name}" for of in table.spark_schema)
            self._sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT {', '.join(columns)} WHERE FALSE")
            return
        opened = Version(self._warehouse.path, table, version)
        self._opened[table.name] = version
        if table.name in self._run.versions:
            require_all(self._warehouse.path, self._run, table, opened.files())
        if self._holder is not None:
            self._holder.hold(table.name)
        fields = opened.delta.schema().fields
        heads = (f"`{of.name}` COMMENT {comment_of(str(of.metadata.get('comment', '')))}" for of in fields)
        # Hadoop's scheme for S3.
        path = table_path(self._warehouse.path, table).replace("s3://", "s3a://", 1).replace("`", "``")
        rows = f"SELECT * FROM delta.`{path}@v{version}`"  # noqa: S608  quoted
        self._sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} ({', '.join(heads)}) AS {rows}")

    def require_readable(self, message: str) -> None:
        """Raise TamperedError if a file of a registered table caused this error message of Spark's."""
        require_readable(self._warehouse.path, self._opened, message)

    def _coverage_spans(self) -> str:
        rows = (f"({', '.join(_literal(row[of]) for of in COVERAGE_SPANS)})" for row in span_rows(self.coverage))
        typed = ", ".join(f"CAST({name} AS {of}) AS {name}" for name, of in COVERAGE_SPANS.items())
        given = f"(VALUES {', '.join(rows)}) AS r({', '.join(COVERAGE_SPANS)})"
        return f"SELECT {typed} FROM {given} WHERE {_IN_UTC}"  # noqa: S608  literals of ours


def register_views(
    spark: SparkSession,
    warehouse: Warehouse,
    as_known_at: str | dt.datetime | None = None,
    texts: Iterable[str] | None = None,
    *,
    is_verified: bool = False,
) -> Views:
    """Create the views and functions that some texts read, or all, and return their `Views`. Raises as `Views`, TamperedError."""
    views = Views(spark, warehouse, as_known_at, is_verified=is_verified)
    views.register(None if texts is None else "\n".join(texts))
    return views


def _require_reader(spark: SparkSession, path: str) -> None:
    """Raise UsageError if this Spark cannot read the warehouse's place: our tasks can, but the JVM needs JARs for it."""
    scheme = path.replace("s3://", "s3a://", 1).partition("://")[0] if "://" in path else "file"
    java: Any = spark.sparkContext._jvm  # noqa: SLF001  there is no other way to Hadoop's classes
    try:
        java.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, spark.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001
    except Py4JJavaError as error:
        raise UsageError(
            f"{path}: Spark's JVM has no file system {scheme}://; give it one (--jars, as docs/cluster.md says), or use `ask`"
        ) from error


def run_in_force(warehouse: Warehouse, as_known_at: str | dt.datetime | None) -> Run:
    """Return the run that is read as of.

    Raises NothingPublishedError where there is none, NoLongerReadableError where maintenance has deleted what it pinned.
    """
    known = warehouse.published_run(run_id_in_force(warehouse.path, warehouse.ledger().runs, as_known_at))
    if as_known_at is not None:
        runs = Version(warehouse.path, gold.RUNS)
        require_kept(runs.delta, known.run_id, known.versions)
    return known


def register(spark: SparkSession, warehouse: Warehouse, database: str) -> int:
    """Create all views and functions in a database of the session's catalog, made if need be; return their number.

    Raises UsageError if the catalog cannot be reached or does not take them, NothingPublishedError, BrokenLogError.
    """
    named = f"`{database.replace('`', '``')}`"
    try:
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {named}")
        spark.sql(f"USE {named}")
        # Readers' views declare their columns.
        spark.conf.set("spark.sql.legacy.allowAutoGeneratedAliasForView", "true")
        views = Views(spark, warehouse, is_permanent=True)
        views.register()
    except (PySparkException, Py4JError) as error:
        raise UsageError(f"database {database}: the catalog does not take it: {first_line(error)}") from error
    return len(views.made)


def comment_of(text: str) -> str:
    """Return a column's comment as a SQL literal, cut at 256 characters, the limit of a metastore's own table.

    Hive would try a longer one ten times, which takes 20 s for each view.
    """
    short = textwrap.shorten(text, _LONGEST_COMMENT, placeholder=" ...")
    return "'{}'".format(short.replace("\\", "\\\\").replace("'", "\\'"))


def _literal(value: Any) -> str:
    """Return a value as SQL. Texts come from outside, so they are written as the hex digits of their bytes."""
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP'{value.astimezone(dt.timezone.utc).isoformat()}'"
    if isinstance(value, dt.date):
        return f"DATE'{value.isoformat()}'"
    if isinstance(value, Mapping):
        fields = (f"'{name}', {_literal(of)}" for name, of in value.items())
        return f"named_struct({', '.join(fields)})"
    if isinstance(value, list):
        return f"array({', '.join(map(_literal, value))})"
    return f"CAST(X'{str(value).encode('utf-8', 'surrogatepass').hex()}' AS STRING)"


# Quoted text, raw or not, and comments, as Spark SQL has them; of an open quote or comment the rest of the text is part.
_PART = re.compile(
    r"""\b[rR]'[^']*(?:'|\Z) | \b[rR]"[^"]*(?:"|\Z) | '(?:[^'\\]|\\.)*(?:'|\Z) | "(?:[^"\\]|\\.)*(?:"|\Z) | `[^`]*(?:`|\Z)
    | (?P<comment>--[^\n]* | /\*.*?(?:\*/|\Z)) | (?P<end>;) | .""",
    re.DOTALL | re.VERBOSE,
)
_PROMPT, _MORE = "sql> ", "...> "
_LEAVE = frozenset({"exit", "quit", r"\q"})
_HELP = "statements end with ;  TABLES lists the names, DESCRIBE one of them its columns, EXIT or Ctrl-D leaves"


def answer(spark: SparkSession, statement: str, values: Mapping[str, Value]) -> DataFrame:
    """Return the answer of a statement with values for its `:name` parameters."""
    # Markers become values before analysis, because an argument of a function may be one.
    spark.conf.set("spark.sql.legacy.parameterSubstitution.constantsOnly", "true")
    return spark.sql(statement, args=dict(values)) if values else spark.sql(statement)


def show_sql(
    spark: SparkSession, statements: Sequence[str], views: Views, arguments: argparse.Namespace, console: Console
) -> None:
    """Run statements, with the values of a saved one's parameters, and write their rows.

    Raises UsageError for a mistake in one, NotRecordedError for an instant of which nothing is recorded, TamperedError for a
    file that cannot be read.
    """
    with opened(Path(arguments.output)) if arguments.output else contextlib.nullcontext(console.out) as out:
        for number, statement in enumerate(statements):
            try:
                frame = answer(spark, statement, getattr(arguments, "values", {}))
                if not frame.columns:
                    continue
                if number and arguments.format != "json":
                    out.write("\n")
                names, rows = distinct(frame.columns), frame.toLocalIterator()
                more = write_rows(out, arguments.format, names, rows, arguments.limit)
            except (PySparkException, Py4JError) as error:
                message = str(error).strip()
                if NOT_RECORDED in message:
                    # An error raised in SQL has its state behind the sentence; raised in a task, its place.
                    sentence = re.split(r" SQLSTATE: |\n", message[message.index(NOT_RECORDED) :])[0]
                    raise NotRecordedError(sentence) from error
                views.require_readable(message)
                # Spark appends the whole plan to its message.
                raise UsageError(message.partition(";\n")[0].strip()) from error
            if more and arguments.format != "table":
                sys.stderr.write(f"namesrv-history: more rows than {arguments.limit:,} (--limit) are left out\n")


def statements_of(text: str) -> list[str]:
    """Return the statements of a text, split at semicolons outside quotes and comments; parts with only comments are dropped."""
    return [statement.strip() for statement, is_empty in _split(text) if not is_empty]


def _split(text: str) -> list[tuple[str, bool]]:
    """Return the parts between semicolons, each with whether it has only comments."""
    statements, is_empty = [""], [True]
    for part in _PART.finditer(text):
        if part["end"]:
            statements.append("")
            is_empty.append(True)
        else:
            statements[-1] += part[0]
            is_empty[-1] &= part["comment"] is not None or part[0].isspace()
    return list(zip(statements, is_empty, strict=True))


# -- a terminal ----------------------------------------------------------------------------------------------------------


def shell(
    views: Callable[[], Views], given: argparse.Namespace, console: Console, read: Callable[[str], str] = input
) -> None:
    """Read statements from a terminal and answer each; an error is shown, and the shell goes on.

    `views` gives the session when the first question needs it; `read` shows a prompt and returns a line.
    """
    with contextlib.suppress(ImportError):  # not on every system
        import readline  # noqa: F401, PLC0415  gives `input` a line editor with a history
    console.line(_HELP)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Ctrl-C ends a statement, not the shell
    for text in _asked(read):
        began = time.monotonic()
        wanted = "SHOW TABLES" if text.strip(" ;").lower() == "tables" else text
        try:
            session = views()
            session.register(wanted)
            show_sql(session.spark, statements_of(wanted), session, given, console)
        except JobError as error:
            console.line(error.sentence)
        except KeyboardInterrupt:
            console.line("stopped")
        console.line(f"{time.monotonic() - began:.2f} s")


def _asked(read: Callable[[str], str]) -> Iterator[str]:
    """Yield the statements read, as soon as a line ends the last one."""
    text = ""
    while True:
        try:
            line = read(_MORE if text else _PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            text = ""
            continue
        word = line.strip(" ;").lower()
        if not text and word in _LEAVE:
            return
        text = f"{text}\n{line}" if text else line
        if word == "tables" or _split(text)[-1][1]:
            if statements_of(text):
                yield text
            text = ""
