"""What the commands print."""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.cli.console import Console, printable
from jobs.cli.views import register_views
from jobs.errors import EXIT_OK, EXIT_USAGE
from jobs.ingest.ingested import Ingested
from jobs.night.nightly import Summary
from jobs.store.maintain import Maintained
from jobs.store.warehouse import Warehouse
from namesrv_wire.errors import Reason
from schemas.questions import QUESTIONS

_STATEMENT = re.compile(r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|[^;'"`])+""")
_EXPLANATIONS = {
    "order_decision": "explained by another order than the one taken",
    "unknown_past": "differ only in what was not known yet: the recording began in the middle of a life",
}


_REFUSALS = {
    Reason.TOO_LATE.value: "that came later than late.limit_days",
    Reason.CLOCK_WENT_BACK.value: "further back than late.limit_days behind what came before them in their file",
}


def show_run(summary: Summary, console: Console) -> None:
    """Show a night: what was read, what the tables hold, what was found, and whether the answers agree."""
    console.line()
    if summary.status == "nothing_to_do":
        console.line(
            "Nothing to do: every input was read before and everything recorded is published. The last run said:"
        )
    servers = ", ".join(f"{name} ({version})" for name, version in sorted(summary.namesrvs.items()))
    console.line(f"Read         {', '.join(printable(s) for s in summary.sources)}")
    console.line(f"Name servers {servers or 'none'}")
    for name, values in sorted(summary.settings.items()):
        for line in setting_lines(values):
            console.line(f"             {name}: {line}")
    ignored = sum(summary.ignored.values())
    console.line(
        f"Frames       {summary.frames:,} = {summary.events:,} events + {summary.observations:,} answers + "
        f"{summary.duplicates:,} duplicates + {summary.quarantined:,} quarantined + {ignored:,} ignored by rule"
    )
    if summary.ignored:
        rules = ", ".join(f"{name} {count:,}" for name, count in summary.ignored.items())
        console.line(f"             ignored: {rules}")
    for reason, count in summary.refused.items():
        console.line(f"REFUSED      {count:,} {_REFUSALS[reason]} ({reason}): see quarantine")
    if summary.restated:
        console.line(f"Restated     {summary.restated:,} published slices of tables are others now: see restatements")
    for error in summary.errors:
        console.line(f"NOT READ     {printable(error)}")
    console.line()
    console.counts("Tables (rows)", summary.tables)
    console.line()
    console.counts("Findings", dict(sorted(summary.findings.items())) or {"none": 0})
    console.line()
    show_verify(summary.verify, console)
    console.line()
    show_warnings(summary.warnings, Path(summary.data_docs).parent, console)


def setting_lines(values: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a name server's settings in words: those that something speaks for, then those that are only assumed."""
    found, assumed = [], []
    for name, held in values.items():
        if held["source"] == "default":
            assumed.append(name)
        elif name != "version":
            counts = f"{held['answers_for']:,} for, {held['answers_against']:,} against"
            found.append(f"{name} = {held['value']} ({held['source']}; {counts})")
    return [*found, f"default, for want of evidence: {', '.join(assumed)}"] if assumed else found


def show_verify(numbers: Mapping[str, Any], console: Console) -> None:
    """Show the match rate against the answers that the name servers really gave."""
    if not numbers.get("answers"):
        console.line("Answers      none recorded, nothing to compare with")
        return
    answers, matched = numbers["answers"], numbers["matched"]
    console.line(f"Answers      {matched:,} of {answers:,} match the replayed registry ({matched / answers:.4%})")
    console.line(f"             {numbers['same_order']:,} in list order too, {numbers['same_bytes']:,} byte for byte")
    for name, other in numbers["others"].items():
        console.line(f"             {other['matched']:,} of {other['answers']:,} responses to {name} too")
    for name, count in numbers["explained"].items():
        console.line(f"             {count:,} {_EXPLANATIONS[name]} ({name})")
    console.line(
        f"             {numbers['mismatched']:,} mismatched; {numbers['order_decisions']:,} order decision(s), see order_decisions"
    )


def show_ingested(ingested: Ingested, console: Console) -> None:
    """Show what was read."""
    console.line(
        f"Frames {ingested.frames:,} = {ingested.events:,} events + {ingested.observations:,} answers + "
        f"{ingested.duplicates:,} duplicates + {ingested.quarantined:,} quarantined + "
        f"{sum(ingested.ignored.values()):,} ignored by rule"
    )
    for error in ingested.errors:
        console.line(f"NOT READ {printable(error)}")


def show_warnings(warnings: Sequence[str], docs_dir: Path, console: Console) -> None:
    """Show broken warning rules and where the Data Docs lie."""
    for warning in warnings:
        console.line(f"Warning      {printable(warning)}")
    console.line(f"Data Docs    {docs_dir / 'index.html'}")


def show_questions(spark: SparkSession, house: Warehouse, console: Console) -> None:
    """Show the demo's questions with their SQL and their answers."""
    register_views(spark, house)
    for number, question in enumerate(QUESTIONS, start=1):
        console.line()
        console.line(f"Question {number}. {question.text}")
        for line in textwrap.dedent(question.sql).strip().splitlines():
            console.line(f"    {line}")
        _show_rows(spark, question.sql, console, limit=20)


def show_sql(
    spark: SparkSession, house: Warehouse, statements: Sequence[str], arguments: argparse.Namespace, console: Console
) -> int:
    """Run statements and show their rows; a mistake in one of them is a line on standard error and exit code 2."""
    register_views(spark, house, arguments.as_known_at)
    show = _show_json if arguments.format == "json" else _show_rows
    try:
        for statement in statements:
            show(spark, statement, console, arguments.limit)
    except PySparkException as error:
        sys.stderr.write(f"namesrv-history: {str(error).strip()}\n")
        return EXIT_USAGE
    return EXIT_OK


def statements_of(text: str) -> list[str]:
    """Return the statements of a text, split at semicolons that are not inside quotes."""
    return [part for part in _STATEMENT.findall(text) if part.strip()]


def _show_rows(spark: SparkSession, sql: str, console: Console, limit: int) -> None:
    frame = spark.sql(sql)
    rows = frame.limit(limit + 1).collect()
    console.table(frame.columns, [list(row) for row in rows[:limit]])
    more = ", more not shown" if len(rows) > limit else ""
    console.line(f"  ({min(len(rows), limit)} row(s){more})")


def _show_json(spark: SparkSession, sql: str, console: Console, limit: int) -> None:
    for row in spark.sql(sql).limit(limit).collect():
        console.line(json.dumps(row.asDict(recursive=True), default=str, ensure_ascii=False))


def show_maintained(done: Maintained, console: Console, *, dry_run: bool) -> None:
    """Show what maintenance did, or would do, to each table that it touched, and to all together."""
    touched = {name: care for name, care in done.by_table.items() if care.before != care.after or care.compacted_days}
    rows = [
        (
            name,
            care.compacted_days,
            care.before.files,
            care.after.files,
            f"{care.before.bytes:,}",
            f"{care.after.bytes:,}",
        )
        for name, care in [*touched.items(), ("all tables", done.total)]
    ]
    console.table(("table", "compacted", "files", "files after", "bytes", "bytes after"), rows)
    console.line(f"Readable     {done.readable} of {done.runs} published runs")
    if done.staging:
        console.line(
            f"Left over    {', '.join(printable(name) for name in done.staging)} in _staging, of runs that crashed"
        )
    if dry_run:
        console.line("Nothing was changed (--dry-run).")
