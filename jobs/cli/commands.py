"""The commands: validated arguments in, exit code out. Spark starts only for commands that need it."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import logging
import shlex
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs import IS_INSTALLED
from jobs.ask.changes import Hook
from jobs.ask.engine import FUNCTIONS, Answers, query_named, texts_of, time_of
from jobs.ask.instants import instant
from jobs.audit.attestation import attest, differing, read_attestation
from jobs.cli.ask import questions_of, table_named
from jobs.cli.output import Console, opened, waiting, write_rows, write_table
from jobs.errors import (
    EXIT_INPUT,
    EXIT_MISMATCHED,
    EXIT_NO_INPUT,
    EXIT_OK,
    FROM_BACKUP,
    PUBLISHED,
    GateError,
    JobError,
    MissingDayError,
    NothingPublishedError,
    PublishedError,
    TamperedError,
    UsageError,
    known_failure,
    nobody,
)
from jobs.ingest.ingest import ingest
from jobs.night import nightly
from jobs.night.gate import are_too_many, prepare
from jobs.night.nightly import Summary
from jobs.night.replaying import require_configs
from jobs.passes import InProcess, OnSpark, Passes, Processes
from jobs.processes import cores
from jobs.session import CHECKOUT, SessionLater, for_questions
from jobs.store import delta_log
from jobs.store.check import check, require_whole
from jobs.store.coverage import require_within, summary
from jobs.store.ledger import ReadFile, days_of
from jobs.store.maintain import maintain
from jobs.store.places import locked, read_locked
from jobs.store.published import LAST_RUN, Noted
from jobs.store.warehouse import Warehouse
from namesrv_core.machine.events import EVER
from namesrv_day.arrow import rows_of
from namesrv_wire.logs.event_log import line_of
from namesrv_wire.rows import Row
from schemas import bronze, gold
from schemas.times import day_start_seq

# So many events of a day are objects at one time when it is exported.
_ROWS_AT_A_TIME = 100_000
_DEMO_QUESTIONS = (
    ("no_writable_queue", "since=2026-11-21 08:56", "until=2026-11-21 08:59"),
    ("no_route_info", "topic=TopicD", "t=2026-11-21 09:00"),
    ("departures",),
)


def show_run(summary: Summary, console: Console) -> None:
    """Show a run: what it read, what the tables hold, its findings, and whether the answers agree."""
    console.show("run.txt", read=summary, docs=Path(summary.data_docs).parent / "index.html")


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


def not_accepted(warehouse: Warehouse) -> list[ReadFile]:
    """Return the files that were refused or mostly unreadable, by name."""
    found = (source for source in warehouse.recorded() if source.verdict != bronze.ACCEPTED)
    return sorted(found, key=lambda source: (source.name, source.sha256))


def forget(warehouse: Warehouse, wanted: Sequence[str]) -> list[ReadFile]:
    """Forget such files, given by name or by the first digits of their digests, and commit that; return them.

    Given again they are read again. Raises UsageError for one that is not there.
    """
    gone: dict[str, ReadFile] = {}
    for name in wanted:
        found = [file for file in not_accepted(warehouse) if name == file.name or file.sha256.startswith(name.lower())]
        if not name or not found:
            raise UsageError(f"{name!r}: no file of this name, or with such a digest, was refused or unread")
        gone |= {source.sha256: source for source in found}
    kept = warehouse.rows(bronze.SOURCES).filter(~pc.field("content_sha256").isin(pa.array(sorted(gone))))
    warehouse.write(bronze.SOURCES, kept, instead=warehouse.files(bronze.SOURCES))
    warehouse.commit([bronze.SOURCES])
    return list(gone.values())


DEMO_CAPTURE = CHECKOUT / "examples" / "v4-lifecycle" / "capture.pcap.gz"
DEMO_WAREHOUSE = (Path.cwd() if IS_INSTALLED else CHECKOUT) / "warehouse" / "demo"


class Command:
    """One command: its arguments, where it works, and what it works with."""

    def __init__(self, arguments: argparse.Namespace, session: SessionLater | None = None) -> None:
        """Take validated arguments. `session`: a Spark session already started for it."""
        self.arguments, self.console = arguments, Console()
        path = arguments.warehouse or str(DEMO_WAREHOUSE)
        started = dt.datetime.now(dt.timezone.utc)
        run_id = f"{started:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
        self.warehouse = Warehouse(path, arguments.conf, run_id, started)
        self.started = session

    @property
    def session(self) -> SessionLater:
        """Return the Spark session; unless given, it begins to start now."""
        if self.started is None:
            job = self.arguments.job
            self.started = SessionLater(f"namesrv-history {job}", metastore=job == "register", bars=True)
        return self.started


def run_command(arguments: argparse.Namespace, session: SessionLater | None = None) -> int:
    """Run the command and return its exit code. `session`: a Spark session already started for it."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", stream=sys.stderr)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark raises a failed query and also logs it with its whole stack.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    command = Command(arguments, session)
    try:
        return _COMMANDS[arguments.job](command)
    except Exception as error:
        known = known_failure(error, command.warehouse.path, PUBLISHED) if command.warehouse.is_published else None
        if known is None or isinstance(error, JobError):
            raise
        raise PublishedError(*known) from error
    finally:
        if command.started is not None:
            command.started.stop()


