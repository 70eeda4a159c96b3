"""`report`, and the pages that a run writes into its warehouse."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from jobs.ask.engine import Answers
from jobs.ask.instants import instant
from jobs.cli.ask import answers_of
from jobs.cli.output import opened, waiting
from jobs.errors import EXIT_OK, JobError, NotRecordedError, UsageError
from jobs.report.facts import Scope, answers_end, facts_of, scope_of_incident
from jobs.report.page import page
from jobs.report.page import report as page_of
from jobs.store.coverage import NOT_RECORDED, text_of
from schemas.times import day_start

_DAY = dt.timedelta(days=1)
_MOST_REPORTS = 3
# Names below a warehouse: the index page, and the folder of reports by day.
_INDEX, _REPORTS = "index.html", "reports"
_STANDING = """
    SELECT *, count(*) OVER () AS of_all FROM incidents WHERE state = 'ongoing'
    ORDER BY CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, first_time, code, subject LIMIT 20"""
_A_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def report(given: argparse.Namespace) -> int:
    """Write the report of a time range and return the exit code."""
    answers = answers_of(given)
    # Without a time it is of the last published day, or of the incident's time.
    if given.incident is not None:
        scope = scope_of_incident(answers, given.incident)
    else:
        end = answers_end(answers)
        scope = Scope(end - _DAY, end)
    start, end = scope.start, scope.end
    if given.first is not None:
        start = instant(given.first)
        end = _a_day_later(start) if given.last is None and given.incident is None else end
    if given.last is not None:
        # A day counts whole.
        end = instant(given.last)
        end = _a_day_later(end) if _A_DATE.fullmatch(given.last) else end
        start = start if given.first is not None or start < end else end - _DAY
    if start >= end:
        raise UsageError(f"--from {given.first} lies not before --to {given.last}")
    scope = scope._replace(start=start, end=end, topic=given.topic, broker=given.broker, namesrv=given.namesrv)
    with waiting() as share:
        html = page_of(facts_of(answers, scope, share))
    with opened(Path(given.output)) as file:
        file.write(html)
    sys.stdout.write(f"{given.output}\n")
    return EXIT_OK


def _a_day_later(at: dt.datetime) -> dt.datetime:
    """Return the instant a day later. Raises NotRecordedError if it is beyond the calendar."""
    try:
        return at + _DAY
    except OverflowError as error:
        raise NotRecordedError(f"{NOT_RECORDED}{text_of(at)}") from error


def write_pages(warehouse: str, days: Iterable[dt.date], docs: Path) -> Path | None:
    """Write the reports of days that a night has published, the last few, and the page that leads to them; return that.

    What a night has published stays so whatever happens to its pages: a failure is reported on standard error. None: the
    warehouse is not local, or nothing is published.
    """
    if "://" in warehouse:
        return None
    root = Path(warehouse)
    try:
        answers = Answers(warehouse)
        for day in sorted(days)[-_MOST_REPORTS:]:
            start = day_start(day)
            _write(root / _REPORTS / f"{day}.html", page_of(facts_of(answers, Scope(start, start + _DAY))))
        (last,) = answers.ask(
            "SELECT run_id, status, finished_time, days FROM runs ORDER BY finished_time DESC LIMIT 1"
        ).dicts()
        (checked,) = answers.ask("SELECT sum(answers) AS answers, sum(matched) AS matched FROM answer_checks").dicts()
        values = {
            "run_id": answers.known.run_id,
            "finished": answers.known.finished_time,
            "last": last,
            "checked": checked,
            "covered": answers.coverage,
            "incidents": answers.ask(_STANDING).dicts(),
            "reports": sorted((path.name for path in (root / _REPORTS).glob("*.html")), reverse=True),
            "folder": _REPORTS,
            "docs": os.path.relpath(docs, root) if docs.is_file() else None,
        }
        _write(root / _INDEX, page("index.html", "Name servers", **values))
    except (JobError, OSError, ValueError) as error:
        sys.stderr.write(f"namesrv-history: no pages: {error}\n")
        return None
    return root / _INDEX


def _write(path: Path, html: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with opened(path) as file:
        file.write(html)
