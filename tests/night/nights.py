"""Nights without a JVM, and what they leave: `night` runs one, `rows` reads what it published.

Great Expectations, which takes most of a small night's time, judges only where a test asks for it; elsewhere the same counts
are judged by `counted`.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jobs.__main__ import main
from jobs.ask.engine import Answers
from jobs.audit.attestation import Json, attest
from jobs.cli.output import Console
from jobs.conf import PipelineConf
from jobs.night import gate
from jobs.night import nightly as nights
from jobs.night.gate import Verdict
from jobs.night.nightly import Asked, Summary
from jobs.night.replaying import GroupResult
from jobs.passes import InProcess, Passes
from jobs.store.files import read_files
from jobs.store.warehouse import WRITTEN_TABLES
from namesrv_day.arrow import Digest, rows_of, slices_of, sum_of
from namesrv_day.rules import Measurement
from schemas import gold
from schemas.table import Table
from tests.ingest.given import warehouse_at
from tests.pcap import stretch
from tests.places import CAPTURE

FRAMES, ANSWERS = 28_021, 13_877
JOINED = PipelineConf(join_addresses=True)
Row = dict[str, Any]
_numbers = itertools.count()


class Capture(NamedTuple):
    """A warehouse that holds the bundled capture, and what the night that read it has said."""

    path: Path
    summary: Summary


class Nights(NamedTuple):
    """A warehouse after three nights, one for each day's log, and what each has said; `first`: it after the first of them."""

    path: Path
    logs: list[Path]
    summaries: list[Summary]
    first: Path


class Counting(InProcess):
    """In this process; counts the days of name servers that were replayed, and what their core took."""

    def __init__(self, width: int = 1) -> None:
        super().__init__(width)
        self.days, self.events = 0, 0

    def each(self, task: Any, work: Any) -> list[Any]:
        """See `Passes`."""
        done = super().each(task, work)
        results = [day for of in done if isinstance(of, GroupResult) for day in of.each]
        self.days += len(results)
        self.events += sum(day.events for day in results)
        return done


def capture_in_two(seconds: int, end_s: int = 900) -> tuple[bytes, bytes]:
    """Return the first `seconds` of the bundled capture and what comes behind until `end_s`, as two captures."""
    data = gzip.decompress(CAPTURE.read_bytes())
    return stretch(data, 0, seconds), stretch(data, seconds, end_s)


def night(
    warehouse: Path,
    *inputs: Path,
    conf: PipelineConf | None = None,
    passes: Passes | None = None,
    judge: Any = None,
    **asked: Any,
) -> Summary:
    """Run a night with a name of its own and return its summary; `asked`: further fields of `Asked`."""
    opened = warehouse_at(warehouse, f"run-{next(_numbers):04}{os.environ.get('PYTEST_XDIST_WORKER', '')}", conf)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gate, "validate", judge or counted)
        paths = [str(path) for path in inputs]
        return nights.run(opened, passes or InProcess(), Asked(paths, **asked), silent())


def nightly(warehouse: Path, *words: object) -> int:
    """Run the command `nightly` in this process and return its exit code."""
    return main(["nightly", "--in-process", "--warehouse", str(warehouse), *map(str, words)])


def audited(
    warehouse: Path, at: tuple[str, dt.datetime] | None = None, tables: Iterable[str] = (), known_at: str | None = None
) -> Json:
    """Return the attestation of what is published, and of tables of a name server at an instant."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gate, "validate", counted)
        return attest(Answers(str(warehouse), known_at), warehouse_at(warehouse), at, list(tables), silent())


def silent() -> Console:
    return Console(io.StringIO(), io.StringIO())


def counted(measurements: Iterable[Measurement], docs_dir: Path) -> Verdict:
    """Return the verdict on what was counted, without writing it down."""
    named: dict[str, list[str]] = {"critical": [], "warning": [], "info": []}
    for one in measurements:
        if one.missing or one.broken:
            named["info" if one.missing else one.severity].append(f"{one.table}.{one.rule}")
    return Verdict(named["critical"], named["warning"], named["info"], docs_dir)


# -- what readers see --------------------------------------------------------------------------------------------------


def rows(warehouse: Path, table: Table, run_id: str | None = None) -> list[Row]:
    """Return the rows of a table as the last published run left them, or as an earlier one; instants in microseconds."""
    opened = warehouse_at(warehouse)
    if table is gold.RUNS:
        return list(rows_of(opened.rows(table)))
    if run_id is None:
        return list(rows_of(opened.published_rows(table)))
    run = opened.published_run(run_id)
    files = opened._files_at(table, run.versions[table.name], None)
    return list(rows_of(read_files(opened.path, table, files)))


def findings_of(warehouse: Path) -> dict[str, list[Row]]:
    """Return what was found, by code."""
    found: dict[str, list[Row]] = {}
    for row in rows(warehouse, gold.FINDINGS):
        found.setdefault(row["code"], []).append(row)
    return found


def topics(warehouse: Path, at: str, run_id: str | None = None) -> list[str]:
    """Return the topics in topicQueueTable at an instant, as a run has published them."""
    instant = dt.datetime.fromisoformat(f"{at}+00:00")
    us = (instant - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)
    return sorted(
        {
            row["topic"]
            for row in rows(warehouse, gold.TOPIC_QUEUE_HISTORY, run_id)
            if row["valid_from"] <= us and (row["valid_to"] is None or row["valid_to"] > us)
        }
    )


def restatements(warehouse: Path, run_id: str | None = None) -> list[Row]:
    """Return what a run (None: all of them) has changed in published days."""
    told = Answers(str(warehouse)).ask("SELECT * FROM restatements ORDER BY day, namesrv_id, table_name").dicts()
    return [row for row in told if run_id in (None, row["run_id"])]


def heads(warehouse: Path) -> dict[str, int]:
    opened = warehouse_at(warehouse)
    tables = (*WRITTEN_TABLES, gold.RUNS)
    return {table.name: head for table in tables if (head := opened._base(table)) >= 0}


def digests(warehouse: Path, tables: Iterable[Table]) -> dict[str, Digest]:
    """Return the digests of whole tables as they were published, read from their rows."""
    opened = warehouse_at(warehouse)
    return {table.name: sum_of(slices_of(table.name, opened.published_rows(table)).values()) for table in tables}
