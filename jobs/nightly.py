"""The nightly job: all steps in one session, and what the run has to say for itself."""

from __future__ import annotations

import datetime as dt
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from jobs import night, tables
from jobs.console import Console
from jobs.ingest import Ingested, expand, ingest
from jobs.night import Warehouse
from jobs.restate import restate_days
from jobs.session import tune_for
from namesrv_core.answers import ROUTE_QUESTIONS
from namesrv_wire.codes import request_name
from schemas import bronze

log = logging.getLogger(__name__)
# Below, a night's queries are not worth compiling.
SMALL_FRAMES = 500_000
_SMALL_BYTES = 32 << 20


@dataclass
class Summary:
    """A run in numbers; the fields are the keys of the summary file.

    `verify`: answers = matched + the sum of `explained` + mismatched, of questions about routes, clusters and topics;
    `others` counts the rest by request. `seconds` by step. `tables` counts rows, bronze and gold.
    `refused`: of the quarantined, rows that were too late or whose clock went back. `restated`: published slices that the run
    changed, rows of `restatements`.
    `settings`: by name server and setting, the last value and how it is known.
    """

    run_id: str = ""
    status: str = "nothing_to_do"
    frames: int = 0
    events: int = 0
    observations: int = 0
    duplicates: int = 0
    quarantined: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    restated: int = 0
    packets: int = 0
    sources: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    days: list[str] = field(default_factory=list)
    namesrvs: dict[str, str] = field(default_factory=dict)
    settings: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    findings: dict[str, int] = field(default_factory=dict)
    verify: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    data_docs: str = ""

    def write(self, path: Path) -> None:
        """Write the summary as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2, sort_keys=True) + "\n", encoding="utf-8")


@contextmanager
def timed(summary: Summary, step: str, console: Console) -> Iterator[None]:
    """Show and time one step."""
    console.begin(step)
    began = time.monotonic()
    try:
        yield
    finally:
        summary.seconds[step] = round(time.monotonic() - began, 3)
        console.end(step, summary.seconds[step])


def run(house: Warehouse, inputs: Sequence[str], console: Console, snapshots: Sequence[str] = ()) -> Summary:
    """Run the night and return its summary. Raises GateError; what was published before stays published."""
    summary = Summary(run_id=house.run_id)
    with night.lease(house.path):
        with timed(summary, "ingest", console):
            tune_for(house.spark, small=sum(path.stat().st_size for path in expand(inputs)) < _SMALL_BYTES)
            ingested = ingest(house.spark, house.path, inputs, house.conf, house.run_id, house.started, snapshots)
            house.forget(*bronze.TABLES)
        _note_ingested(summary, ingested)
        read = night.recorded(house)
        ingest_runs, first_day = night.uncovered(house, read)
        if first_day is not None:
            days = night.days_of(read, first=min([first_day, *ingested.days]))
            frames = sum(source.frames for source in read if source.days.intersection(days))
            tune_for(house.spark, small=frames < SMALL_FRAMES)
            _run_steps(house, summary, ingested, days, ingest_runs, console)
            summary.status = "published"
        with timed(summary, "report", console):
            _note_tables(summary, house)
    return summary


def _run_steps(
    house: Warehouse,
    summary: Summary,
    ingested: Ingested,
    days: Sequence[dt.date],
    ingest_runs: Sequence[str],
    console: Console,
) -> None:
    with timed(summary, "validate", console):
        summary.warnings += night.validate(house, ingested)
    with timed(summary, "replay", console):
        days = night.replay(house, days)
        summary.days = [day.isoformat() for day in days]
    with ThreadPoolExecutor(max_workers=1) as beside, timed(summary, "flag", console):
        # Neither reads what the other writes, and both leave a core idle while they plan.
        verified = beside.submit(_timed_verify, house, days)
        night.flag_days(house, days)
        summary.seconds["verify"] = verified.result()
    with timed(summary, "restate", console):
        summary.restated = restate_days(house, days)
    with timed(summary, "publish", console):
        counts = {
            "frames": ingested.frames,
            "events": ingested.events,
            "observations": ingested.observations,
            "duplicates": ingested.duplicates,
            "quarantined": ingested.quarantined,
            "ignored": sum(ingested.ignored.values()),
            **ingested.refused,
        }
        published = night.publish(house, days, ingest_runs, counts, summary.seconds)
        summary.warnings += published.warnings
        summary.digests = published.digests


def _timed_verify(house: Warehouse, days: Sequence[dt.date]) -> float:
    began = time.monotonic()
    night.verify_days(house, days)
    return round(time.monotonic() - began, 3)


def _note_ingested(summary: Summary, ingested: Ingested) -> None:
    summary.frames, summary.packets = ingested.frames, ingested.packets
    summary.events, summary.observations = ingested.events, ingested.observations
    summary.duplicates, summary.quarantined = ingested.duplicates, ingested.quarantined
    summary.ignored = dict(sorted(ingested.ignored.items()))
    summary.refused = dict(sorted(ingested.refused.items()))
    summary.sources = [*ingested.sources, *ingested.known_sources]
    summary.errors = list(ingested.errors)


def _note_tables(summary: Summary, house: Warehouse) -> None:
    """Note what the tables hold after the run: rows, findings, and how the answers compare."""
    frames = house.data()
    if not summary.digests:
        summary.digests = tables.digests(frames)
    counts = tables.row_counts(house.bronze())
    summary.tables = {**counts, **night.row_counts(summary.digests)}
    summary.findings = {row["code"]: row["count"] for row in frames["findings"].groupBy("code").count().collect()}
    summary.verify = verify_numbers(frames)
    summary.settings = settings_in_force(frames["namesrv_settings"])
    summary.namesrvs = {name: values["version"]["value"] for name, values in summary.settings.items()}
    summary.data_docs = str(house.docs_dir / "index.html")


def settings_in_force(namesrv_settings: Any) -> dict[str, dict[str, dict[str, Any]]]:  # a frame
    """Return the last value of each setting by name server, with its source and the answers for and against it."""
    columns = ("value", "source", "answers_for", "answers_against")
    last = F.max_by(F.struct(*columns), F.struct("day", "from_seq")).alias("last")
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in namesrv_settings.groupBy("namesrv_id", "setting").agg(last).orderBy("namesrv_id", "setting").collect():
        found.setdefault(row["namesrv_id"], {})[row["setting"]] = row["last"].asDict()
    return found


def verify_numbers(frames: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the answers compare: those about routes, clusters and topics, and beside them all `others`.

    Answers, matched, explained by class, mismatched, and of the matched those equal in order and in bytes. `others`:
    answers and matched by name of the request, for KV entries, member groups and responses to events.
    """
    about_routes = F.col("code").isin(sorted(map(int, ROUTE_QUESTIONS)))
    checks, mismatches = frames["answer_checks"], frames["route_mismatches"].where(about_routes)
    sums = [F.sum(c).alias(c) for c in ("answers", "matched", "same_order", "same_bytes", "in_flight", "mismatched")]
    row = checks.where(about_routes).agg(*sums).first()
    explained = mismatches.where("classification <> 'mismatched'").groupBy("classification").count()
    numbers = {name: int(value or 0) for name, value in row.asDict().items()}
    others = checks.where(~about_routes).groupBy("code").agg(*sums[:2]).orderBy("code").collect()
    return {
        **numbers,
        "explained": {found["classification"]: found["count"] for found in explained.collect()},
        "others": {request_name(o["code"]): {"answers": o["answers"], "matched": o["matched"]} for o in others},
        "order_decisions": frames["order_decisions"].count(),
    }
