"""`ask`: questions without a JVM, over the same views and functions as `sql`, in this process."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from jobs import PROGRAM
from jobs.ask.engine import FUNCTIONS, Answers, nearest
from jobs.ask.instants import instant, known_at
from jobs.cli.output import opened, waiting, width_of, write_lines, write_rows
from jobs.cli.validate import warehouse_at
from jobs.errors import EXIT_OK, EXIT_ONGOING, UsageError, printable
from jobs.store.coverage import require_within, summary, text_of
from jobs.store.published import sha256_of_file
from schemas import asked

if TYPE_CHECKING:  # slow to import
    from schemas.queries import Query

# Kept open until the process ends: closing takes longer than most questions.
_OPEN: list[Answers] = []
_SEVERITIES = ["critical", "warning", "info"]
_DESCRIBE = re.compile(r"\s*DESC(?:RIBE)?\s+(?:(?:TABLE|FUNCTION)\s+)?(\w+)[\s;]*", re.IGNORECASE)
_COMMENT = re.compile(r"COMMENT ON COLUMN \w+\.(\w+) IS '((?:[^']|'')*)'")
# Endings of names that are used only within other statements, and so are not listed.
_FOR_OTHERS = ("_committed", "_stored", "_rows_at", "utc")
_Asked = tuple[str, dict[str, Any]]
"""A statement in DuckDB's dialect, and its values."""
_EXPLAINED = """
    SELECT w.*, s.content_sha256, s.kind AS source_kind
    FROM why($topic, $t) AS w
    -- what was answered in a later run was asked in a file of a run before it
    ASOF LEFT JOIN sources AS s ON s.source_file = w.source_file AND s.ingest_run <= w.ingest_run
    ORDER BY w.namesrv_id"""
"""`why` for `$topic` at `$t` on each name server, with the file in which the event behind it is recorded."""
_ROUTE = "SELECT * FROM route_at($topic, $t) ORDER BY namesrv_id, broker_name"
# Columns of a line's heading, and of the text around a line's bytes; bytes of the first line, each of which takes four columns.
_INDENT, _AROUND, _A_LINE = 12, 9, 16
_STATEMENTS = {
    "route-at": _ROUTE,
    "explain": _EXPLAINED,
    "why": "SELECT * FROM why($topic, $t) ORDER BY namesrv_id",
    "diff": "SELECT * FROM route_diff($t1, $t2) ORDER BY ALL",
    "findings": "SELECT * FROM findings ORDER BY from_time, code, subject, namesrv_id",
    "incidents": "SELECT * FROM incidents ORDER BY first_time, code, subject",
    "history": """
    SELECT namesrv_id, effect_time, change, caused_by, route_before, route_after FROM whole_routes WHERE topic = $topic
    ORDER BY effect_time, namesrv_id, seq""",
}
"""Statements by question; they read the question's arguments as `$name`."""


def answers_of(given: argparse.Namespace) -> Answers:
    """Return the warehouse opened as of the given run or instant, by default the last run."""
    return Answers(
        warehouse_at(given.warehouse),
        None if given.as_known_at is None else known_at(given.as_known_at),
        is_verified=getattr(given, "verified", False),
        is_closed=not getattr(given, "unsafe", False),
        memory_mib=getattr(given, "memory", None),
    )