# -- the night -------------------------------------------------------------------------------------------


def _nightly(command: Command) -> int:
    given, warehouse = command.arguments, command.warehouse
    is_here = getattr(given, "in_process", False)
    session = None if is_here else command.session
    # A starting JVM uses all cores; then, until its first tasks run, one.
    prepare(session.wait if session is not None else lambda: None)
    passes: Passes = InProcess() if session is None else OnSpark(session.get, warehouse.path)
    asked = nightly.Asked(given.input, given.first, given.last)
    hook = Hook(warehouse.path, given.after_publish) if getattr(given, "after_publish", None) else None
    if hook is not None:
        last = warehouse.ledger().last
        hook.begin(None if last is None else last.run_id)
    summary = nightly.run(warehouse, passes, asked, command.console)
    if session is not None:
        session.stop_soon()  # it stops while the results are shown
    if given.summary:
        summary.write(Path(given.summary))
    show_run(summary, command.console)
    if summary.status == "refused":
        raise GateError(summary.gate)
    from jobs.cli.pages import write_pages  # noqa: PLC0415  slow to import

    is_published = summary.status == "published"
    days = [dt.date.fromisoformat(day) for day in summary.days] if is_published else []
    index = write_pages(warehouse.path, days, Path(summary.data_docs)) if is_published or summary.last_run else None
    if index is not None:
        command.console.line(f"Pages        {index}")
    if is_published and (checkpoint := warehouse.checkpoint()) is not None:
        command.console.line(f"Checkpoint   {checkpoint.text()}".rstrip())
    if warehouse.unnoted is not None:
        raise warehouse.unnoted
    if hook is not None:
        command.console.line(f"Changes told {hook.tell():,}")
    # Of several codes, the scheduler gets the greatest.
    return max(
        EXIT_INPUT if summary.errors else EXIT_OK,
        EXIT_NO_INPUT if summary.empty else EXIT_OK,
        EXIT_MISMATCHED if is_published and are_too_many(summary.verify, warehouse.conf) else EXIT_OK,
    )


def _demo(command: Command) -> int:
    if command.arguments.warehouse is None:
        with locked(command.warehouse.path):
            for path in Path(command.warehouse.path).iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name == LAST_RUN:
                    path.unlink()
    command.arguments.input = [str(DEMO_CAPTURE)]
    code = _nightly(command)
    answers, console = Answers(command.warehouse.path), command.console
    for number, (name, *given) in enumerate(_DEMO_QUESTIONS, start=1):
        query = query_named(name)
        ((sql, values),) = questions_of(query, texts_of(query, given))
        params = (word for text in given for word in ("--param", text))
        console.line()
        console.line(f"Question {number}. {query.question}")
        console.line(f"    {shlex.join(['ask', 'query', name, *params, '--warehouse', command.warehouse.path])}")
        write_rows(console.out, "table", *answers.ask(sql, **values), limit=20)
    return code


