"""The questions that need no JVM: the same views and functions as `sql` has, in this process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from jobs.ask.engine import Answers
from jobs.ask.instants import instant, known_at
from jobs.ask.nearest import nearest
from jobs.ask.tables import FUNCTIONS, names_in_sql
from jobs.cli.judged import warehouse_at
from jobs.cli.output import opened, write_rows
from jobs.cli.prometheus import metrics
from jobs.errors import EXIT_OK, EXIT_ONGOING, UsageError
from jobs.store.coverage import require_within, summary
from schemas import asked

_SEVERITIES = ["critical", "warning", "info"]
_HISTORY = """
    SELECT namesrv_id, effect_time, change, caused_by, route_before, route_after FROM whole_routes WHERE topic = $topic
    ORDER BY effect_time, namesrv_id, seq"""


class _Asked(NamedTuple):
    """A statement in DuckDB's dialect, and its values."""

    sql: str
    values: dict[str, Any]


def answers_of(given: argparse.Namespace, known: str | None) -> Answers:
    """Return the warehouse that is asked, as of a run, or of an instant; None: the last."""
    return Answers(
        warehouse_at(given.warehouse),
        None if known is None else known_at(known),
        is_verified=getattr(given, "verified", False),
        is_closed=not getattr(given, "unsafe", False),
        memory_mib=getattr(given, "memory", None),
    )


def ask(given: argparse.Namespace) -> int:
    """Answer a question and return the exit code."""
    if given.question == "queries":
        _list_queries()
        return EXIT_OK
    return _answer(given)


def _answer(given: argparse.Namespace) -> int:
    questions = list(_QUESTIONS[given.question](given))
    answers = answers_of(given, given.as_known_at)
    if given.question == "query":
        _tell_covered(answers, questions[0].values)
    with opened(Path(given.output)) if given.output else nullcontext(sys.stdout) as out:
        if given.question == "explain":
            from jobs.cli.explain import explain  # noqa: PLC0415  only who is shown packets waits for their reader

            values = {"topic": given.topic, "t": instant(given.time)}
            if not explain(answers, values, [Path(name) for name in given.capture], given.format, out):
                _tell_nearest(answers, given.topic)
        if given.question == "restated":
            from jobs.ask.restated import restated  # noqa: PLC0415  as above

            found = restated(answers, answers_of(given, None), FUNCTIONS[table_named(given.table)], instant(given.time))
            write_rows(out, given.format, *found, given.limit)
        if given.question == "prometheus":
            out.writelines(metrics(answers))
        for number, question in enumerate(questions):
            if number and given.format != "json":
                out.write("\n")
            names, rows = answers.ask(question.sql, **question.values)
            noted = _noted(rows, answers, question.values.get("topic"))
            if write_rows(out, given.format, names, noted, given.limit) and given.format != "table":
                sys.stderr.write(f"namesrv-history: more rows than {given.limit:,} (--limit) are left out\n")
    if getattr(given, "fail_on", None) and _is_ongoing(answers, given.fail_on):
        return EXIT_ONGOING
    return EXIT_OK


def _tell_covered(answers: Answers, values: dict[str, Any]) -> None:
    """Say what is recorded, if that is less than what is asked for. Raises NotRecordedError."""
    from jobs.ask.saved import time_of  # noqa: PLC0415  as below

    if not require_within(answers.coverage, *time_of(values)):
        sys.stderr.write(f"namesrv-history: {summary(answers.coverage)}\n")


def _is_ongoing(answers: Answers, severity: str) -> bool:
    """Return whether an incident of this severity, or a worse one, is not over."""
    as_severe = _SEVERITIES[: _SEVERITIES.index(severity) + 1]
    sql = "SELECT 1 FROM incidents WHERE state = 'ongoing' AND list_contains($severities, severity) LIMIT 1"
    return next(answers.ask(sql, severities=as_severe).rows, None) is not None


def _noted(rows: Iterator[tuple[Any, ...]], answers: Answers, topic: object) -> Iterable[tuple[Any, ...]]:
    """Return rows; where none of them knows the topic that was asked for, say whether there ever was one of that name."""
    if not isinstance(topic, str):
        return rows
    found = list(rows)
    if not any(map(_may_know, found)):
        _tell_nearest(answers, topic)
    return found


def _may_know(row: tuple[Any, ...]) -> bool:
    """Return whether a row says more than that its name server never had what was asked for, or was not recorded."""
    return not any(isinstance(value, str) and value.startswith(("never seen", "not recorded:")) for value in row)


def _tell_nearest(answers: Answers, topic: str) -> None:
    """Say which topics have nearly the name of one that no name server ever had."""
    topics = [name for (name,) in answers.ask("SELECT DISTINCT topic FROM route_changes").rows]
    if topic not in topics:
        sys.stderr.write(f"namesrv-history: no name server ever had a topic {topic}{nearest(topic, topics, most=5)}\n")


