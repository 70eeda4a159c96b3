"""`sql`: statements for Spark, from an argument, a file, or a shell at a terminal."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from jobs.ask.saved import Value
from jobs.cli.output import Console, opened, write_rows
from jobs.cli.views import Views
from jobs.errors import JobError, NotRecordedError, UsageError
from jobs.store.coverage import NOT_RECORDED

# Quoted text, raw or not, and comments, as Spark SQL has them; of an open quote or comment the rest of the text is part.
_PART = re.compile(
    r"""\b[rR]'[^']*(?:'|\Z) | \b[rR]"[^"]*(?:"|\Z) | '(?:[^'\\]|\\.)*(?:'|\Z) | "(?:[^"\\]|\\.)*(?:"|\Z) | `[^`]*(?:`|\Z)
    | (?P<comment>--[^\n]* | /\*.*?(?:\*/|\Z)) | (?P<end>;) | .""",
    re.DOTALL | re.VERBOSE,
)
_PROMPT, _MORE = "sql> ", "...> "
_LEAVE = frozenset({"exit", "quit", r"\q"})
_HELP = "statements end with ;  TABLES lists the names, DESCRIBE one of them its columns, EXIT or Ctrl-D leaves"


def asked(spark: SparkSession, statement: str, values: Mapping[str, Value]) -> DataFrame:
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
                frame = asked(spark, statement, getattr(arguments, "values", {}))
                if not frame.columns:
                    continue
                if number and arguments.format != "json":
                    out.write("\n")
                more = write_rows(out, arguments.format, frame.columns, frame.toLocalIterator(), arguments.limit)
            except (PySparkException, Py4JError) as error:
                said = str(error).strip()
                if NOT_RECORDED in said:
                    # An error raised in SQL has its state behind the sentence; raised in a task, its place.
                    sentence = re.split(r" SQLSTATE: |\n", said[said.index(NOT_RECORDED) :])[0]
                    raise NotRecordedError(sentence) from error
                views.require_readable(said)
                # Spark appends the whole plan to its message.
                raise UsageError(said.partition(";\n")[0].strip()) from error
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
