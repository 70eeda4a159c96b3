"""The nightly job: all steps in one process, and the summary of the run."""

from __future__ import annotations

import datetime as dt
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import GateError, MissingDayError, first_line
from jobs.ingest.ingest import IN_ORDER, commit_read, join_addresses, read
from jobs.ingest.sources import Given, Ingested, Read, given_files
from jobs.night.gate import SMALL, docs_dir, measured_small, require_sound, require_unbroken
from jobs.night.night import Days, Night, asked_days, days_to_do, holes
from jobs.passes import OF_ROWS, Passes, for_files
from jobs.store.check import require_whole
from jobs.store.files import digest_of
from jobs.store.ledger import as_rows
from jobs.store.places import locked
from jobs.store.warehouse import DATA_TABLES, WRITTEN_TABLES, Warehouse
from namesrv_day.arrow import Digest, Slice, ask, sum_of
from namesrv_day.numbers import report_of
from schemas import bronze, gold
from schemas.asked import statement

_REPORTED = {
    gold.FINDINGS: ["code", "told_on", "ended_on"],
    gold.ANSWER_CHECKS: None,
    gold.ROUTE_MISMATCHES: ["answer_time", "namesrv_id", "code", "subject", "event_id", "classification"],
    gold.ORDER_DECISIONS: ["decision_id"],
    gold.NAMESRV_SETTINGS: None,
}
"""Columns that a run's report reads, by table; None: all."""


def _late(warehouse: Warehouse, day: dt.date, ingest_runs: Collection[str]) -> set[str]:
    """Return the name servers for which these ingest runs read rows of the last known day that are earlier than its known end."""
    until = {one.namesrv_id: one.spans[-1].until - dt.timedelta(microseconds=1) for one in warehouse.coverage()}
    if not until:
        return set()
    early = pc.field("effect_time") < max(until.values())
    is_new = pc.field("ingest_run").isin(pa.array([*ingest_runs], pa.string()))
    late = set[str]()
    for table in bronze.RECORDED_TABLES:
        rows = warehouse.rows(table, [day], ["namesrv_id", "effect_time"], early & is_new)
        for one in rows.group_by("namesrv_id").aggregate([("effect_time", "min")]).to_pylist():
            if one["effect_time_min"] < until.get(one["namesrv_id"], one["effect_time_min"]):
                late.add(one["namesrv_id"])
    return late


def publish(
    warehouse: Warehouse,
    night: Night,
    days: Days,
    counts: Mapping[str, int],
    summary: Summary,
    share: Callable[[float, int], None],
) -> None:
    """Check the results of the night; if they pass, commit them and write the run into the ledger. Readers see it from then on.

    `counts`: frames read, by what became of them; `summary` gets the run's numbers; `share` gets the progress. Raises
    GateError if a critical rule is broken.
    """
    done = sorted(night.replayed)
    inputs = night.read.digests
    known = warehouse.slices_in_force({None, *done})
    warnings = require_sound(warehouse, [*measured_small(warehouse, done), *night.measurements])
    share(1, 3)
    outputs, outcomes = night.outputs, sum((of.outcomes for of in night.results), Counter[str]())
    were = warehouse.ledger().days
    late = _late(warehouse, max(were), days.ingest_runs) if were and max(were) in done else set[str]()
    digests = _digests(warehouse, known, {**inputs, **outputs})
    rows = {table.name: warehouse.rows(table, done, columns) for table, columns in _REPORTED.items()}
    is_of_days = pc.field("told_on").isin(done) | pc.field("ended_on").isin(done)
    rows[gold.FINDINGS.name] = rows[gold.FINDINGS.name].filter(is_of_days)
    first = [table.name for table in bronze.TABLES]
    in_order = [*first, *sorted(digests.keys() - set(first))]
    report = {**report_of(rows, done), "tables": {name: digests[name].rows for name in in_order}}
    warehouse.commit([*DATA_TABLES, *IN_ORDER], lambda done, of: share(2 + done / of, 3))
    warehouse.note_run(
        done,
        {
            "status": "published",
            "gate": "passed",
            "ingest_runs": days.ingest_runs,
            "sources": days.sources,
            "late_namesrvs": sorted(late),
            "inputs": as_rows({**night.starts, **inputs}),
            "outputs": as_rows(outputs),
            "coverage": [row for result in night.results for row in result.coverage],
            "digests": {name: str(digest) for name, digest in digests.items()},
            "counts": {**counts, **{f"outcome.{name}": count for name, count in outcomes.items()}},
            "seconds": summary.seconds,
            "report": json.dumps(report, sort_keys=True),
        },
    )
    summary.warnings = [*warnings, *holes(inputs, warehouse.slices_in_force())]
    summary.digests = gold_digests(digests)
    if were.intersection(done):
        _, _, restatements = (statement("restatements") or "").partition(" AS\n")
        restated = ask(f"SELECT run_id FROM ({restatements})", {"runs": warehouse.rows(gold.RUNS)})  # noqa: S608  a view of ours
        summary.restated = restated["run_id"].to_pylist().count(warehouse.run_id)
    summary.note_report(report)