def _ingest(command: Command) -> int:
    given, warehouse = command.arguments, command.warehouse
    passes = Processes(cores())
    passes.share = command.console.share
    with locked(warehouse.path):
        warehouse.start_from_published()
        require_whole(warehouse)
        ingested = ingest(warehouse, given.input, passes)
        warehouse.clear_staging()
    command.console.show("read.txt", read=ingested)
    return EXIT_NO_INPUT if ingested.empty else EXIT_INPUT if ingested.errors else EXIT_OK


# -- care --------------------------------------------------------------------------------------------------------------


def _check(command: Command) -> int:
    from jobs.audit.checkpoint import checkpoint_line, kept_checkpoint  # noqa: PLC0415  slow to import

    given, warehouse = command.arguments, command.warehouse
    against = None if given.against is None else kept_checkpoint(given.against)
    if given.prove:
        return _prove(command, against)
    with read_locked(warehouse.path), waiting() as share:
        checked, now = check(warehouse, against, share), warehouse.checkpoint()
    for sentence in (*checked.wrong, *checked.replaced):
        command.console.line(sentence)
    command.console.line(
        f"{checked.slices:,} partitions of {checked.tables} tables checked against what run {checked.run_id} published"
    )
    if checked.wrong:
        count = len(checked.wrong)
        changed = "1 partition or table was" if count == 1 else f"{count:,} partitions or tables were"
        raise TamperedError(f"{warehouse.path}: {changed} changed after publication, see above", FROM_BACKUP)
    if now is not None:
        command.console.line(f"Checkpoint   {checkpoint_line(now, given.sign, given.timestamp)}")
    return EXIT_OK


def _prove(command: Command, against: Noted | None) -> int:
    """Print proofs and nothing else, because the output is handed to somebody else."""
    from jobs.audit.checkpoint import proofs  # noqa: PLC0415  as above

    warehouse, (table, *values) = command.warehouse, command.arguments.prove
    pairs = dict(value.partition("=")[::2] for value in values)
    if not pairs or not all("=" in value for value in values):
        raise UsageError("--prove: TABLE and COLUMN=VALUE expected, the latter as often as needed")
    with read_locked(warehouse.path):
        checkpoint = against or warehouse.checkpoint()
        if checkpoint is None:
            raise NothingPublishedError(f"{warehouse.path}: nothing was published yet")
        link = warehouse.chain().links.get(checkpoint.run_id)
        if link is None or not link.is_of(checkpoint):
            raise TamperedError(f"{warehouse.path}: its ledger does not lead to this checkpoint", FROM_BACKUP)
        for line in proofs(warehouse, checkpoint, table, pairs):
            command.console.line(line)
    return EXIT_OK


def _require_there(warehouse: Warehouse) -> None:
    """Raise NothingPublishedError if no run has written to the folder, as where its name is misspelled."""
    if all(delta_log.head_of(warehouse.path, table) < 0 for table in (bronze.SOURCES, gold.RUNS)):
        raise NothingPublishedError(f"{warehouse.path}: no run has written here")


def _refused(command: Command) -> int:
    given, warehouse, gone = command.arguments, command.warehouse, list[ReadFile]()
    _require_there(warehouse)
    changes = given.unpublished or given.forget
    with (locked if changes else read_locked)(warehouse.path):
        if changes:
            warehouse.start_from_published()
        if given.unpublished:
            warehouse.take_back()
            command.console.line("What was read and not published has been removed: it may be given again")
        if given.forget:
            gone = forget(warehouse, given.forget)
        left = not_accepted(warehouse)
    for source in gone:
        command.console.line(f"forgotten: {source.name}: it may be given again")
    for source in left:
        command.console.line(f"{source.verdict}  {source.sha256[:12]}  {source.ingest_run}  {source.error}")
    if not left:
        command.console.line("No file was refused or mostly unreadable")
    return EXIT_OK