def ask(given: argparse.Namespace) -> int:
    """Answer a question and return the exit code."""
    if given.question == "queries":
        _list_queries((given.filter or "").lower())
        return EXIT_OK
    question, parameters = given.question, vars(given)
    if question == "query":
        from jobs.ask.engine import query_named, texts_of, time_of  # noqa: PLC0415  as above

        question = query_named(given.name)
        parameters = texts_of(question, given.param)
    elif question == "sql" and given.query is None:
        given.query = sys.stdin.read()
    questions = list(questions_of(question, parameters))
    answers = answers_of(given)
    _OPEN[:] = [answers]
    if given.question == "query":
        ((_, values),) = questions
        if not require_within(answers.coverage, *time_of(values)):
            sys.stderr.write(f"namesrv-history: {summary(answers.coverage)}\n")
    with opened(Path(given.output)) if given.output else nullcontext(sys.stdout) as out:
        if given.question == "changes":
            _write_changes(answers, given, out)
        if given.question == "prometheus":
            out.writelines(_metrics(answers))
        for number, (sql, values) in enumerate(questions):
            if number and given.format != "json":
                out.write("\n")
            known: Iterable[Iterable[Any]] = ()
            is_why = question == "why" or getattr(given, "name", "") == "no_route_info"
            if question == "explain" or (given.format == "table" and is_why):
                files = [Path(name) for name in getattr(given, "capture", ())]
                known = explain(answers, values, files, given.format, out, with_route=question == "explain")
            else:
                with waiting(lambda: answers.share):
                    names, rows = answers.ask(sql, **values)
                if "topic" in values:
                    rows = iter(known := list(rows))
                if write_rows(out, given.format, names, rows, given.limit) and given.format != "table":
                    sys.stderr.write(f"namesrv-history: more rows than {given.limit:,} (--limit) are left out\n")
            if remark := answers.remark(values, known):
                sys.stderr.write(f"namesrv-history: {remark}\n")
    if fail_on := getattr(given, "fail_on", None):
        ongoing = "SELECT 1 FROM incidents WHERE state = 'ongoing' AND list_contains($severities, severity) LIMIT 1"
        as_severe = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
        if next(answers.ask(ongoing, severities=as_severe).rows, None) is not None:
            return EXIT_ONGOING
    return EXIT_OK


def _write_changes(answers: Answers, given: argparse.Namespace, out: TextIO) -> None:
    """Write the changes since a run, and the next cursor to standard error."""
    from jobs.ask.changes import changes, lines  # noqa: PLC0415  as above

    def is_cut() -> bool:
        if given.format != "json":
            return write_rows(out, given.format, *found, given.limit)
        text = lines(found)
        out.writelines(islice(text, given.limit))
        return next(text, None) is not None

    with waiting() as share:
        cursor, found = changes(answers, known_at(given.since), share)
        # On a terminal, read all rows first so that progress and rows do not mix; a file may get more than memory holds.
        found = found._replace(rows=iter(list(found.rows))) if out.isatty() else found
        left_out = None if out.isatty() else is_cut()
    left_out = is_cut() if left_out is None else left_out
    again = (
        f"changes are left out (--limit): ask again --since {given.since}"
        if left_out
        else f"next time: --since {cursor}"
    )
    sys.stderr.write(f"namesrv-history: {again}\n")


def questions_of(question: str | Query, given: Mapping[str, Any]) -> Iterator[_Asked]:
    """Yield the statements of a question or saved query, with the values given. Raises UsageError for invalid values."""
    if not isinstance(question, str):
        from jobs.ask.engine import values_of  # noqa: PLC0415  as above

        yield asked.statement(f"query.{question.name}") or "", values_of(question, given)
        return
    instants = {name: instant(given[of]) for name, of in (("t", "time"), ("t1", "t1"), ("t2", "t2")) if of in given}
    if question == "table-at":
        yield f"SELECT * FROM {FUNCTIONS[table_named(given['table'])]}($t) ORDER BY ALL", instants  # noqa: S608  a name of ours
    elif question == "diff" and instants["t1"] > instants["t2"]:
        raise UsageError(f"{given['t1']} lies after {given['t2']}: give the earlier instant first")
    elif question == "diff" and given.get("tables"):
        yield asked.statement("query.registry_changes") or "", instants
    elif question == "sql":
        yield from _statements(given["query"])
    elif question in _STATEMENTS:
        topic = {"topic": given["topic"]} if "topic" in given else {}
        yield _STATEMENTS[question], {**topic, **instants}


