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

from jobs import night
from jobs.console import Console
from jobs.crash import crash_points
from jobs.gate import validate
from jobs.ingest import Ingested, expand, ingest
from jobs.lease import lease
from jobs.plan import Plan, asked_days, plan_of, starting_slices, take_back
from jobs.publish import Published, gold_digests, publish
from jobs.restate import restate_days
from jobs.session import tune_for
from jobs.warehouse import Warehouse

log = logging.getLogger(__name__)
# Below, a night's queries are not worth compiling.
SMALL_FRAMES = 500_000
_SMALL_BYTES = 32 << 20


@dataclass
class Summary:
    """A run in numbers; the fields are the keys of the summary file.

    A run that has nothing to do shows what the last published one said. `tables` counts rows, bronze and gold, of all days;
    `findings` and `verify` are about the days that were recomputed. `verify`: answers = matched + the sum of `explained` +
    mismatched, of questions about routes, clusters and topics; `others` counts the rest by request. `seconds` by step.
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
        with crash_points(step):
            yield
    finally:
        summary.seconds[step] = round(time.monotonic() - began, 3)
        console.end(step, summary.seconds[step])


def run(
    house: Warehouse,
    inputs: Sequence[str],
    console: Console,
    snapshots: Sequence[str] = (),
    *,
    first: dt.date | None = None,
    last: dt.date | None = None,
) -> Summary:
    """Run the night and return its summary: read `inputs`, recompute what that changes and the days from `first` to `last`.

    Raises GateError, MissingDayError, TamperedError, LayoutError or WarehouseBusyError; what was published before stays
    published.
    """
    summary = Summary(run_id=house.run_id)
    with lease(house.path):
        with timed(summary, "ingest", console):
            house.ledger()  # another layout is refused before anything is written
            take_back(house)
            ingested = _ingested(house, inputs, snapshots)
        _note_ingested(summary, ingested)
        asked = asked_days(house.recorded(), first, last) if first or last else []
        plan = plan_of(house, asked)
        if plan.days:
            tune_for(house.spark, small=plan.frames < SMALL_FRAMES)
            published = _run_steps(house, summary, ingested, plan, console)
            summary.status, summary.digests = "published", published.digests
            summary.warnings += published.warnings
            _note_report(summary, published.report)
        elif (known := house.ledger().last) is not None:
            summary.digests = gold_digests(known.digests)
            _note_report(summary, known.report)
    summary.data_docs = str(house.docs_dir / "index.html")
    return summary


def _ingested(house: Warehouse, inputs: Sequence[str], snapshots: Sequence[str]) -> Ingested:
    if inputs or snapshots:
        tune_for(house.spark, small=sum(path.stat().st_size for path in expand(inputs)) < _SMALL_BYTES)
    return ingest(house, inputs, snapshots)


def _run_steps(house: Warehouse, summary: Summary, ingested: Ingested, plan: Plan, console: Console) -> Published:
    with timed(summary, "validate", console):
        starts = starting_slices(house, plan)
        summary.warnings += validate(house, plan.days, ingested, plan.ingest_runs)
    with timed(summary, "replay", console):
        days = night.replay(house, plan.days, plan.recorded)
    with ThreadPoolExecutor(max_workers=1) as beside, timed(summary, "flag", console):
        # Neither reads what the other writes, and both leave a core idle while they plan.
        verified = beside.submit(_timed_verify, house, days)
        flagged = night.flag_days(house, days, plan.recorded)
        summary.seconds["verify"] = verified.result()
    days = sorted({*days, *flagged})
    summary.days = [day.isoformat() for day in days]
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
        return publish(house, plan, days, starts, counts, summary.seconds)


def _timed_verify(house: Warehouse, days: Sequence[dt.date]) -> float:
    began = time.monotonic()
    with crash_points("verify"):
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


def _note_report(summary: Summary, report: Mapping[str, Any]) -> None:
    """Note what the tables hold, and of the run's days the findings and how the answers compare."""
    summary.tables, summary.findings = dict(report["tables"]), dict(report["findings"])
    summary.verify, summary.settings = dict(report["verify"]), dict(report["settings"])
    summary.namesrvs = {name: values["version"]["value"] for name, values in summary.settings.items()}
