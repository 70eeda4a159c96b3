"""What the commands print."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.ask.engine import Answers
from jobs.cli.output import Console, write_rows, write_table
from jobs.ingest.sources import Ingested, Read
from jobs.night.nightly import Summary
from jobs.store.maintain import Maintained
from jobs.store.warehouse import Warehouse
from namesrv_wire.errors import Reason
from schemas.queries import QUESTIONS

_EXPLANATIONS = {
    "order_decision": "explained by another order than the one taken",
    "other_address": "are at an address that shows what was registered at others, or is several name servers' (see findings)",
    "unseen_broker": "show brokers that nobody registered: there were connections that cannot be read (TLS)",
    "removal_under_way": "show a broker whose removal had begun just before the question",
    "changes_under_way": "show each broker as it was between question and answer, though not all as at one instant",
    "one_way_under_way": "show what was before a one-way request that had come just before the question",
    "unknown_past": "differ only in what was not known yet: the recording began after the name server had started",
}
_REFUSALS = {
    Reason.TOO_LATE.value: "that came later than late.limit_days allows",
    Reason.AHEAD_OF_CLOCK.value: "later than the run by more than late.ahead_limit_minutes",
    Reason.CLOCK_WENT_BACK.value: "whose clock jumps back by more than late.limit_days within a file",
}


def show_run(summary: Summary, console: Console) -> None:
    """Show a night: what was read, what the tables hold, what was found, and whether the answers agree."""
    line = console.line
    line()
    if summary.status == "nothing_to_do":
        if summary.empty and not (summary.sources or summary.known_sources):
            why = "No input: the folders that were given hold no files."
        elif summary.errors:
            why = "Nothing usable: what could be read of the input adds nothing (see NOT READ below)."
        elif summary.last_run:
            why = f"Nothing new since run {summary.last_run}."
        else:
            why = "No input, and nothing recorded yet."
        line(f"{why} Tables and answers below are those of the last run." if summary.last_run else why)
    servers = ", ".join(f"{name} ({version})" for name, version in sorted(summary.namesrvs.items()))
    known = [f"(read before: {', '.join(summary.known_sources)})"] if summary.known_sources else []
    line(f"Read         {' '.join([', '.join(summary.sources) or 'nothing new', *known])}")
    line(f"Name servers {servers or 'none'}")
    for name, values in sorted(summary.settings.items()):
        # Those that something speaks for, then those that are only assumed.
        for setting, held in values.items():
            if setting != "version" and held["source"] != "default":
                counts = f"{held['answers_for']:,} for, {held['answers_against']:,} against"
                line(f"             {name}: {setting} = {held['value']} ({held['source']}; {counts})")
        if assumed := [setting for setting, held in values.items() if held["source"] == "default"]:
            line(f"             {name}: default, for want of evidence: {', '.join(assumed)}")

    line(f"Frames       {_balance(summary)}")
    for title, by_kind in (("ignored", summary.ignored), ("quarantined", summary.reasons)):
        if by_kind:
            line(f"             {title}: {', '.join(f'{name} {count:,}' for name, count in by_kind.items())}")
    if summary.sightings:
        where = "on another interface, or on the other side of an address translation"
        line(f"             {summary.sightings:,} of {summary.packets:,} packets were captured twice: {where}")
    for reason, count in summary.refused.items():
        line(f"REFUSED      {count:,} {_REFUSALS[reason]} ({reason}): see quarantine")
    if summary.restated:
        line(f"Restated     {summary.restated:,} published partitions of tables were changed: see restatements")
    _show_not_read(summary, console)
    line()
    console.counts("Tables (rows)", summary.tables)
    line()
    console.counts("Findings", dict(sorted(summary.findings.items())) or {"none": 0})
    line()
    _show_verify(summary.verify, console)
    line()
    for warning in summary.warnings:
        line(f"Warning      {warning}")
    line(f"Data Docs    {Path(summary.data_docs).parent / 'index.html'}")


def _show_not_read(read: Read, console: Console) -> None:
    """Show what was left out, and what could not be read."""
    for left_out in read.left_out:
        console.line(f"Left out     {left_out}")
    for what, sentences in (("NOT READ", read.errors), ("NO INPUT", read.empty)):
        for sentence in sentences:
            console.line(f"{what:<12} {sentence}")
    for address in read.never_met:
        console.line(
            f"Warning      {address} is configured as a name server's address, but does not appear in what was read"
        )


def _balance(read: Read) -> str:
    """Return the law of conservation in figures."""
    incomplete = f" (+{read.pieces:,} incomplete)" if read.pieces else ""
    return (
        f"{read.frames:,}{incomplete}: {read.events:,} events, {read.observations:,} answers, {read.duplicates:,} duplicates, "
        f"{sum(read.ignored.values()):,} ignored by rule, {read.quarantined:,} quarantined"
    )


def _show_verify(numbers: Mapping[str, Any], console: Console) -> None:
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
    for sentence in numbers.get("first_mismatched", ()):
        console.line(f"MISMATCHED   {sentence}")


def show_ingested(ingested: Ingested, console: Console) -> None:
    """Show what was read."""
    console.line(f"Frames {_balance(ingested)}")
    _show_not_read(ingested, console)


def show_questions(warehouse: Warehouse, console: Console) -> None:
    """Show the demo's questions with their SQL and their answers."""
    from schemas.dialect import duckdb_queries  # noqa: PLC0415  only a demo waits for the translator

    answers = Answers(warehouse.path)
    for number, question in enumerate(QUESTIONS, start=1):
        console.line()
        console.line(f"Question {number}. {question.text}")
        for line in textwrap.dedent(question.sql).strip().splitlines():
            console.line(f"    {line}")
        (sql,) = duckdb_queries(question.sql)
        write_rows(console.out, "table", *answers.ask(sql), limit=20)