def _maintain(command: Command) -> int:
    given, console = command.arguments, command.console
    _require_there(command.warehouse)
    with (read_locked if given.dry_run else locked)(command.warehouse.path), waiting() as share:
        done = maintain(command.warehouse, given.retain_days, share, dry_run=given.dry_run)
    rows = []
    for name, (days, files, files_after, size, size_after) in [*done.by_table.items(), ("all tables", done.total)]:
        if days or files != files_after or size != size_after or name == "all tables":
            rows.append((name, days, files, files_after, f"{size:,}", f"{size_after:,}"))
    write_table(console.out, ("table", "compacted", "files", "files after", "bytes", "bytes after"), rows)
    console.line(f"Readable     {done.readable} of {done.runs} published runs")
    if done.staging:
        console.line(f"Left over    {', '.join(done.staging)} in _staging, of runs that crashed")
    if given.dry_run:
        console.line("Nothing was changed (--dry-run).")
    return EXIT_OK


# -- readers -----------------------------------------------------------------------------------------------------------


def _sql(command: Command) -> int:
    from jobs.cli.sql import Views, register_views, run_in_force, shell, show_sql, statements_of  # noqa: PLC0415  Spark may not be installed

    given = command.arguments
    if given.query is None and sys.stdin.isatty():
        run_in_force(command.warehouse, given.as_known_at)
        opened_once = cache(
            partial(Views, warehouse=command.warehouse, as_known_at=given.as_known_at, is_verified=given.verified)
        )
        shell(lambda: opened_once(for_questions(command.session.get())), given, command.console)
        return EXIT_OK
    text = sys.stdin.read() if given.query is None else given.query
    statements = statements_of(text) if given.saved is None else [text]
    if not statements:
        raise UsageError("no SQL: give statements as an argument, in a file (--file), or on standard input")
    run_in_force(command.warehouse, given.as_known_at)  # an unreadable warehouse fails before a JVM starts
    spark = for_questions(command.session.get())
    # Errors are shown in one sentence; Spark would log a hundred lines before it.
    spark.sparkContext.setLogLevel("OFF")
    views = register_views(spark, command.warehouse, given.as_known_at, statements, is_verified=given.verified)
    require_within(views.coverage, *time_of(getattr(given, "values", {})))
    show_sql(spark, statements, views, given, command.console)
    return EXIT_OK


def _register(command: Command) -> int:
    from jobs.cli.sql import register, run_in_force  # noqa: PLC0415  as above

    database = command.arguments.database
    run_in_force(command.warehouse, None)
    spark = command.session.get()
    spark.sparkContext.setLogLevel("ERROR")  # Hive warns, for each path, that there is no database named `delta`
    number = register(spark, command.warehouse, database)
    command.console.line(
        f"Registered   {number} views and functions of {command.warehouse.path} in database {database}"
    )
    return EXIT_OK


