"""The judgement: Great Expectations judges what was counted, and it is shown as Data Docs.

The pages are our own, made of its results: plain HTML that a browser without a network shows as it is.
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from namesrv_day.gate.rules import Measurement
from schemas.rules import RULES

KEPT_RESULTS = 10
"""Judgements of one table that Data Docs keep."""
RESULTS, PAGES = "results", "validations"
"""Folders below that of the Data Docs: `<folder>/<table>/gate/<time>/gate-<table>`, as JSON and as HTML."""
_RUN = "gate"
_TIME = "%Y%m%dT%H%M%S.%fZ"
_STATUS = {"critical": "failed", "warning": "warning", "info": "skipped"}
_STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; --failed: #c9302c; --warning: #9a5b00; --passed: #18785a;
  --skipped: #57606a; }
@media (prefers-color-scheme: dark) { :root { --failed: #ff6b66; --warning: #e5a13a; --passed: #3fbf90; --skipped: #9aa5b1; } }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8884; padding: .35rem .6rem; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
td { overflow-wrap: anywhere; }
.failed { color: var(--failed); font-weight: 600; } .warning { color: var(--warning); font-weight: 600; }
.passed { color: var(--passed); } .skipped { color: var(--skipped); }
@media (max-width: 44rem) { body { margin: 1rem auto; } th, td:empty { display: none; } tr, td { border: 0; display: block; }
  tr + tr { border: 1px solid #8884; border-radius: .4rem; margin: .5rem 0; padding: .3rem 0; } td { padding: .1rem .6rem; }
  td::before { content: attr(data-name) ": "; opacity: .8; } }
"""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says. Rules are named `table.rule`; only broken critical ones keep it shut."""

    critical: list[str]
    warnings: list[str]
    skipped: list[str]
    docs_path: Path


def prepare(after: Callable[[], object] = lambda: None) -> None:
    """Begin to load Great Expectations, which takes seconds, while the caller goes on; what comes `after` is waited for."""

    def load() -> None:
        after()
        importlib.import_module("jobs.night.expectations")

    threading.Thread(target=load, daemon=True).start()


def judge(measurements: Iterable[Measurement], docs_dir: str | os.PathLike[str]) -> Verdict:
    """Return the verdict of Great Expectations on `measurements`, and write its Data Docs into `docs_dir`.

    One suite per table, one expectation per rule: no row breaks it. A rule that could not be counted is skipped: it fails as
    information and does not shut the gate. Samples stay out of the docs, because they hold what strangers sent.
    """
    from jobs.night.expectations import validated  # noqa: PLC0415  see there: only who judges waits for it

    by_table: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        by_table.setdefault(measurement.table, []).append(measurement)
        _log_if_broken(measurement)
    docs = Path(docs_dir).resolve()
    time = dt.datetime.now(dt.timezone.utc).strftime(_TIME)
    named: dict[str, list[str]] = {"critical": [], "warning": [], "info": []}
    for table, result in validated(by_table):
        found = {**result.to_json_dict(), "run_time": time}
        _write(docs / RESULTS / _place(table, time, "json"), json.dumps(found, indent=1))
        _write(docs / PAGES / _place(table, time, "html"), _page(table, found))
        for severity, rule in _broken(found):
            named[severity].append(f"{table}.{rule}")
    _prune(docs)
    _write(docs / "index.html", _index(docs))
    return Verdict(named["critical"], named["warning"], named["info"], docs / "index.html")


def _log_if_broken(measurement: Measurement) -> None:
    m = measurement
    if m.missing:
        _log.warning("rule=%s.%s skipped missing=%s", m.table, m.rule, ",".join(m.missing))
    elif m.broken:
        level = logging.ERROR if m.severity == "critical" else logging.WARNING
        # JSON has no line breaks and no control characters: one line, whatever strangers sent.
        _log.log(
            level,
            "rule=%s.%s severity=%s broken=%d rows=%d sample=%s",
            *(m.table, m.rule, m.severity, m.broken, m.rows, " ".join(m.sample)),
        )


def _broken(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the severity and the name of each rule that a result says is broken."""
    for of_rule in result["results"]:
        if not of_rule["success"]:
            yield of_rule["expectation_config"]["severity"], of_rule["expectation_config"]["kwargs"]["column"]