def show_maintained(done: Maintained, console: Console, *, dry_run: bool) -> None:
    """Show what maintenance did, or would do, to each table that it touched, and to all together."""
    rows = []
    for name, (days, files, files_after, size, size_after) in [*done.by_table.items(), ("all tables", done.total)]:
        if days or files != files_after or size != size_after or name == "all tables":
            rows.append((name, days, files, files_after, f"{size:,}", f"{size_after:,}"))
    write_table(console.out, ("table", "compacted", "files", "files after", "bytes", "bytes after"), rows)
    console.line(f"Readable     {done.readable} of {done.runs} published runs")
    if done.staging:
        console.line(f"Left over    {', '.join(done.staging)} in _staging, of runs that crashed")
    if dry_run:
        console.line("Nothing was changed (--dry-run).")


def show_attested(made: Mapping[str, Any], console: Console) -> None:
    """Show an attestation in a few lines."""
    asked, answers, contents = made["asked"], made["answers"], made["contents"]
    where = "" if asked is None else f"{asked['namesrv_id']} at {asked['at']}, "
    console.line(f"{where}as run {made['run']['run_id']} published it")
    counted = ", ".join(f"{answers[name]:,} {name}" for name in ("matched", "explained", "unknown_past", "mismatched"))
    verdict = f"{len(answers['differing'])} counts differ" if answers["differing"] else "as published"
    console.line(f"  answers       {answers['answers']:,} asked of the published tables: {counted}; {verdict}")
    other = [name for name, of in contents.items() if of["only_published"] or of["only_replayed"]]
    rows = sum(of["same"] for of in contents.values())
    verdict = f"{', '.join(other)} differ" if other else "as published"
    console.line(f"  events        replayed from nothing: {rows:,} rows of {len(contents)} tables, {verdict}")
    for source in made["sources"]:
        console.line(f"  recorded in   {source['source_file']}, SHA-256 {source['content_sha256']}")
    for name, table in made["tables"].items():
        differs = f"{table['only_replayed']} only replayed, {table['only_published']} only published"
        verdict = "as published" if table["sha256"] == table["published_sha256"] else differs
        console.line(f"  {name:<17} {len(table['rows']):,} rows, {verdict}, SHA-256 {table['sha256']}")