def _list_queries() -> None:
    """Write the saved queries by group."""
    from schemas.queries import queries  # noqa: PLC0415  as above

    group = ""
    for query in queries().values():
        if query.group != group:
            sys.stdout.write(f"{chr(10) if group else ''}{query.group}\n")
            group = query.group
        sys.stdout.write(f"  {query.name}: {query.question}\n")
        for parameter in query.parameters:
            sys.stdout.write(f"      {parameter.name} {parameter.type}: {parameter.described}\n")
        if query.unknown:
            sys.stdout.write(f"      not known: {query.unknown}\n")


# -- questions ---------------------------------------------------------------------------------------------------------


def _route_at(given: argparse.Namespace) -> Iterator[_Asked]:
    sql, t = "SELECT * FROM route_at($topic, $t) ORDER BY namesrv_id, broker_name", instant(given.time)
    yield _Asked(sql, {"topic": given.topic, "t": t})


def _table_at(given: argparse.Namespace) -> Iterator[_Asked]:
    function, t = FUNCTIONS[table_named(given.table)], instant(given.time)
    sql = f"SELECT * FROM {function}($t) ORDER BY ALL"  # noqa: S608  a name of ours
    yield _Asked(sql, {"t": t})


def _restated(given: argparse.Namespace) -> Iterator[_Asked]:
    if given.as_known_at is None:
        raise UsageError("restated: say with --as-known-at what it is compared with: a run, or an instant")
    yield from ()


def table_named(name: str) -> str:
    """Return the name server's own name of a table, however it is written. Raises UsageError."""
    known = {table.lower(): table for table in FUNCTIONS}
    plain = name.replace("_", "").lower()
    found = known.get(plain) or known.get(f"{plain}table")
    if found is None:
        raise UsageError(f"table {name!r}: expected one of {', '.join(FUNCTIONS)}")
    return found


def _why(given: argparse.Namespace) -> Iterator[_Asked]:
    sql, topic, t = "SELECT * FROM why($topic, $t) ORDER BY namesrv_id", given.topic, instant(given.time)
    yield _Asked(sql, {"topic": topic, "t": t})


def _diff(given: argparse.Namespace) -> Iterator[_Asked]:
    t1, t2 = instant(given.t1), instant(given.t2)
    if t1 > t2:
        raise UsageError(f"{given.t1} lies after {given.t2}: give the earlier instant first")
    routes = "SELECT * FROM route_diff($t1, $t2) ORDER BY ALL"
    values = {"t1": t1, "t2": t2}
    if given.tables:
        yield _Asked(asked.statement("query.registry_changes") or "", values)
    else:
        yield _Asked(routes, values)


def _history(given: argparse.Namespace) -> Iterator[_Asked]:
    yield _Asked(_HISTORY, {"topic": given.topic})


def _query(given: argparse.Namespace) -> Iterator[_Asked]:
    from jobs.ask.saved import query_named, values_of  # noqa: PLC0415  their reader takes longer to import than many a question

    query = query_named(given.name)
    yield _Asked(asked.statement(f"query.{query.name}") or "", values_of(query, given.param))


def _sql(given: argparse.Namespace) -> Iterator[_Asked]:
    import logging  # noqa: PLC0415  as above

    # The translator takes as long as many an answer: who needs none does not wait for it.
    from schemas.dialect import NotTranslatedError, duckdb_queries  # noqa: PLC0415

    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns of what is refused here
    try:
        text = sys.stdin.read() if given.query is None else given.query
        if text.strip(" ;\n").upper() == "SHOW TABLES":
            found, kinds = zip(*names_in_sql(), strict=True)
            yield _Asked("SELECT unnest($names) AS name, unnest($kinds) AS kind", {"names": found, "kinds": kinds})
        else:
            yield from (_Asked(sql, {}) for sql in duckdb_queries(text))
    except NotTranslatedError as error:
        raise UsageError(f"{error}. `sql` asks Spark") from error


_FINDINGS = _Asked("SELECT * FROM findings ORDER BY from_time, code, subject, namesrv_id", {})
_INCIDENTS = _Asked("SELECT * FROM incidents ORDER BY first_time, code, subject", {})
_QUESTIONS: dict[str, Callable[[argparse.Namespace], Iterable[_Asked]]] = {
    "route-at": _route_at,
    "table-at": _table_at,
    "why": _why,
    "diff": _diff,
    "findings": lambda _: [_FINDINGS],
    "history": _history,
    "explain": lambda _: (),
    "restated": _restated,
    "prometheus": lambda _: (),
    "incidents": lambda _: [_INCIDENTS],
    "query": _query,
    "sql": _sql,
}