def gold_digests(digests: Mapping[str, Digest]) -> dict[str, str]:
    """Return the digests of the gold tables as text."""
    return {table.name: str(digests.get(table.name, Digest())) for table in sorted(DATA_TABLES, key=lambda t: t.name)}


def _digests(
    warehouse: Warehouse, replaced: Mapping[Slice, Digest], written: Mapping[Slice, Digest]
) -> dict[str, Digest]:
    """Return the digest of each table: the last run's, changed by the replaced and the new slices (files, for a small table)."""
    last = warehouse.ledger().last
    before = {} if last is None else last.digests

    def of(table: str, slices: Mapping[Slice, Digest]) -> Digest:
        return sum_of(digest for cut, digest in slices.items() if cut.table == table)

    names = sorted(table.name for table in WRITTEN_TABLES if table.partition_by)
    found = {name: before.get(name, Digest()) - of(name, replaced) + of(name, written) for name in names}
    for table in SMALL:
        known = before.get(table.name)
        now = {file.path: file for file in warehouse.files(table)}
        was = {} if known is None else {file.path: file for file in warehouse.published_files(table)}
        added, gone = ([of[path] for path in sorted(of.keys() - other)] for of, other in ((now, was), (was, now)))
        of_added, of_gone = (digest_of(warehouse.path, table, files) for files in (added, gone))
        found[table.name] = (known or Digest()) - of_gone + of_added
    return found


log = logging.getLogger(__name__)
OF_FILES = (GateError, *OF_ROWS)
"""Failures that an unexpected input file may cause: a broken rule, or a replay that cannot go on."""


class Shows(Protocol):
    """Shows the progress of a run."""

    def begin(self, step: str) -> None:
        """Show that a step has begun."""

    def share(self, done: float, of: int) -> None:
        """Show that `done` of the step's `of` equal parts are done; parts under way count in part."""

    def end(self, step: str, seconds: float) -> None:
        """Show that a step has ended."""


@dataclass
class Summary(Read):
    """A run in numbers; the fields are the keys of the summary file.

    A run that has nothing to do shows the figures of the last published one, `last_run`. `tables` counts rows, bronze and
    gold, of all days; `findings` and `verify` cover the recomputed days. In `verify`, answers and matched count requests for
    routes, clusters and topics; `others` counts the rest by request. All answers = all matched + the sum of `explained` +
    mismatched. `seconds` by step. `restated`: published slices that the run changed, rows of `restatements`. `settings`: by name
    server and setting, the last value and how it is known. `gate`: the reason, if the status is `refused`.
    """

    run_id: str = ""
    last_run: str = ""
    status: str = "nothing_to_do"
    gate: str = ""
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
        """Note the result of ingest without its days: `days` of a summary are the recomputed ones."""
        for each in fields(Read):
            value = getattr(ingested, each.name)
            setattr(self, each.name, Counter(dict(sorted(value.items()))) if isinstance(value, Counter) else value)

    def note_report(self, report: Mapping[str, Any]) -> None:
        """Note the row counts of tables, and for the run's days the findings and the comparison of answers."""
        self.tables, self.findings = dict(report["tables"]), dict(report["findings"])
        self.verify, self.settings = dict(report["verify"]), dict(report["settings"])
        self.namesrvs = {name: values["version"]["value"] for name, values in self.settings.items()}