def _statements(text: str) -> Iterator[_Asked]:
    """Yield the statements of a text in Spark's dialect. Raises UsageError for a statement that DuckDB cannot run."""
    if text.strip(" ;\n").upper() == "SHOW TABLES":
        names = [name for name in sorted(asked.names()) if "." not in name and not name.endswith(_FOR_OTHERS)]
        kinds = ["function" if " MACRO " in (asked.statement(name) or "") else "table or view" for name in names]
        yield "SELECT unnest($names) AS name, unnest($kinds) AS kind", {"names": names, "kinds": kinds}
        return
    described = _DESCRIBE.fullmatch(text)
    if described and (name := described[1].lower()) in asked.names() and "." not in name:
        yield _described(name)
        return
    # The translator takes as long to import as many an answer.
    import logging  # noqa: PLC0415

    from schemas.dialect import NotTranslatedError, duckdb_queries  # noqa: PLC0415

    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns of statements that are refused below
    try:
        yield from ((sql, {}) for sql in duckdb_queries(text))
    except NotTranslatedError as error:
        raise UsageError(str(error), f". `{PROGRAM} sql` asks Spark") from error


def table_named(name: str) -> str:
    """Return RocketMQ's name of a table from any spelling. Raises UsageError."""
    known = {table.lower(): table for table in FUNCTIONS}
    plain = name.replace("_", "").lower()
    found = known.get(plain) or known.get(f"{plain}table")
    if found is None:
        raise UsageError(f"table {name!r}: expected one of {', '.join(FUNCTIONS)}")
    return found


def _described(name: str) -> _Asked:
    """Return the statement that describes a table or view (columns, types, comments) or a function (parameters, comment)."""
    comment = asked.statement(f"comment.{name}") or ""
    if function := re.match(r"CREATE .*?MACRO (\w+\([^)]*\))", asked.statement(name) or ""):
        text = re.search(r" IS '((?:[^']|'')*)'", comment)
        values = {"function": function[1], "comment": text[1].replace("''", "'") if text else None}
        return "SELECT $function AS function, $comment AS comment", values
    columns = {column: text.replace("''", "'") for column, text in _COMMENT.findall(comment)}
    sql = f"SELECT column_name, column_type, map($names, $comments)[column_name] AS comment FROM (DESCRIBE {name})"  # noqa: S608  a name of ours
    return sql, {"names": list(columns), "comments": list(columns.values())}


def _list_queries(word: str) -> None:
    from schemas.queries import queries  # noqa: PLC0415  slow to import

    group = ""
    for query in queries().values():
        if word in f"{query.name} {query.question}".lower():
            heading = [query.group] if query.group != group else []
            write_lines(sys.stdout, [*heading, f"  {query.name}: {query.question}"], indent=4)
            group = query.group
    if not group:
        near = nearest(word, queries(), cutoff=0.4)
        raise UsageError(f"no saved query has {word!r} in its name or question{near}. `ask queries` lists all")


# -- explain: a route at an instant, its event, and the event's recorded bytes -----------------------------------------------