def _audit(command: Command) -> int:
    """Make an attestation, or verify one.

    Raises TamperedError if the published tables do not follow from the recording, or differ from the attested ones.
    """
    given, warehouse = command.arguments, command.warehouse
    if "://" in warehouse.path:
        raise UsageError(f"{warehouse.path}: `audit` reads local folders")
    if given.check is not None:
        return _check_attestation(command)
    if (given.at is None) != (given.of is None) or (given.at is None and given.table != "all"):
        raise UsageError("audit: a table at an instant needs both --at TIME and --namesrv ADDR")
    tables = list(FUNCTIONS) if given.table == "all" else [table_named(given.table)]
    at = None if given.at is None else (given.of, given.at)
    made = attest(Answers(warehouse.path, given.as_known_at), warehouse, at, tables, command.console)
    with opened(Path(given.output)) if given.output else contextlib.nullcontext(sys.stdout) as out:
        out.write(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    if given.output:
        show_attested(made, command.console)
    if made["wrong"]:
        raise TamperedError("; ".join(made["wrong"]))
    return EXIT_OK


def _check_attestation(command: Command) -> int:
    given, warehouse = command.arguments, command.warehouse
    attested = read_attestation(Path(given.check))
    asked, code = attested["asked"], attested["code"]
    at = None if asked is None else (asked["namesrv_id"], instant(asked["at"]))
    tables = [] if asked is None else asked["tables"]
    again = attest(Answers(warehouse.path, attested["run"]["run_id"]), warehouse, at, tables, command.console)
    show_attested(attested, command.console)
    if code["sha256"] != again["code"]["sha256"]:
        command.console.line(f"  other code    attested by {code['version']} ({code['sha256'][:16]})")
    if wrong := differing(attested, again):
        raise TamperedError(f"attestation {given.check}: {'; '.join(wrong)}")
    command.console.line("  verified      the same inputs give the same tables")
    return EXIT_OK


def export(warehouse: Warehouse, output: Path, share: Callable[[int, int], None] = nobody) -> int:
    """Write every recorded event and answer to `output`, ordered by name server and position; return the lines.

    `share` receives the number of name servers' days done, and of how many.
    Raises TamperedError; MissingDayError if nothing is recorded.
    """
    stored = warehouse.rows(bronze.TOPIC_CONFIGS_TABLE)
    require_configs(warehouse.path, stored)
    configs = {row["topic_config_digest"]: row for row in rows_of(stored)}
    days = days_of(warehouse.recorded())
    if not days:
        raise MissingDayError(f"{warehouse.path}: nothing is recorded at all")
    lines = 0
    with opened(output) as file:
        namesrvs = sorted({name for day in days for name in warehouse.namesrvs_on(day)})
        for place, namesrv_id in enumerate(namesrvs):
            own = pc.field("namesrv_id") == namesrv_id
            for number, day in enumerate(days):
                share(place * len(days) + number, len(namesrvs) * len(days))
                rows = sum(of.rows for table in bronze.RECORDED_TABLES for of in warehouse.files(table, [day]))
                for part in _parts(day, rows):
                    found = [
                        Row(table.name, row)
                        for table in bronze.RECORDED_TABLES
                        for row in rows_of(warehouse.rows(table, [day], None, own & part))
                    ]
                    for row in sorted(found, key=lambda row: (row.values["seq"], row.values["event_id"])):
                        file.write(line_of(row, configs.get(row.values.get("topic_config_digest"))) + "\n")
                    lines += len(found)
    return lines


def _parts(day: dt.date, rows: int) -> Iterator[pc.Expression]:
    """Yield conditions for a day's rows, by position, for about so many at a time; a position may lie beside its day."""
    count = 1 + rows // _ROWS_AT_A_TIME
    begins = [day_start_seq(day) + 86_400 * 10**9 * number // count for number in range(1, count)]
    for begin, end in zip([0, *begins], [*begins, EVER], strict=True):
        yield (pc.field("seq") >= begin) & (pc.field("seq") < end)


def _export(command: Command) -> int:
    with waiting() as share:
        lines = export(command.warehouse, Path(command.arguments.output), share)
    command.console.line(f"{command.arguments.output}: {lines:,} lines; {summary(command.warehouse.coverage())}")
    return EXIT_OK


_COMMANDS: dict[str, Callable[[Command], int]] = {
    "demo": _demo,
    "nightly": _nightly,
    "ingest": _ingest,
    "check": _check,
    "maintain": _maintain,
    "refused": _refused,
    "sql": _sql,
    "register": _register,
    "audit": _audit,
    "export": _export,
}