@contextmanager
def timed(summary: Summary, console: Shows, step: str) -> Iterator[None]:
    """Show and time one step."""
    console.begin(step)
    began = time.monotonic()
    try:
        yield
    finally:
        summary.seconds[step] = round(time.monotonic() - began, 3)
        console.end(step, summary.seconds[step])


@dataclass(frozen=True)
class Asked:
    """Request for a night: files to read, and days to recompute even without new rows."""

    inputs: Sequence[str] = ()
    first: dt.date | None = None
    last: dt.date | None = None


def run(warehouse: Warehouse, passes: Passes, asked: Asked, console: Shows) -> Summary:
    """Run the night and return its summary: read the inputs, and recompute what follows from them and the days asked for.

    A file that breaks a rule is left out, and named. Raises UsageError if executors do not see the warehouse, MissingDayError,
    TamperedError, LayoutError or WarehouseBusyError; what was published before stays published. If the gate refuses the night
    even without such files, nothing is raised: the summary says so.
    """
    summary, passes.share = Summary(run_id=warehouse.run_id), console.share
    with locked(warehouse.path):
        passes.require_shared()
        _Nightly(warehouse, passes, asked, console, summary).run()
        warehouse.clear_staging()
    summary.data_docs = str(docs_dir(warehouse) / "index.html")
    return summary


