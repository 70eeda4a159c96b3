"""The nightly job: all steps in one process, and what the run has to say for itself."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from jobs.ingest.ingest import ingest
from jobs.ingest.ingested import Ingested, Read
from jobs.ingest.tasks import cores
from jobs.night.days import Days, asked_days, days_to_do
from jobs.night.gate import docs_dir, require_few_quarantined
from jobs.night.joining import begun, suggested_days
from jobs.night.passes import Passes
from jobs.night.publish import Published, gold_digests, publish
from jobs.store.crash import crash_points
from jobs.store.damage import require_whole
from jobs.store.lock import locked
from jobs.store.warehouse import Warehouse

_COUNTED = ("frames", "pieces", "events", "observations", "duplicates", "quarantined")


class Shows(Protocol):
    """Who shows a person how far a run is."""

    def begin(self, step: str) -> None:
        """Say that a step has begun."""

    def progress(self, text: str) -> None:
        """Say how far the step is."""

    def end(self, step: str, seconds: float) -> None:
        """Say that a step has ended."""


@dataclass
class Summary(Read):
    """A run in numbers; the fields are the keys of the summary file.

    A run that has nothing to do shows what the last published one said. `tables` counts rows, bronze and gold, of all
    days; `findings` and `verify` are about the days that were recomputed. `verify`: answers and matched of questions
    about routes, clusters and topics; `others` counts the rest by request. All answers = all matched + the sum of
    `explained` + mismatched. `seconds` by step. `restated`: published slices that the run changed, rows of
    `restatements`. `settings`: by name server and setting, the last value and how it is known.
    """

    run_id: str = ""
    status: str = "nothing_to_do"
    restated: int = 0
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
        path.write_text(json.dumps(vars(self), indent=2, sort_keys=True) + "\n", encoding="utf-8")

    def note_ingested(self, ingested: Ingested) -> None:
        """Note what was read, but for its days: those of a summary are the ones that were recomputed."""
        for each in fields(Read):
            value = getattr(ingested, each.name)
            setattr(self, each.name, Counter(dict(sorted(value.items()))) if isinstance(value, Counter) else value)

    def note_report(self, report: Mapping[str, Any]) -> None:
        """Note what the tables hold, and of the run's days the findings and how the answers compare."""
        self.tables, self.findings = dict(report["tables"]), dict(report["findings"])
        self.verify, self.settings = dict(report["verify"]), dict(report["settings"])
        self.namesrvs = {name: values["version"]["value"] for name, values in self.settings.items()}


@contextmanager
def timed(summary: Summary, console: Shows, step: str) -> Iterator[None]:
    """Show and time one step."""
    console.begin(step)
    began = time.monotonic()
    try:
        with crash_points(step):
            yield
    finally:
        summary.seconds[step] = round(time.monotonic() - began, 3)
        console.end(step, summary.seconds[step])


@dataclass(frozen=True)
class Asked:
    """What a night is asked for: files to read, states to start from, days to recompute even if nothing new is known of them."""

    inputs: Sequence[str] = ()
    snapshots: Sequence[str] = ()
    first: dt.date | None = None
    last: dt.date | None = None


def run(house: Warehouse, passes: Passes, asked: Asked, console: Shows) -> Summary:
    """Run the night and return its summary: read the inputs, recompute what that changes and the days that are asked for.

    Raises GateError, MissingDayError, TamperedError, LayoutError or WarehouseBusyError; what was published before stays
    published.
    """
    summary = Summary(run_id=house.run_id)
    step = partial(timed, summary, console)
    with locked(house.path):
        with step("ingest"):
            house.start_from_published()
            require_whole(house)
            ingested = ingest(house, asked.inputs, asked.snapshots, console.progress, cores())
        summary.note_ingested(ingested)
        wanted = asked_days(house.recorded(), asked.first, asked.last) if asked.first or asked.last else []
        days = days_to_do(house, [*wanted, *suggested_days(house)])
        if days.wanted:
            published = _published(house, passes, ingested, days, step, summary.seconds)
            summary.status, summary.digests = "published", published.digests
            summary.days = [day.isoformat() for day in published.days]
            summary.restated, summary.warnings = published.restated, published.warnings
            summary.note_report(published.report)
        elif (known := house.ledger().last) is not None:
            summary.digests = gold_digests(known.digests)
            summary.note_report(known.report)
        house.clear_staging()
    summary.data_docs = str(docs_dir(house) / "index.html")
    return summary


Step = Callable[[str], AbstractContextManager[None]]


def _published(
    house: Warehouse, passes: Passes, ingested: Ingested, days: Days, step: Step, seconds: Mapping[str, float]
) -> Published:
    require_few_quarantined(house, ingested, days.ingest_runs)
    with step("condense"):
        night, days = begun(house, passes, days)
    with step("replay"):
        night.replay_days(days.wanted, days.recorded)
    with step("publish"):
        counts = {
            **{name: getattr(ingested, name) for name in _COUNTED},
            "ignored": sum(ingested.ignored.values()),
            **{f"ignored.{rule}": count for rule, count in sorted(ingested.ignored.items())},
            **{f"quarantined.{reason}": count for reason, count in sorted(ingested.reasons.items())},
            **ingested.refused,
            "sightings": ingested.sightings,
        }
        return publish(house, night, days, counts, seconds)