def explain(
    answers: Answers, values: dict[str, Any], files: Sequence[Path], form: str, out: TextIO, *, with_route: bool = True
) -> list[tuple[Any, ...]]:
    """Write the explanation: for people in parts, otherwise a row for each name server; return the rows. Raises UsageError.

    `files`: recordings at hand. Only one with the digest that the ledger knows is shown; secrets in it are blotted out.
    """
    with waiting(lambda: answers.share):
        found = answers.ask(_EXPLAINED, **values)
        tuples = list(found.rows)
        rows = [dict(zip(found.names, row, strict=True)) for row in tuples]
    try:
        digests = {sha256_of_file(str(path)): path for path in files}
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be read: {error.strerror or error}") from error
    for one in rows:
        path = digests.get(one["content_sha256"])
        one["recorded"] = None if path is None else _recorded(path, one["source_kind"], one["source_offset"]).hex()
    if form != "table":
        write_rows(out, form, [*found.names, "recorded"], [list(one.values()) for one in rows])
        return tuples
    if with_route:
        write_rows(out, "table", *answers.ask(_ROUTE, **values))
        out.write("\n")
    width = width_of(out)
    a_line = _A_LINE if width is None else max(1, min(_A_LINE, (width - _AROUND) // 4))
    for number, one in enumerate(rows):
        write_lines(out, [*[""] * bool(number), *_lines(one, a_line)], _INDENT)
    return tuples


def _lines(one: dict[str, Any], a_line: int) -> Iterator[str]:
    yield f"{one['namesrv_id']}: {one['state']}"
    if one["caused_by"] is None:
        return
    who = " ".join(str(one[name]) for name in ("cluster_name", "broker_name", "broker_addr") if one[name] is not None)
    yield f"  {one['change']} at {text_of(one['changed_time'])} by {one['operation']} ({one['outcome']})"
    yield f"  who       {printable(who) or 'nobody is named'}, connection {one['channel_id']}"
    yield f"  event     {one['caused_by']}"
    if one["source_file"] is None:
        yield "  recorded  nowhere: a scan is no packet"
        return
    unit = "packet" if one["source_kind"] == "capture" else "line"
    yield f"  recorded  {printable(one['source_file'])}, {unit} {one['source_offset']}, SHA-256 {one['content_sha256']}"
    if one["recorded"] is None:
        yield "            not at hand: give it with --capture to see the bytes"
        return
    data = bytes.fromhex(one["recorded"])
    for at in range(0, len(data), a_line):
        part = data[at : at + a_line]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"  {at:04x}  {part.hex(' '):<{3 * a_line - 1}}  {text}"


def _recorded(path: Path, kind: str, offset: int) -> bytes:
    """Return the packet, or the line, with that number."""
    # Only `--capture` needs these readers.
    from namesrv_wire.compression import unpacked  # noqa: PLC0415
    from namesrv_wire.errors import CaptureError  # noqa: PLC0415
    from namesrv_wire.packets.container import packet_of  # noqa: PLC0415
    from namesrv_wire.secrets import blot  # noqa: PLC0415

    try:
        if kind == "capture":
            found = packet_of(path, offset)
        else:
            with path.open("rb") as file:
                found = next(islice(unpacked(file), offset - 1, offset), None)
    except (CaptureError, OSError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    if found is None:
        raise UsageError(f"{path}: has no number {offset}")
    return blot(found)


# -- a Prometheus text file (for the node exporter's textfile collector) ---------------------------------------------------

# Every code has a line even without an incident, so that an alert on it ends by itself.
_BY_CODE = """
    SELECT c.code, s.severity, count(f.code)
    FROM finding_codes AS c
    CROSS JOIN (SELECT unnest(['critical', 'warning', 'info']) AS severity) AS s
    LEFT JOIN {counted} AS f ON f.code = c.code AND f.severity = s.severity
    GROUP BY ALL ORDER BY ALL"""
_ONGOING = "(SELECT unnest(codes) AS code, severity FROM incidents WHERE state = 'ongoing')"
_NEW = "(SELECT * FROM findings WHERE told_on = (SELECT max(CAST(latest_time AS DATE)) FROM watermarks))"
_ALL = "SELECT severity, count(*) FROM incidents GROUP BY ALL ORDER BY ALL"
_WATERMARKS = "SELECT namesrv_id, latest_time FROM watermarks ORDER BY namesrv_id"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_Samples = Sequence[tuple[Mapping[str, str], float]]


def _metrics(answers: Answers) -> Iterator[str]:
    ongoing, new = (
        [
            ({"code": code, "severity": of}, count)
            for code, of, count in answers.ask(_BY_CODE.format(counted=counted)).rows
        ]
        for counted in (_ONGOING, _NEW)
    )
    of_all = [({"severity": severity}, count) for severity, count in answers.ask(_ALL).rows]
    latest = [({"namesrv": name}, at.timestamp()) for name, at in answers.ask(_WATERMARKS).rows]
    published: _Samples = [({}, answers.known.finished_time.timestamp())]
    families: Mapping[str, tuple[str, _Samples]] = {
        "incidents_ongoing": ("Incidents that were not over when the last recorded day ended.", ongoing),
        "findings_last_day": ("Findings that were first reported on the last recorded day.", new),
        "incidents": ("All incidents that are published, by severity.", of_all),
        "published_timestamp_seconds": ("When the run was published that is read.", published),
        "known_timestamp_seconds": ("Latest instant that is recorded of a name server.", latest),
    }
    for name, (text, samples) in families.items():
        full = f"namesrv_history_{name}"
        yield f"# HELP {full} {text}\n# TYPE {full} gauge\n"
        for labels, value in samples:
            shown = ",".join(f'{label}="{of.translate(_ESCAPES)}"' for label, of in labels.items())
            yield f"{full}{{{shown}}} {value}\n" if shown else f"{full} {value}\n"