# -- files -----------------------------------------------------------------------------------------------------------


def _place(table: str, time: str, kind: str) -> str:
    return f"{table}/{_RUN}/{time}/{_RUN}-{table}.{kind}"


def _write(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def _times(docs: Path, table: str) -> list[str]:
    """Return when a table was judged, the last first. Times sort as text."""
    return sorted((path.parent.name for path in docs.glob(f"{RESULTS}/{_place(table, '*', 'json')}")), reverse=True)


def _prune(docs: Path) -> None:
    """Delete all but the last KEPT_RESULTS judgements of each table, results and pages."""
    for table in RULES:
        for time in _times(docs, table)[KEPT_RESULTS:]:
            for folder in (RESULTS, PAGES):
                shutil.rmtree(docs / folder / table / _RUN / time, ignore_errors=True)


# -- pages -----------------------------------------------------------------------------------------------------------


def _index(docs: Path) -> str:
    """Return the page of all tables: how each was judged last, and links to what is kept."""
    rows = []
    for table in RULES:
        times = _times(docs, table)
        if not times:
            continue
        last = json.loads((docs / RESULTS / _place(table, times[0], "json")).read_text(encoding="utf-8"))
        pages = [f"{PAGES}/{_place(table, time, 'html')}" for time in times]
        broken = ", ".join(f"{_marked(severity, rule)}" for severity, rule in _broken(last))
        rows.append(
            [
                _link(pages[0], table),
                _shown(times[0]),
                _status(last),
                broken,
                " ".join(_link(page, _shown(time)) for page, time in zip(pages[1:], times[1:], strict=True)),
            ]
        )
    return _html("Data Docs", _table(["Table", "Judged", "Status", "Broken rules", "Before"], rows))


def _page(table: str, result: Mapping[str, Any]) -> str:
    """Return the page of one judgement: every rule with its sentence, and how many rows break it."""
    rows = []
    for of_rule in result["results"]:
        config, broken = of_rule["expectation_config"], of_rule["result"]["observed_value"]
        status = '<span class="passed">passed</span>'
        if not of_rule["success"]:
            status = _marked(config["severity"], _STATUS[config["severity"]])
        says = escape(config["description"])
        rows.append([status, escape(config["kwargs"]["column"]), says, "" if broken is None else f"{broken:,}"])
    up = "../" * len(Path(PAGES, _place(table, "time", "html")).parent.parts)
    head = f"<p>{_link(up + 'index.html', 'Data Docs')} | {_shown(result['run_time'])} | {_status(result)}</p>"
    return _html(table, head + _table(["Status", "Rule", "What holds", "Rows that break it"], rows))


def _status(result: Mapping[str, Any]) -> str:
    """Return the status of a judgement: that of its worst rule."""
    severities = {severity for severity, _ in _broken(result)}
    worst = next((severity for severity in _STATUS if severity in severities), None)
    return _marked(worst, _STATUS[worst]) if worst else '<span class="passed">passed</span>'


def _marked(severity: str, text: str) -> str:
    return f'<span class="{_STATUS[severity]}">{escape(text)}</span>'


def _link(path: str, text: str) -> str:
    return f'<a href="{escape(path)}">{escape(text)}</a>'


def _shown(time: str) -> str:
    return dt.datetime.strptime(time, _TIME).replace(tzinfo=dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    heads = "".join(f"<th>{name}</th>" for name in head)
    lines = ("".join(f'<td data-name="{of}">{cell}</td>' for of, cell in zip(head, row, strict=True)) for row in rows)
    return "<table>\n" + "".join(f"<tr>{line}</tr>\n" for line in (heads, *lines)) + "</table>\n"


def _html(title: str, body: str) -> str:
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{body}</body>\n</html>\n"
    )