class _Nightly:
    """One night. If the gate refuses it with some of its files, it runs again without them."""

    def __init__(self, warehouse: Warehouse, passes: Passes, asked: Asked, console: Shows, summary: Summary) -> None:
        self._warehouse, self._passes, self._asked = warehouse, passes, asked
        self._console, self._summary = console, summary
        self._step = partial(timed, summary, console)
        self._replayed: list[dt.date] = []

    def run(self) -> None:
        """Run the night, and fill in its summary."""
        warehouse, summary = self._warehouse, self._summary
        given, ingested = Given(), Ingested()
        with ExitStack() as held:
            try:
                with self._step("ingest"):
                    warehouse.start_from_published()
                    require_whole(warehouse)
                    given = held.enter_context(given_files(warehouse, self._asked.inputs, self._passes))
                    ingested = self._read(given, {})
                self._publish(ingested)
            except OF_FILES as error:
                refused = self._refused(given, error)
                if refused is None:
                    if not isinstance(error, GateError):
                        raise
                    summary.status, summary.gate = "refused", str(error)
                    row = {"status": "refused", "gate": summary.gate, "counts": ingested.counts}
                    warehouse.discard()
                    warehouse.note_run(self._replayed, {**row, "seconds": summary.seconds})
                    return
                with self._step("ingest"):
                    ingested = self._read(given, refused)
                self._publish(ingested)

    def _read(self, given: Given, refused: Mapping[str, str], only: Collection[str] | None = None) -> Ingested:
        """Read the new files, or those with these digests, and take up the rows of earlier runs that published nothing."""
        warehouse = self._warehouse
        warehouse.discard()
        if only is not None:
            given = replace(given, sources=[source for source in given.sources if source.sha256 in only])
        waiting = warehouse.waiting()
        ingested = read(warehouse, given, for_files(self._passes), refused, waiting.keys())
        for of_run in waiting.values():
            ingested.take_up(of_run[0].counts)
            ingested.sources += [source.name for source in of_run if source.verdict == bronze.ACCEPTED]
            ingested.errors += [source.error for source in of_run if source.error is not None]
        ingested.errors = list(dict.fromkeys(ingested.errors))
        return ingested

    def _days(self, *, is_trial: bool = False) -> Days:
        """Return the days to do; a trial ignores the requested days if one of them is not recorded."""
        warehouse, asked = self._warehouse, self._asked
        days: list[dt.date] = []
        if warehouse.conf.join_addresses and warehouse.ledger().last is not None:
            # Days with a published finding that suggests joining addresses.
            suggests = pc.match_substring(pc.field("detail"), '"] addresses = ["')
            is_one = (pc.field("code") == "SAME_PROCESS_SUSPECTED") & suggests
            days = warehouse.published_rows(gold.FINDINGS, None, ["told_on"], is_one)["told_on"].to_pylist()
        if asked.first or asked.last:
            try:
                days += asked_days(warehouse.recorded(), asked.first, asked.last)
            except MissingDayError:
                if not is_trial:
                    raise
        return days_to_do(warehouse, set(days))

    def _begun(self, days: Days) -> tuple[Night, Days]:
        """Return a night that has read its days, and these days; with `join_addresses` there may be more than wanted.

        Name servers that seem to be one are joined, by the same evidence as the finding: those of the first day that shows any.
        Raises TamperedError as `Night.begin`.
        """
        warehouse = self._warehouse
        while True:
            night = Night(warehouse, self._passes)
            night.begin(days)
            if not warehouse.conf.join_addresses:
                return night, days
            suspected = (night.suspected(day).to_pylist() for day in days.wanted)
            groups = (
                [[row["namesrv_id"], *row["others"]] for row in rows if row["kind"] == "one"] for rows in suspected
            )
            one = next(filter(None, groups), None)
            if one is None:
                return night, days
            join_addresses(warehouse, one)
            days = days_to_do(warehouse, days.wanted)

    def _publish(self, ingested: Ingested) -> None:
        """Publish the days to do, or only commit what was read if there are none."""
        warehouse, summary = self._warehouse, self._summary
        summary.note_ingested(ingested)
        days = self._days()
        if days.wanted:
            with self._step("condense"):
                night, days = self._begun(days)
            with self._step("replay"):
                night.replay_days(days.wanted, days.recorded)
            self._replayed = sorted(night.replayed)
            with self._step("publish"):
                publish(warehouse, night, days, ingested.counts, summary, self._console.share)
            summary.status, summary.days = "published", [day.isoformat() for day in self._replayed]
            return
        commit_read(warehouse, ingested)
        if any(source.verdict != bronze.ACCEPTED for source in warehouse.recorded()):
            require_sound(warehouse, measured_small(warehouse, []))
        if (known := warehouse.ledger().last) is not None:
            summary.last_run, summary.digests = known.run_id, gold_digests(known.digests)
            summary.note_report(known.report)

    # -- files that the gate refuses -----------------------------------------------------------------------------------

    def _refused(self, given: Given, error: Exception) -> dict[str, str] | None:
        """Return the digests of new files to leave out so that the gate passes, with reasons; None if files are not the cause."""
        self._warehouse.discard()
        known = {source.sha256 for source in self._warehouse.recorded()}
        fresh = list(dict.fromkeys(source.sha256 for source in given.sources if source.sha256 not in known))
        if not fresh or (isinstance(error, GateError) and not error.is_of_files) or self._fails(given, []) is not None:
            return None
        log.warning("trying the run without some of its %d new files, because: %s", len(fresh), first_line(error))
        named = {source.sha256: source.path.name for source in given.sources}
        wrong = self._wrong(given, [], fresh, error)
        return {sha256: f"{named[sha256]}: refused: {why}" for sha256, why in wrong.items()}

    def _wrong(self, given: Given, good: list[str], files: list[str], error: Exception) -> dict[str, str]:
        """Return which of `files` are wrong, and why; together with the `good` ones they make the night fail."""
        if len(files) == 1:
            return {files[0]: first_line(error)}
        half = len(files) // 2
        wrong: dict[str, str] = {}
        for some in (files[:half], files[half:]):
            failed = self._fails(given, [*good, *some])
            found = {} if failed is None else self._wrong(given, good, some, failed)
            good = [*good, *(sha256 for sha256 in some if sha256 not in found)]
            wrong |= found
        return wrong

    def _fails(self, given: Given, files: Sequence[str]) -> Exception | None:
        """Return why a night with only these of its new files would not be published; None if it would."""
        warehouse = self._warehouse
        try:
            self._read(given, {}, files)
            days = self._days(is_trial=True)
            if days.wanted:
                night, days = self._begun(days)
                night.replay_days(days.wanted, days.recorded)
                require_unbroken([*measured_small(warehouse, sorted(night.replayed)), *night.measurements])
        except OF_FILES as error:
            return error
        finally:
            warehouse.clear_staging()
            warehouse.discard()
        return None
